/**
 * Owns what a passkey signs besides decisions: that it is registered, and that it lets a device key in.
 * Contract: "Authentication" (owner at the owner API); docs/choices.md settles the members. It needs no
 * module of Node, because a browser makes these claims, too. What a passkey signs is always the SHA-256 of
 * the JCS of its claims.
 */
import { isJsonObject, type JsonObject } from '../json.ts'
import { integerMember, textMember, wordMember } from '../json-members.ts'
import type { Passkey } from '../owner/owner-credentials.ts'
import { refuse } from '../refusal.ts'

/**
 * What a challenge is for; a member `use` distinguishes these claims from those of a decision, which have
 * none.
 */
export const PASSKEY_USES = ['device-key', 'passkey'] as const
export type PasskeyUse = (typeof PASSKEY_USES)[number]

/** Lets in the device key of this RFC 7638 thumbprint; `exp` in seconds, as the authority gave the nonce. */
export type LoginClaims = { use: 'device-key'; jkt: string; nonce: string; exp: number }

/** Registers the passkey for this owner. */
export type RegistrationClaims = { use: 'passkey'; owner: string; nonce: string; exp: number }

/** Refuses (`invalid_request`) any claims but those of a login, above all those of a decision. */
export function readLoginClaims(payload: unknown): LoginClaims {
  const claims = only(payload, ['use', 'jkt', 'nonce', 'exp'])
  return {
    use: wordMember(claims, 'use', ['device-key']),
    jkt: textMember(claims, 'jkt'),
    nonce: textMember(claims, 'nonce'),
    exp: integerMember(claims, 'exp'),
  }
}

/** Refuses (`invalid_request`) any claims but those of a registration. */
export function readRegistrationClaims(payload: unknown): RegistrationClaims {
  const claims = only(payload, ['use', 'owner', 'nonce', 'exp'])
  return {
    use: wordMember(claims, 'use', ['passkey']),
    owner: textMember(claims, 'owner'),
    nonce: textMember(claims, 'nonce'),
    exp: integerMember(claims, 'exp'),
  }
}

/** What the RFC 7638 thumbprint of a P-256 key is the SHA-256 of. */
export function thumbprintInput({ x, y }: { x: string; y: string }): string {
  return `{"crv":"P-256","kty":"EC","x":"${x}","y":"${y}"}`
}

/** A passkey as a file of pinned keys contains it: the `keys_file` of a resource. */
export function pinnedPasskeys(...passkeys: Passkey[]): JsonObject {
  const entryOf = ({ id: kid, jwk, rp_id, origins, surface }: Passkey) => ({
    ...jwk,
    kid,
    rp_id,
    origins,
    surface,
  })
  return { keys: passkeys.map(entryOf) }
}

function only(payload: unknown, members: readonly string[]): JsonObject {
  if (!isJsonObject(payload)) refuse('invalid_request', 'Give payload as a JSON object.')
  const unknown = Object.keys(payload).find(name => !members.includes(name))
  if (unknown !== undefined) refuse('invalid_request', `Leave ${unknown.slice(0, 40)} out of the payload.`)
  return payload
}
