/**
 * Owns the settings of passkeys: to which domain browsers bind them, and where they sign. Contract:
 * "Authentication" (owner at the owner API); docs/choices.md.
 */
import { isBareOrigin } from '../wire/json-members.ts'
import { isDomain, relyingPartyOf, type PasskeySettings } from '../wire/passkeys/relying-party.ts'
import { issuers, optional, text } from './settings.ts'

export const PASSKEY_SETTINGS = {
  passkeyRpId: optional('UMA_AS_PASSKEY_RP_ID', text, {
    description:
      'The domain to which passkeys of owners are bound (WebAuthn: rp id): the host of the page, or a domain above it. With another one every passkey must be added again. Left out: the host of UMA_AS_OWNER_URL (the issuer, where that is left out); none are taken where that is an address.',
  }),
  passkeyOrigins: optional('UMA_AS_PASSKEY_ORIGINS', issuers, {
    description:
      'The origins at which passkeys sign, such as `https://owner.example.com`, separated by commas: each of UMA_AS_PASSKEY_RP_ID or of a host below it. Left out: the origin of UMA_AS_OWNER_URL.',
  }),
}

/** Their faults, one sentence each. `page` is the address of the page. */
export function passkeyFaults({ passkeyRpId, passkeyOrigins }: PasskeySettings, page: string): string[] {
  if (passkeyRpId !== undefined && !isDomain(passkeyRpId))
    return [
      `UMA_AS_PASSKEY_RP_ID: give a domain in lower case, such as owner.example.com, not ${passkeyRpId}.`,
    ]
  const party = relyingPartyOf({ passkeyRpId, passkeyOrigins }, page)
  if (party === undefined)
    return passkeyOrigins === undefined
      ? []
      : ['Set UMA_AS_PASSKEY_RP_ID: UMA_AS_PASSKEY_ORIGINS is set, and the page has no domain.']
  // If they are left out, the address of the page may have its own faults.
  const hasOrigins = passkeyOrigins !== undefined
  return party.origins
    .filter(origin => !isWithin(new URL(origin).hostname, party.rp_id) || (hasOrigins && !isOrigin(origin)))
    .map(origin =>
      !hasOrigins
        ? `Set UMA_AS_PASSKEY_ORIGINS: ${origin} is not within ${party.rp_id} (UMA_AS_PASSKEY_RP_ID).`
        : `UMA_AS_PASSKEY_ORIGINS: give origins within ${party.rp_id}, without a path, not ${origin}.`,
    )
}

/** Browsers treat `localhost` as this machine, without https. */
function isOrigin(text: string): boolean {
  return isBareOrigin(text) || /^http:\/\/localhost(?::\d{1,5})?$/.test(text)
}

function isWithin(host: string, domain: string): boolean {
  return host === domain || host.endsWith(`.${domain}`)
}
