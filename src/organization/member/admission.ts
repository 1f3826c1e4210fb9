/**
 * The ways for a person to get in: a code, or an assertion of the charter's identity provider. Contract: "The
 * organization's authority" (join by invitation, by identity-provider vouching or by shared code).
 */
import type { FastifyRequest } from 'fastify'
import { z } from 'zod'
import { refuseGuessing } from '../../credentials/attempt-limit.ts'
import { proveAssertion } from '../../credentials/identity-assertion.ts'
import { plainText } from '../../http/servers/pages.ts'
import { spendSignature } from '../../storage/organization/activity.ts'
import { readCharter } from '../../storage/organization/charters.ts'
import type { Tx } from '../../storage/organization/database.ts'
import { answerInvitation, type Person } from '../../storage/organization/invitations.ts'
import type { Charter } from '../../wire/organization/charter.ts'
import { Refusal } from '../../wire/refusal.ts'
import type { Organization } from '../context.ts'
import { reportingRefusal } from '../security-log.ts'
import { codeOf, goodCode, invalidCode } from './codes.ts'

/** Either of the two, as it is sent. */
export const ENTRY = {
  code: plainText(200).optional(),
  assertion: plainText(16_384).optional(),
}
export type AdmissionEntry = z.output<z.ZodObject<typeof ENTRY>>

/** Says that a body must have one of the two, and not both. */
export const isOneEntry = ({ code, assertion }: AdmissionEntry): boolean =>
  (code === undefined) !== (assertion === undefined)
export const ONE_ENTRY = 'give a code or an assertion, and not both'

/**
 * Proves again, under the lock of the head and the charter in force, what lets her in, and spends it.
 * @returns how she came in.
 */
export type JoinAdmission = (tx: Tx, charter: Charter) => Promise<'invitation' | 'shared_code' | 'assertion'>

/**
 * Refuses 403 if it does not let this person in; 429 if a source or a code failed too often; 503 if that
 * cannot be found out.
 */
export async function admissionOf(
  organization: Organization,
  request: Pick<FastifyRequest, 'ip'>,
  entry: Person & AdmissionEntry,
): Promise<JoinAdmission> {
  const { owner, as_uri } = entry
  const attempt = { event: 'entry_refused', source: as_uri, ids: { owner, as_uri } } as const
  const reported = <T>(prove: () => Promise<T>): Promise<T> => reportingRefusal(organization, attempt, prove)
  const admission = await reported(() => provenAdmission(organization, request, entry))
  // It was good just now, so this is no guess; but an assertion may have been presented before.
  return (tx, charter) => reported(() => admission(tx, charter))
}

async function provenAdmission(
  organization: Organization,
  request: Pick<FastifyRequest, 'ip'>,
  { code, assertion, ...person }: Person & AdmissionEntry,
): Promise<JoinAdmission> {
  if (assertion !== undefined) return byAssertion(organization, request, { assertion, ...person })
  await goodCode(organization, request, { code: code!, ...person })
  return async tx => {
    const good = await codeOf(tx, code!, person)
    if (good === undefined) throw invalidCode()
    if (good.code_id === undefined) return 'shared_code'
    if (!(await answerInvitation(tx, good.code_id, 'joined'))) throw invalidCode()
    return 'invitation'
  }
}

async function byAssertion(
  organization: Organization,
  { ip }: Pick<FastifyRequest, 'ip'>,
  { assertion, owner }: Person & { assertion: string },
): Promise<JoinAdmission> {
  const { attempts, issuer: audience, identityKeys, database } = organization
  refuseGuessing(attempts, ip)
  const vouching = vouchingFor(owner, (await readCharter(database.ofNobody))?.charter)
  try {
    if (vouching === undefined) throw notVouchedFor()
    const expected = { ...vouching, audience, now: organization.now() }
    const { digest, expiresAt } = await proveAssertion(assertion, identityKeys(vouching.issuer), expected)
    return async (tx, charter) => {
      const now = vouchingFor(owner, charter)
      if (now?.issuer !== vouching.issuer || now.subject !== vouching.subject) throw notVouchedFor()
      // It is not remembered beyond its end, except that clocks may differ.
      if (!(await spendSignature(tx, digest, expiresAt - organization.now() + CLOCKS_SECONDS)))
        throw refusedAssertion('Get a fresh assertion: this one was presented before.')
      return 'assertion'
    }
  } catch (error) {
    if (!(error instanceof Refusal) || error.status === 503) throw error
    attempts.failed(ip)
    throw error.code === 'invalid_token' ? refusedAssertion(error.detail, error) : error
  }
}

const CLOCKS_SECONDS = 60

/** The party that vouches for an owner, and its name for her. */
function vouchingFor(
  owner: string,
  charter: Charter | undefined,
): { issuer: string; subject: string } | undefined {
  const provider = charter?.identity_provider
  if (provider === undefined || provider === null || !Object.hasOwn(provider.subjects, owner))
    return undefined
  return { issuer: provider.issuer, subject: provider.subjects[owner]! }
}

function notVouchedFor(): Refusal {
  return refusedAssertion(
    'Ask the organization for a code: its identity provider does not vouch for this owner.',
  )
}

function refusedAssertion(detail: string | undefined, cause?: unknown): Refusal {
  return new Refusal('request_denied', detail, { extra: { reason: 'invalid_assertion' }, cause })
}
