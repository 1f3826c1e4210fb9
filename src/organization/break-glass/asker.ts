/**
 * The caller that asks for an emergency grant: the holder of the key that the grant would be bound to, proved
 * before anything else is read. Contract: "The organization's authority" (`/break-glass`: signing with the
 * key that the grant binds to).
 */
import { z } from 'zod'
import { parseBody } from '../../http/servers/bodies.ts'
import type { Credential } from '../../http/servers/endpoint.ts'
import { signedMessage } from '../../http/servers/signed-request.ts'
import { keyNamed, importPublicJwk, type PublicKey } from '../../wire/signatures/keys.ts'
import { verifyRequestApart, type VerifiedSignature } from '../../wire/signatures/http-signature.ts'
import { refusingAs } from '../../wire/refusal.ts'
import type { Organization } from '../context.ts'

/** The key in the body, and its signature over the request. */
export interface Asker {
  readonly key: PublicKey
  readonly signature: VerifiedSignature
}

const NAMES_KEY = z.looseObject({ agent_jwk: z.record(z.string(), z.unknown()) })

/**
 * Refuses 401 `invalid_token` if the request is not signed, body and all, by the key that its body names.
 */
export const AGENT_KEY: Credential<Organization, Asker> = {
  names: ['agent_key'],
  refusal: 'invalid_token',
  async admit(organization, request, run) {
    const { agent_jwk } = parseBody(NAMES_KEY, request.body)
    const key = refusingAs('invalid_token', () => importPublicJwk(agent_jwk))
    const kid = typeof agent_jwk['kid'] === 'string' ? agent_jwk['kid'] : undefined
    const signature = await verifyRequestApart(signedMessage(request, organization.base), {
      requiredComponents: ['@method', '@authority', '@path'],
      mustCoverDigest: true,
      absentAuthorizationIsEmpty: true,
      keyidRequired: false,
      now: organization.now(),
      findKey: keyid => (keyid === undefined || keyNamed([{ ...key, kid }], keyid) ? key : undefined),
    })
    return run({ key, signature })
  },
}
