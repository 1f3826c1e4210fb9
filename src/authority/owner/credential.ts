/**
 * What a request to the owner API presents as its credential, and how one is refused.
 * Contract: "Authentication" (owner at the owner API: each sufficient, neither a fallback of the other).
 */
import type { FastifyRequest } from 'fastify'
import type { Db, Tx } from '../../storage/authority/database.ts'
import type { Actor } from '../../wire/actor.ts'
import { Refusal, refuse } from '../../wire/refusal.ts'
import type { Realm } from './oidc.ts'
import type { Owner } from '../../wire/identifiers.ts'

/** The owner that a request's credential proved, and what can be asked of that credential afterwards. */
export interface OwnerCredential {
  readonly owner: Owner
  /** As what it decides is told. */
  readonly actor: Actor
  /** When it ends by itself, in seconds since the epoch; undefined: it does not. */
  readonly expiresAt?: number
  /**
   * Looks at it once more, in the transaction of what the request changes, and marks a signature as presented.
   * Throws 401 `invalid_credential` where it was revoked meanwhile, or the signature presented before: then
   * nothing of the transaction may stay.
   */
  spend(tx: Tx): Promise<void>
  /** Whether it would be accepted still: an event stream ends when it would not. */
  stands(db: Db): Promise<boolean>
}

/** Which credentials are taken (`UMA_AS_OWNER_AUTH`): one at least. */
export interface OwnerAuthentication {
  readonly deviceKeys: boolean
  /** Whose access tokens are taken; undefined: none. */
  readonly realm: Realm | undefined
}

export type Presented = { kind: 'signature' } | { kind: 'bearer'; token: string }

const SIGNATURE_CHALLENGE = 'Signature realm="owner"'
const BEARER_CHALLENGE = 'Bearer realm="owner"'
/** What a good signature covers (RFC 9421 §5.1). */
const ACCEPT_SIGNATURE = 'sig1=("@method" "@authority" "@path" "@query" "content-digest");created;keyid;nonce'

/**
 * The credential that a request presents. Two are refused (400): whose request it is must not depend on which
 * is looked at. Throws 401 where there is none, or one of a kind that is switched off.
 */
export function presentedBy(request: FastifyRequest, accepted: OwnerAuthentication): Presented {
  const { headers } = request
  const signed = headers.signature !== undefined || headers['signature-input'] !== undefined
  const authorization = headers.authorization ?? ''
  const bears = /^bearer(?: |$)/i.test(authorization)
  if (signed && bears)
    refuse('invalid_request', 'Send a signature or a bearer token, not both: one request has one credential.')
  if (signed) {
    if (!accepted.deviceKeys)
      throw challenge(accepted, 'Send an access token: device keys are not taken here.')
    return { kind: 'signature' }
  }
  if (!bears) throw challenge(accepted, undefined)
  if (accepted.realm === undefined)
    throw challenge(accepted, 'Sign with a device key: access tokens are not taken here.')
  const token = /^bearer +([A-Za-z0-9._~+/-]+=*)$/i.exec(authorization)?.[1]
  if (token === undefined) throw refusedToken('Send one access token after `Bearer`.')
  return { kind: 'bearer', token }
}

/** 401, saying which credentials are taken. */
export function challenge({ deviceKeys, realm }: OwnerAuthentication, detail: string | undefined): Refusal {
  const ways = [
    ...(deviceKeys ? ['sign the request with an enrolled device key (RFC 9421)'] : []),
    ...(realm === undefined ? [] : ['send an access token of your realm as Bearer']),
  ].join(', or ')
  const schemes = [
    ...(deviceKeys ? [SIGNATURE_CHALLENGE] : []),
    ...(realm === undefined ? [] : [BEARER_CHALLENGE]),
  ]
  return new Refusal('invalid_credential', detail ?? `Prove who you are: ${ways}.`, {
    headers: {
      'www-authenticate': schemes.join(', '),
      ...(deviceKeys ? { 'accept-signature': ACCEPT_SIGNATURE } : {}),
    },
  })
}

/** 401 for a signature that proves no owner. */
export function refusedSignature(detail: string | undefined, cause?: unknown): Refusal {
  return new Refusal('invalid_credential', detail, {
    headers: { 'www-authenticate': SIGNATURE_CHALLENGE, 'accept-signature': ACCEPT_SIGNATURE },
    ...(cause === undefined ? {} : { cause }),
  })
}

/** 401 for an access token that proves no owner (RFC 6750 §3.1). */
export function refusedToken(detail: string | undefined, cause?: unknown): Refusal {
  return new Refusal('invalid_credential', detail, {
    headers: { 'www-authenticate': `${BEARER_CHALLENGE}, error="invalid_token"` },
    ...(cause === undefined ? {} : { cause }),
  })
}
