/**
 * Owns the relying party of passkeys (WebAuthn Level 3, "Relying Party Identifier"): the domain that browsers
 * bind them to, and the origins at which they sign. Contract: "Authentication" (owner at the owner API).
 */
import { isLoopbackHost } from '../loopback.ts'

export interface RelyingParty {
  readonly rp_id: string
  readonly origins: readonly string[]
}

/** How an authority is set up for passkeys; undefined if a setting is left out. */
export interface PasskeySettings {
  readonly passkeyRpId: string | undefined
  readonly passkeyOrigins: readonly string[] | undefined
}

/** Domains as browsers write them: lower case, without the dot of the root, and no IP address. */
export function isDomain(text: string): boolean {
  return /^(?!.*\.\.)[a-z0-9](?:[a-z0-9.-]{0,251}[a-z0-9])?$/.test(text) && !isAddress(text)
}

/**
 * The relying party by these settings, if the page is reached at `page`; undefined if passkeys are not
 * accepted, because an IP address is no domain. In development the page is at a loopback address, which
 * browsers know as `localhost`.
 */
export function relyingPartyOf(settings: PasskeySettings, page: string): RelyingParty | undefined {
  const url = new URL(page)
  if (url.protocol === 'http:' && isLoopbackHost(url.hostname)) url.hostname = 'localhost'
  const rp_id = settings.passkeyRpId ?? (isAddress(url.hostname) ? undefined : url.hostname)
  return rp_id === undefined ? undefined : { rp_id, origins: settings.passkeyOrigins ?? [url.origin] }
}

/** Takes a host as a parsed URL has it. */
function isAddress(host: string): boolean {
  return host.startsWith('[') || /^\d+(?:\.\d+){3}$/.test(host)
}
