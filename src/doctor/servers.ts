/**
 * Owns what `usher doctor` checks for a server with a database: authority, organization, tally. Contract:
 * "Parties", "Limits" (clocks).
 */
import type { AuthorityConfig, OrganizationConfig, TallyConfig } from '../config.ts'
import type { ListenAddress } from '../http/servers/listen-address.ts'
import type { Outbound } from '../http/outbound/outbound.ts'
import type { PrivateKey } from '../wire/signatures/keys.ts'
import type { JsonObject } from '../wire/json.ts'
import { ALIAS, aliasIn, WELL_KNOWN } from '../wire/names.ts'
import {
  checkDatabase,
  checkDatabaseClock,
  checkMetadata,
  checkOwnerApi,
  checkPublishedKeys,
  publishedOwnerApi,
} from './checks.ts'
import { checkDoor } from './doors.ts'
import { COMPLETE, examinePeer, withOutbound, type Look, type Peer } from './look.ts'
import { checkRealm } from './peers.ts'
import { examineWitnesses } from './witnesses.ts'

/** What a server with a database and an issuer has. */
interface ServerConfig {
  issuer: string
  databaseUrl: string
  /** The further databases of an authority whose owners are divided. */
  cells?: { name: string; url: string }[] | undefined
  migrate: boolean
  keys: PrivateKey[]
  devLoopback: boolean
  listen: ListenAddress
  tls: { initial: { cert: Buffer } } | undefined
}

interface ServerKind<Config extends ServerConfig> {
  party: string
  prefix: string
  command: string
  document: string
  /** The parties that must be there for it to do its work. */
  peers: (config: Config) => Peer[]
  /** The realms whose tokens of people it accepts, by the setting that names each. */
  realms: (config: Config) => { setting: string; issuer: string | undefined }[]
  /** Looks at what its metadata leads to. */
  examinePublished?: (look: Look, outbound: Outbound, document: JsonObject) => Promise<void>
  /** Whoever else it works with; `databases` are the URLs of those that were found well. */
  examineFurther?: (
    look: Look,
    outbound: Outbound,
    of: { config: Config; databases: readonly string[] },
  ) => Promise<void>
}

export const AUTHORITY: ServerKind<AuthorityConfig> = {
  party: 'authority',
  prefix: 'UMA_AS',
  command: 'usher migrate',
  document: WELL_KNOWN.umaConfiguration,
  peers: ({ organizations = [], tallies = [], aliases = [] }) => [
    ...organizations.map(issuer => ({
      what: 'organization',
      issuer,
      document: WELL_KNOWN.organization,
      alias: aliasIn(aliases, ALIAS.organizationDiscovery),
      setting: 'UMA_AS_ORGANIZATIONS',
    })),
    ...tallies.map(issuer => ({
      what: 'tally',
      issuer,
      document: WELL_KNOWN.agentsConfiguration,
      setting: 'UMA_AS_TALLIES',
    })),
  ],
  realms: ({ realm, adminRealm, identityIssuers = [] }) => [
    { setting: 'UMA_AS_OIDC_ISSUER', issuer: realm?.issuer },
    { setting: 'UMA_AS_ADMIN_OIDC_ISSUER', issuer: adminRealm?.issuer },
    ...identityIssuers.map(issuer => ({ setting: 'UMA_AS_IDENTITY_ISSUERS', issuer })),
  ],
  examinePublished: examineOwnerApi,
  examineFurther: (look, outbound, { config: { witnesses = [] }, databases }) =>
    examineWitnesses(look, outbound, { witnesses, databases }),
}
export const ORGANIZATION: ServerKind<OrganizationConfig> = {
  party: 'organization',
  prefix: 'UMA_ORG',
  command: 'usher organization migrate',
  document: WELL_KNOWN.organization,
  peers: () => [],
  realms: ({ realm }) => [{ setting: 'UMA_ORG_OIDC_ISSUER', issuer: realm?.issuer }],
}
export const TALLY: ServerKind<TallyConfig> = {
  party: 'tally',
  prefix: 'UMA_TALLY',
  command: 'usher tally migrate',
  document: WELL_KNOWN.umaConfiguration,
  peers: ({ accounts }) => {
    const issuers = accounts.flatMap(({ mandate }) => mandate.holders.map(({ issuer }) => issuer))
    return [...new Set(issuers)].map(issuer => ({
      what: 'authority of a holder',
      issuer,
      document: WELL_KNOWN.umaConfiguration,
      setting: 'UMA_TALLY_PROVISION',
    }))
  },
  realms: () => [],
}

