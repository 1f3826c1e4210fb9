/**
 * What a person's request presents as its credential, and how one is refused.
 * Contract: "Authentication" (owner at the owner API: each sufficient, neither a fallback of the other).
 */
import type { FastifyRequest } from 'fastify'
import { Refusal, refuse } from '../wire/refusal.ts'
import type { ProvenLogin, Realm } from './oidc.ts'

/** The name of the listener's protection space (RFC 9110 §11.5). */
export type Space = 'owner' | 'admin'

/** The kinds of credentials that are accepted: at least one. */
export interface AcceptedCredentials {
  readonly space: Space
  readonly deviceKeys: boolean
  /** The realm whose access tokens are accepted; undefined if none. */
  readonly realm: Realm | undefined
}

export type PresentedCredential = { kind: 'signature' } | { kind: 'bearer'; token: string }

const signatureChallenge = (space: Space): string => `Signature realm="${space}"`
const bearerChallenge = (space: Space): string => `Bearer realm="${space}"`
/** What a good signature covers (RFC 9421 §5.1). */
const ACCEPT_SIGNATURE = 'sig1=("@method" "@authority" "@path" "@query" "content-digest");created;keyid;nonce'

/**
 * The credential that a request presents. Two are refused (400), because the result must not depend on which
 * one is read. Throws 401 if there is none, or one of a kind that is switched off.
 */
export function presentedBy(request: FastifyRequest, accepted: AcceptedCredentials): PresentedCredential {
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
  if (token === undefined) throw refusedToken(accepted.space, 'Send one access token after `Bearer`.')
  return { kind: 'bearer', token }
}

/** Refuses 401, saying which credentials are accepted. */
export function challenge(
  { space, deviceKeys, realm }: AcceptedCredentials,
  detail: string | undefined,
): Refusal {
  const ways = [
    ...(deviceKeys ? ['sign the request with an enrolled device key (RFC 9421)'] : []),
    ...(realm === undefined ? [] : ['send an access token of your realm as Bearer']),
  ].join(', or ')
  const schemes = [
    ...(deviceKeys ? [signatureChallenge(space)] : []),
    ...(realm === undefined ? [] : [bearerChallenge(space)]),
  ]
  return new Refusal('invalid_credential', detail ?? `Prove who you are: ${ways}.`, {
    headers: {
      'www-authenticate': schemes.join(', '),
      ...(deviceKeys ? { 'accept-signature': ACCEPT_SIGNATURE } : {}),
    },
  })
}

/** 401 for a signature that proves nobody. */
export function refusedSignature(space: Space, detail: string | undefined, cause?: unknown): Refusal {
  return new Refusal('invalid_credential', detail, {
    headers: { 'www-authenticate': signatureChallenge(space), 'accept-signature': ACCEPT_SIGNATURE },
    ...(cause === undefined ? {} : { cause }),
  })
}

/** 401 for an access token that proves nobody (RFC 6750 §3.1). */
export function refusedToken(space: Space, detail: string | undefined, cause?: unknown): Refusal {
  return new Refusal('invalid_credential', detail, {
    headers: { 'www-authenticate': `${bearerChallenge(space)}, error="invalid_token"` },
    ...(cause === undefined ? {} : { cause }),
  })
}

/**
 * The identity of a token's bearer at the realm. Throws 401 `invalid_credential`, or 503 if the realm is
 * unreachable.
 */
export async function proveLogin(realm: Realm, space: Space, token: string): Promise<ProvenLogin> {
  try {
    return await realm.prove(token)
  } catch (error) {
    if (error instanceof Refusal && error.code === 'invalid_token')
      throw refusedToken(space, error.detail, error)
    throw error
  }
}
