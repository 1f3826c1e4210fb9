/**
 * What the owner API says of her credentials: device keys, passkeys and logins. Contract: "Owner API".
 */
/** A device key of hers, as it is enrolled. */
export interface EnrolledKey {
  kid: string
  name: string
  enrolled_at: string
}

/** A device key of hers; one that is revoked or has ended stays listed. */
export interface DeviceKey extends EnrolledKey {
  /** Its public half, which verifies what she signed. */
  jwk: Record<string, unknown>
  revoked_at: string | null
  /** The key was made in a page that the authority serves, so code of the authority could use it. */
  surface?: 'served' | undefined
  /** Left out for a key that was enrolled for good. */
  let_in?: LetIn | undefined
}

/** For a device key that a passkey let in: which passkey, and when the key ends by itself. */
export interface LetIn {
  passkey: string
  expires_at: string
  /** The key was made in a page that the authority serves, so code of the authority could use it. */
  surface: 'served'
}

/** A device key that a passkey just let in, and its owner. */
export interface LetInKey extends EnrolledKey {
  owner: string
  let_in: LetIn
}

/** A passkey of hers; a removed one stays listed. With `kid` for `id` it is an entry of a `keys_file`. */
export interface Passkey {
  id: string
  name: string
  jwk: { kty: 'EC'; crv: 'P-256'; x: string; y: string }
  rp_id: string
  /** The origins at which it signs, as the authority accepts it now. */
  origins: string[]
  surface: 'served'
  added_at: string
  removed_at: string | null
}

/** What a challenge is made of; for a registration, also for whom the browser makes the passkey. */
export interface PasskeyOptions {
  use: 'device-key' | 'passkey'
  nonce: string
  /** Seconds since the epoch. */
  exp: number
  rp_id: string
  user?: { id: string; name: string } | undefined
}

/** A login of hers at her realm. */
export interface Login {
  id: string
  name: string
  issuer: string
  subject: string
  bound_at: string
}
