/**
 * Owns the facts that the owner's page gets from its server. Contract: "Owner API".
 */

/**
 * `page`: the page signs its requests, with a key of its browser; `server`: the server signs, with the device
 * key of the command line, and the page proves by a token that it was opened from there. Signatures are made
 * over the scheme and authority of `issuer`.
 */
export interface ConsoleSettings {
  signs: 'page' | 'server'
  issuer: string
  /** Whether keys of browsers are accepted; if left out, they are. */
  device_keys?: boolean | undefined
  /**
   * The relying party of passkeys, and the origins at which the page may ask for one; if left out, none are
   * accepted.
   */
  passkeys?: { rp_id: string; origins: string[] } | undefined
  /** The public keys of the log, as JWKs; left out if ledgers are not signed. */
  log_keys?: { [member: string]: unknown }[] | undefined
  /** Where she logs in, if the page may offer that. */
  realm?: ConsoleRealm | UnreachableRealm | undefined
}

/**
 * The facts that a public client needs for a login there: authorization code with PKCE (RFC 7636, RFC 9700).
 * `resource` is sent if it is there (RFC 8707).
 */
export interface ConsoleRealm {
  issuer: string
  client_id: string
  scope: string
  resource?: string | undefined
  authorization_endpoint: string
  token_endpoint: string
}

/** The realm is configured, but does not answer now. */
export interface UnreachableRealm {
  issuer: string
  unreachable: true
}
