/**
 * Identifies the calling enforcement point: one of the provisioning file, by its credential or by an RFC 9421
 * signature with a key that it publishes. Each uses the one kind of proof that it was provisioned with.
 * Contract: "Authentication" (enforcement point at the organization).
 */
import { timingSafeEqual } from 'node:crypto'
import type { FastifyRequest } from 'fastify'
import type { Credential } from '../../http/servers/endpoint.ts'
import { verifyByPublishedKeys } from '../../http/servers/published-keys.ts'
import { signedMessage } from '../../http/servers/signed-request.ts'
import { LATE, waitAtMost } from '../../limits/patience.ts'
import { sha256 } from '../../wire/encoding.ts'
import { Refusal, unavailable } from '../../wire/refusal.ts'
import type { OrganizationPoint } from '../../config/provisioning/organization-file.ts'
import type { Organization } from '../context.ts'

/** An enforcement point that publishes its keys slowly delays the others no longer than this. */
const KEYS_WAIT_MS = 2_000

/** The owners that a proven enforcement point may ask about: the owner of each RFC 9728 `resource` of its. */
export type Enforcing = Pick<OrganizationPoint, 'resources'>

/** Refuses 401 `invalid_token` for anybody else; 503 if the keys of a possible signer cannot be fetched. */
export const ENFORCEMENT_POINT: Credential<Organization, Enforcing> = {
  names: ['enforcement', 'enforcement_signature'],
  refusal: 'invalid_token',
  async admit(organization, request, run) {
    const credential = /^bearer +(\S.*)$/i.exec(request.headers.authorization ?? '')?.[1]
    return run(
      credential === undefined
        ? await bySignature(organization, request)
        : byCredential(organization, credential),
    )
  },
}

function byCredential({ enforcementPoints }: Organization, credential: string): Enforcing {
  const digest = sha256(credential)
  const point = enforcementPoints.find(
    ({ proof }) => proof.kind === 'credential' && timingSafeEqual(proof.sha256, digest),
  )
  if (point !== undefined) return point
  throw unproven('Send the credential that the organization provisioned for you, after Bearer.')
}

/**
 * A key that two of them publish counts for the resources of both, so neither can displace the other by
 * publishing it.
 */
async function bySignature(organization: Organization, request: FastifyRequest): Promise<Enforcing> {
  const message = signedMessage(request, organization.base)
  const now = organization.now()
  const { enforcementKeys: keys } = organization
  const results = await Promise.allSettled(
    organization.enforcementPoints.flatMap(point => {
      if (point.proof.kind !== 'keys') return []
      const url = point.proof.jwks_uri
      const source = { keys: () => keys.keys(url), find: (kid: string) => keys.find(url, kid) }
      const verified = verifyByPublishedKeys(message, source, { now })
      return [waitAtMost(KEYS_WAIT_MS, verified).then(found => (found === LATE ? LATE : point))]
    }),
  )
  const known = results.flatMap(one => (one.status === 'fulfilled' && one.value !== LATE ? [one.value] : []))
  if (known.length > 0) return { resources: new Map(known.flatMap(({ resources }) => [...resources])) }
  const areAllRefusals = results.every(one => one.status === 'rejected' && one.reason instanceof Refusal)
  if (areAllRefusals)
    throw unproven(
      'Sign with a key that you publish where the organization provisioned, or send your credential.',
    )
  throw unavailable('Try again shortly: your keys cannot be fetched.', 5)
}

function unproven(detail: string): Refusal {
  return new Refusal('invalid_token', detail, { headers: { 'www-authenticate': 'Bearer' } })
}
