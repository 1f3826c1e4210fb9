/**
 * The caller of the protection API: the PAT is our own signed token, so it names owner and resource server;
 * whether the server is still active is read with the answer itself. Contract: "Protection access token
 * (PAT)".
 */
import type { Credential } from '../http/servers/endpoint.ts'
import { BoundedMap } from '../limits/bounded-map.ts'
import { PROTECTION_SCOPE } from '../wire/names.ts'
import { Refusal } from '../wire/refusal.ts'
import { verifyPat } from '../wire/negotiation/tokens.ts'
import type { Signer } from './issuer.ts'
import type { ClientId, Owner } from '../wire/identifiers.ts'

/**
 * The owner that a PAT is for, the resource server that it was issued to, and the generation of that record.
 */
export interface PatHolder {
  owner: Owner
  client_id: ClientId
  generation: number
}

export type PatGuard = (authorization: string | undefined) => PatHolder

/** The credential of the protection API: everything under a PAT is about its owner. */
export const PAT: Credential<{ guard: PatGuard }, PatHolder> = {
  names: ['pat'],
  refusal: 'invalid_token',
  async admit({ guard }, request, run) {
    return run(guard(request.headers.authorization))
  },
}

const REMEMBERED_MAX = 10_000

/** 401 `invalid_token` with the Bearer challenge (RFC 6750 §3). */
export function invalidPat(
  detail = 'Fetch a fresh PAT with client_credentials and send it as Bearer.',
): Refusal {
  return new Refusal('invalid_token', detail, {
    status: 401,
    headers: { 'www-authenticate': 'Bearer error="invalid_token"' },
  })
}

/**
 * Whether the record, as it is now, lets the holder's PAT through: a withdrawn server is refused, and a PAT
 * from before a withdrawal stays dead when the server is approved again.
 */
export function standsFor(
  server: { status: string; generation: number } | undefined,
  holder: PatHolder,
): boolean {
  return server?.status === 'active' && server.generation === holder.generation
}

/**
 * A guard that verifies each PAT's signature once and remembers that verdict, never its liveness: expiry is
 * checked at every use here, and the server's record by the statement that answers.
 */
export function createPatGuard(signer: Signer): PatGuard {
  const remembered = new BoundedMap<string, PatHolder & { exp: number }>(REMEMBERED_MAX)
  return authorization => {
    if (authorization === undefined)
      throw new Refusal('invalid_token', 'Send a PAT as `Authorization: Bearer`.', {
        status: 401,
        headers: { 'www-authenticate': 'Bearer' },
      })
    const token = /^Bearer +([A-Za-z0-9._~+/-]+=*)$/i.exec(authorization)?.[1]
    if (token === undefined) throw invalidPat()
    let holder = remembered.get(token)
    if (holder === undefined) {
      holder = verified(signer, token)
      remembered.set(token, holder)
    }
    if (holder.exp <= signer.now()) {
      remembered.delete(token)
      throw invalidPat('The PAT has expired: fetch a fresh one.')
    }
    return holder
  }
}

function verified(signer: Signer, token: string): PatHolder & { exp: number } {
  try {
    const claims = verifyPat(token, signer.keys, { issuer: signer.issuer, now: signer.now() })
    if (claims.scope !== PROTECTION_SCOPE) throw invalidPat()
    return { owner: claims.sub, client_id: claims.azp, generation: claims.rs_generation, exp: claims.exp }
  } catch (cause) {
    throw new Refusal('invalid_token', 'Fetch a fresh PAT with client_credentials and send it as Bearer.', {
      status: 401,
      headers: { 'www-authenticate': 'Bearer error="invalid_token"' },
      cause,
    })
  }
}
