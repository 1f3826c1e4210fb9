/**
 * Owns what `usher doctor` checks at parties other than an owner's authority: a tally, an organization, and a
 * realm. Contract: "Tally for a jointly held resource" (`/mandate/{account}`), "The organization's authority"
 * (`/membership/{owner}`), "Authentication" (the realm's published keys).
 */
import type { Outbound } from '../http/outbound/outbound.ts'
import { LEASE_OFFER } from '../wire/resources/leases.ts'
import { MANDATE_BYTES_MAX } from '../wire/document-bounds.ts'
import { mandateDigest, parseMandate } from '../wire/joint/mandate.ts'
import { issuerMetadataUrls, parseTallyMetadata } from '../wire/resources/authorization-server-metadata.ts'
import { ORGANIZATION_PATH, WELL_KNOWN } from '../wire/names.ts'
import { Refusal } from '../wire/refusal.ts'
import { ask, checkMetadata, getObject, Unwell } from './checks.ts'

/** An account that several hold, as an enforcement point is configured for it. */
export interface PinnedMandate {
  tally: string
  account: string
  pinned: readonly string[] | 'any'
  /** Names of other software that are accepted beside the contract's. */
  aliases: readonly string[]
}

/** The tally serves a mandate of the account, and it is one that counts here. */
export async function checkMandate(
  outbound: Outbound,
  { tally, account, pinned, aliases }: PinnedMandate,
): Promise<string> {
  const setting = 'joint.tally'
  const { document } = await checkMetadata(outbound, {
    url: tally + WELL_KNOWN.agentsConfiguration,
    issuer: tally,
    setting,
  })
  const { ext_mandate_endpoint } = readable(tally, () => parseTallyMetadata(document, tally, aliases))
  const url = `${ext_mandate_endpoint.replace(/\/$/, '')}/${encodeURIComponent(account)}`
  const served = await getObject(outbound, url, setting, MANDATE_BYTES_MAX)
  const digest = readable(url, () => mandateDigest(parseMandate(served)))
  if (pinned === 'any') return `the tally serves ${digest}, and any counts here`
  if (pinned.includes(digest)) return `the tally serves ${digest}, which is pinned here`
  throw new Unwell(
    `the tally serves the mandate ${digest}, and mandate_s256 pins others: every call is refused. See that the holders agreed to it (\`usher owner joint list\`), then pin it.`,
  )
}

function readable<T>(url: string, read: () => T): T {
  try {
    return read()
  } catch (cause) {
    if (!(cause instanceof Refusal)) throw cause
    throw new Unwell(
      `${url} answers what cannot be used: ${cause.detail ?? cause.code} See to its software.`,
      {
        cause,
      },
    )
  }
}

/** The authority offers leases on its answers about standing grants. */
export async function checkLeases(outbound: Outbound, { issuer }: { issuer: string }): Promise<string> {
  const document = await getObject(outbound, issuer + WELL_KNOWN.agentsConfiguration, 'authority')
  const { [LEASE_OFFER]: leaseMs } = document
  if (typeof leaseMs === 'number' && leaseMs > 0) return `it offers them, of ${leaseMs} ms`
  throw new Unwell(
    'it offers none, so that it is asked about every call. Upgrade it, or set UMA_AS_LEASES=true there, or set liveness: asked here.',
  )
}

/** The organization takes the credential, and knows the owner. */
export async function checkMembership(
  outbound: Outbound,
  { issuer, owner, secret }: { issuer: string; owner: string; secret: string },
): Promise<string> {
  const { status } = await ask(outbound, 'organization.issuer', {
    url: `${issuer}${ORGANIZATION_PATH.membership}/${owner}`,
    headers: { accept: 'application/json', authorization: `Bearer ${secret}` },
  })
  if (status === 200) return 'the organization takes it'
  if (status === 401)
    throw new Unwell(
      'the organization does not take the credential. Give the one that it provisioned for this enforcement point.',
    )
  throw new Unwell(`the organization answers ${status} about her. See its log.`)
}

/** A realm whose tokens are accepted names itself in the usual document, and publishes keys. */
export async function checkRealm(
  outbound: Outbound,
  { issuer, setting }: { issuer: string; setting: string },
): Promise<string> {
  const { openid, oauth } = issuerMetadataUrls(issuer)
  const named = (url: string) => checkMetadata(outbound, { url, issuer, setting })
  const { document } = await named(openid).catch((first: unknown) =>
    named(oauth).catch(() => {
      throw first
    }),
  )
  const { jwks_uri } = document
  if (typeof jwks_uri !== 'string')
    throw new Unwell(
      'it does not say where its keys are (`jwks_uri`): no token can be verified. See to it there.',
    )
  const { keys } = await getObject(outbound, jwks_uri, setting)
  if (!Array.isArray(keys) || keys.length === 0)
    throw new Unwell(`${jwks_uri} holds no keys: no token can be verified. See to the realm.`)
  return `it is reached, names itself, and publishes ${keys.length} ${keys.length === 1 ? 'key' : 'keys'}`
}