/**
 * Its settings, database, clock, metadata, keys and certificate, and the other parties that must be there.
 */
export async function examineServer<Config extends ServerConfig>(
  look: Look,
  read: () => Config,
  kind: ServerKind<Config>,
): Promise<void> {
  const { party, prefix, command, document, peers, realms } = kind
  const config = await look('settings', read, COMPLETE)
  if (config === undefined) return
  const { issuer, keys, devLoopback, listen: address, tls } = config
  const databases = await examineDatabases(look, config, { party, command })
  if (tls !== undefined)
    await look('certificate', () =>
      checkDoor({ address, setting: `${prefix}_TLS_CERT_FILE`, tls: tls.initial }),
    )
  await withOutbound({ devLoopback }, async outbound => {
    const found = await look(
      'metadata',
      () => checkMetadata(outbound, { url: issuer + document, issuer, setting: `${prefix}_ISSUER` }),
      () => `${issuer} is reached, and names itself`,
    )
    if (found !== undefined) await kind.examinePublished?.(look, outbound, found.document)
    const url = `${issuer}/jwks`
    if (found !== undefined)
      await look('keys', () => checkPublishedKeys(outbound, { url, keys, setting: `${prefix}_KEYS_FILE` }))
    for (const peer of peers(config)) await examinePeer(look, outbound, peer)
    for (const realm of realms(config)) await examineRealm(look, outbound, realm)
    await kind.examineFurther?.(look, outbound, { config, databases })
  })
}

/**
 * The database of DATABASE_URL, and those of further cells, by their names. @returns the URLs of those that
 * are well.
 */
export async function examineDatabases(
  look: Look,
  { databaseUrl, cells = [], migrate: migrates }: Pick<ServerConfig, 'databaseUrl' | 'cells' | 'migrate'>,
  of: Pick<ServerKind<ServerConfig>, 'party' | 'command'>,
): Promise<string[]> {
  const well: string[] = []
  const further = cells.map(({ name, url }) => ({ name: ` ${name}`, url }))
  for (const { name, url } of [{ name: '', url: databaseUrl }, ...further]) {
    const database = await look(
      `database${name}`,
      () => checkDatabase(url, { ...of, migrates }),
      ({ finding }) => finding,
    )
    if (database === undefined) continue
    well.push(url)
    await look(`clock${name}`, () => checkDatabaseClock(database.clockAhead))
  }
  return well
}

async function examineRealm(
  look: Look,
  outbound: Outbound,
  { setting, issuer }: { setting: string; issuer: string | undefined },
): Promise<void> {
  if (issuer !== undefined) await look(`realm ${issuer}`, () => checkRealm(outbound, { issuer, setting }))
}

/** Its metadata may lead owners to the public listener, which answers 404 to `/owner`. */
async function examineOwnerApi(look: Look, outbound: Outbound, document: JsonObject): Promise<void> {
  const api = publishedOwnerApi(document)
  const setting = 'UMA_AS_OWNER_URL'
  const remedy = `Let /owner lead there to UMA_AS_OWNER_LISTEN, or name in ${setting} where that listener is reached.`
  if (api !== undefined) await look('owner API', () => checkOwnerApi(outbound, { api, setting, remedy }))
}
