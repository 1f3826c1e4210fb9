/**
 * Owns the settings of `usher authority`. Contract: "Limits" and "Authentication".
 */
import { networkFault } from '../http/outbound/trusted-networks.ts'
import type { RealmPolicy } from '../rules/owner-token.ts'
import { isOriginIssuer } from '../wire/ledger/checkpoint.ts'
import { ALIAS, type Alias } from '../wire/names.ts'
import type { NotificationKey } from '../wire/owner/notification-key.ts'
import type { PrivateKey } from '../wire/signatures/keys.ts'
import { loadAdministratorsFile, type ProvisionedAdministrator } from './provisioning/administrators.ts'
import { cellFaults } from './cells.ts'
import { DATABASE_SETTINGS } from './database.ts'
import { collectFaults, readLogKeysFile, readNotificationKeyFile } from './files.ts'
import { oidcFaults, oidcSettings, realmIssuers, realmPolicy } from './oidc.ts'
import { PASSKEY_SETTINGS, passkeyFaults } from './passkeys.ts'
import { loadProvisionFile, type ProvisionedOwner } from './provisioning/provision.ts'
import { serverFaults, serverFileTasks, serverSettings, type ServerFiles } from './server.ts'
import {
  choices,
  defaulted,
  defineSettings,
  duration,
  filePath,
  hosts,
  insecureUrlFault,
  issuers,
  listenAddress,
  networks,
  optional,
  text,
  toggle,
  type Values,
  url,
  wholeNumber,
} from './settings.ts'
import { surfaceFaults, surfaceSettings } from './surface.ts'
import { witnesses, witnessFaults } from './witness/witnesses.ts'

/** The address of the page in development, without its port. */
const LOOPBACK_PAGE = 'http://127.0.0.1'
const DAY_SECONDS = 86_400

const REALM = oidcSettings('UMA_AS_ADMIN', { who: 'administrators', what: 'administration' })
/** Settings of the realm of administrators, which may differ from that of owners. */
const ADMIN_REALM = {
  adminOidcIssuer: REALM.oidcIssuer,
  adminOidcAudience: REALM.oidcAudience,
  adminOidcAlgorithms: REALM.oidcAlgorithms,
  adminOidcTypes: REALM.oidcTypes,
  adminOidcAuthorizedParties: REALM.oidcAuthorizedParties,
}

/** Named like the settings of any realm. */
function adminRealmOf(values: Values<typeof ADMIN_REALM>): Values<typeof REALM> {
  return {
    oidcIssuer: values.adminOidcIssuer,
    oidcAudience: values.adminOidcAudience,
    oidcAlgorithms: values.adminOidcAlgorithms,
    oidcTypes: values.adminOidcTypes,
    oidcAuthorizedParties: values.adminOidcAuthorizedParties,
  }
}

export const AUTHORITY_SETTINGS = defineSettings({
  title: 'usher authority',
  settings: {
    ...serverSettings('UMA_AS', {
      drainAlso: ' Do not lower it if resource servers call without a balancer.',
    }),
    ...DATABASE_SETTINGS,
    listen: defaulted('UMA_AS_LISTEN', listenAddress, '127.0.0.1:9100', {
      description: 'Address that serves agents and resource servers.',
    }),
    ownerListen: defaulted('UMA_AS_OWNER_LISTEN', listenAddress, '127.0.0.1:9101', {
      description: 'Address that serves the owner API; the public listener answers 404 to it.',
    }),
    metricsListen: defaulted('UMA_AS_METRICS_LISTEN', listenAddress, '127.0.0.1:9102', {
      description: 'Address that serves `/metrics`, in plain HTTP, for operators only. It names no owner.',
    }),
    provisionFile: optional('UMA_AS_PROVISION', filePath, {
      description:
        'YAML that declares owners, resource servers, resources and tiers, read at the start and on SIGHUP. Each item is made once, ever; secret, `resource_uri` and names, and the server of a resource, are applied each time.',
    }),
    ownerAuth: defaulted('UMA_AS_OWNER_AUTH', choices(['device-key', 'oidc']), 'device-key', {
      description:
        'Which credentials the owner API takes: signatures of device keys, access tokens of her OIDC realm, or both. Each suffices.',
    }),
    ...oidcSettings('UMA_AS', { who: 'owners', what: 'owner API' }),
    adminListen: optional('UMA_AS_ADMIN_LISTEN', listenAddress, {
      description:
        'Address of the administration, which does what `usher authority owner` does, for administrators only. No such listener when left out.',
    }),
    administratorsFile: optional('UMA_AS_ADMINISTRATORS', filePath, {
      description: 'YAML that lists the administrators; needed for UMA_AS_ADMIN_LISTEN.',
    }),
    adminAuth: defaulted('UMA_AS_ADMIN_AUTH', choices(['device-key', 'oidc']), 'device-key', {
      description:
        'Which credentials the administration takes: signatures of device keys, access tokens of an OIDC realm, or both.',
    }),
    ...ADMIN_REALM,
    enrolmentSeconds: defaulted('UMA_AS_ENROLMENT_SECONDS', wholeNumber(60, 7 * DAY_SECONDS), '3600', {
      description: 'Life of the one-time code that `usher authority owner enrol` prints.',
      unit: 'seconds',
    }),
    recoverySeconds: defaulted('UMA_AS_RECOVERY_DELAY', duration(3600, 30 * DAY_SECONDS), '24h', {
      description:
        'From the start of a recovery (`usher authority owner enrol --recover`) until its code is good; any credential of the owner’s ends it before.',
    }),
    archives: optional('UMA_AS_ARCHIVES', filePath, {
      description: 'Folder in which the archives of removed owners are written, each for this user alone.',
    }),
    ownerUrl: optional('UMA_AS_OWNER_URL', url, {
      description:
        'Base URL under which the owner API is reached, named in the metadata as `owner_endpoint`; left out: the issuer (in development, the owner listener).',
    }),
    console: defaulted('UMA_AS_CONSOLE', toggle, 'true', {
      description: 'Serve the page on which owners decide, at `/` of the owner listener.',
    }),
    notificationKeyFile: optional('UMA_AS_NOTIFICATION_KEY_FILE', filePath, {
      description:
        'Private P-256 key (`usher keys new-notification <file>`), the same for all replicas, by which owners are notified: it proves this authority to push services, and secrets of webhooks are made of it. Without it nobody is notified; with another one every browser and webhook must be added again.',
    }),
    logKeysFile: optional('UMA_AS_LOG_KEYS_FILE', filePath, {
      description:
        'Private keys that sign checkpoints of the ledgers, as `{"keys": [JWK, …]}` (`usher keys new <file>`), the same for all replicas and none of UMA_AS_KEYS_FILE; the first signs, all are published. No checkpoints when left out.',
    }),
    witnesses,
    ...PASSKEY_SETTINGS,
    consoleClient: optional('UMA_AS_CONSOLE_CLIENT', text, {
      description:
        'The public client that the page is at the realm of UMA_AS_OIDC_ISSUER (authorization code with PKCE): owners may log in there. No login in the page when left out.',
    }),
    consoleScope: defaulted('UMA_AS_CONSOLE_SCOPE', text, 'openid', {
      description: 'The scopes that the page asks for, separated by blanks.',
    }),
    heartbeatSeconds: defaulted('UMA_AS_HEARTBEAT_SECONDS', wholeNumber(1, 60), '15', {
      description: 'Longest silence of an event stream.',
      unit: 'seconds',
    }),
    streamsPerOwner: defaulted('UMA_AS_STREAMS_PER_OWNER', wholeNumber(1, 10_000), '20', {
      description: 'Most event streams that one process holds open for one owner; beyond, 429.',
      unit: 'streams',
    }),
    grantsPerOwner: defaulted('UMA_AS_GRANTS_PER_OWNER', wholeNumber(1, 1_000_000), '10000', {
      description:
        'Maximum number of unexpired grants of one owner, spent ones included. Beyond it an agreement is refused with 429, and requests that she approved wait.',
      unit: 'grants',
    }),
    streamsMax: defaulted('UMA_AS_STREAMS_MAX', wholeNumber(1, 100_000), '1000', {
      description: 'Most event streams that one process holds open in all; beyond, 503.',
      unit: 'streams',
    }),
    leases: defaulted('UMA_AS_LEASES', toggle, 'true', {
      description:
        'Let sidecars with `liveness: leased` use an answer about a standing grant again for up to 1.9 seconds; whatever ends the grant is answered once each of them let go. `false`: every call is asked about. It costs nothing if no sidecar is set so.',
    }),
    leaseStreamsMax: defaulted('UMA_AS_LEASE_STREAMS_MAX', wholeNumber(1, 100_000), '10000', {
      description:
        'Maximum number of leases that one process holds streams for, one per owner and sidecar; beyond, 503, and the sidecar asks about each call.',
      unit: 'streams',
    }),
    migrate: defaulted('UMA_AS_MIGRATE', toggle, 'true', {
      description: 'Bring the database up to date at the start; otherwise run `usher migrate` first.',
    }),
    requireSyncStandby: defaulted('UMA_AS_REQUIRE_SYNC_STANDBY', toggle, 'false', {
      description:
        'Answer nothing that a synchronous standby of Postgres does not have. If no standby was heard from within 5 seconds, every answer is 503, so that a primary that was replaced vouches for no grant.',
    }),
    ...surfaceSettings('UMA_AS', { waitsFor: 'the owner', pollSeconds: 3, negotiationDaysMax: 90 }),
    trajectoryWindowSeconds: defaulted('UMA_AS_TRAJECTORY_WINDOW', duration(60, 366 * DAY_SECONDS), '7d', {
      description: 'How far back `standing.denials_above`, `tiers_above` and `calls_above` count.',
    }),
    retentionSeconds: optional('UMA_AS_RETENTION', duration(30 * DAY_SECONDS, 3_660 * DAY_SECONDS), {
      description:
        'How long entries of ledgers and events are kept, such as `400d`: at least 30 days, and no shorter than UMA_AS_TRAJECTORY_WINDOW. Left out: ledgers for ever, events for 7 days. Receipts are always kept.',
    }),
    organizations: optional('UMA_AS_ORGANIZATIONS', issuers, {
      description:
        'Issuers of organizations of which owners may become members, separated by commas; nothing is fetched from any other. None when left out.',
    }),
    tallies: optional('UMA_AS_TALLIES', issuers, {
      description:
        'Issuers of tallies under whose mandates owners may hold accounts jointly, separated by commas; nothing is fetched from any other. None when left out.',
    }),
    identityIssuers: optional('UMA_AS_IDENTITY_ISSUERS', realmIssuers, {
      description:
        'Identity providers of organizations that may vouch for the person behind an agent, by their exact URLs, separated by commas. Nothing is fetched from any other provider, even if a charter names it. None when left out.',
    }),
    registrySeconds: defaulted('UMA_AS_REGISTRY_SECONDS', wholeNumber(1, DAY_SECONDS), '300', {
      description: 'How long a listing pulled from a resource server is used before it is pulled again.',
      unit: 'seconds',
    }),
    trustedNetworks: optional('UMA_AS_TRUSTED_NETWORKS', networks, {
      description:
        'Private networks in which resource servers may be, such as `10.20.0.0/16`, separated by commas. They are asked over https only, for registrations and their registries, and every failure there gives the same answer. None when left out: then only public addresses are asked.',
    }),
    trustedHosts: optional('UMA_AS_TRUSTED_HOSTS', hosts, {
      description:
        'The hosts that may be in UMA_AS_TRUSTED_NETWORKS, by name, by address, or by `*.` and a name for all below it, separated by commas. Any host when left out.',
    }),
    poolMax: defaulted('UMA_AS_POOL_MAX', wholeNumber(2, 500), '20', {
      description:
        'Maximum number of connections to Postgres that one process holds for negotiations, registries and the owner API. One owner has at most half of them at a time.',
      unit: 'connections',
    }),
    callPoolMax: defaulted('UMA_AS_CALL_POOL_MAX', wholeNumber(2, 500), '16', {
      description:
        'Maximum number of connections that it holds for calls under way (introspect, consume), shared in the same way. In all, a process holds at most both and one for notifications: 37 by default. Times the number of replicas, that must stay below `max_connections`.',
      unit: 'connections',
    }),
    aliases: optional('UMA_AS_ALIASES', choices(Object.values(ALIAS) as [Alias, ...Alias[]]), {
      description:
        'Names of other software that are accepted beside the contract’s: for the agreement’s format (with the claim type `urn:uma4agents:claim:myterms-agreement`) and the metadata’s address, which are published too; for the beginning of the agreement’s `iss`; for the `typ` of an introduction, of an organization’s notice, of its administrator’s token, of its clearance of a member, and of a tally’s question; for the address of an organization’s discovery; and for the members of a tally’s metadata. None when left out.',
    }),
  },
  check: values => [
    ...serverFaults('UMA_AS', values),
    ...cellFaults(values),
    ...(values.logKeysFile === undefined || isOriginIssuer(values.issuer)
      ? []
      : [
          'UMA_AS_ISSUER: give one without spaces and "+", or leave UMA_AS_LOG_KEYS_FILE out: the issuer is a part of the name of each log.',
        ]),
    ...witnessFaults(values),
    ...(values.ownerUrl === undefined
      ? []
      : insecureUrlFault('UMA_AS_OWNER_URL', values.ownerUrl, values.devLoopback)),
    ...passkeyFaults(values, values.ownerUrl ?? (values.devLoopback ? LOOPBACK_PAGE : values.issuer)),
    ...surfaceFaults('UMA_AS', values),
    ...(values.organizations ?? []).flatMap(issuer =>
      insecureUrlFault('UMA_AS_ORGANIZATIONS', issuer, values.devLoopback),
    ),
    ...(values.tallies ?? []).flatMap(issuer =>
      insecureUrlFault('UMA_AS_TALLIES', issuer, values.devLoopback),
    ),
    ...(values.identityIssuers ?? []).flatMap(issuer =>
      insecureUrlFault('UMA_AS_IDENTITY_ISSUERS', issuer, values.devLoopback),
    ),
    ...(values.trustedNetworks ?? []).flatMap(network => {
      const fault = networkFault(network, values)
      return fault === undefined
        ? []
        : [`UMA_AS_TRUSTED_NETWORKS: ${network} ${fault}: correct or remove it.`]
    }),
    ...(values.trustedHosts !== undefined && values.trustedNetworks === undefined
      ? ['Set UMA_AS_TRUSTED_NETWORKS: UMA_AS_TRUSTED_HOSTS is set, and narrows nothing.']
      : []),
    ...(values.retentionSeconds !== undefined && values.retentionSeconds < values.trajectoryWindowSeconds
      ? [
          'UMA_AS_RETENTION: give at least UMA_AS_TRAJECTORY_WINDOW: rules count entries of the ledger from that time.',
        ]
      : []),
    ...(values.ownerAuth.includes('oidc') ? oidcFaults(values, 'UMA_AS', 'UMA_AS_OWNER_AUTH') : []),
    ...(values.consoleClient !== undefined && !values.ownerAuth.includes('oidc')
      ? [
          'UMA_AS_CONSOLE_CLIENT: name oidc in UMA_AS_OWNER_AUTH, or take this setting out: no login is taken.',
        ]
      : []),
    ...(values.adminListen !== undefined && values.administratorsFile === undefined
      ? ['Set UMA_AS_ADMINISTRATORS: UMA_AS_ADMIN_LISTEN is set, and nobody may use it.']
      : []),
    ...(values.adminListen !== undefined && values.adminAuth.includes('oidc')
      ? oidcFaults({ ...values, ...adminRealmOf(values) }, 'UMA_AS_ADMIN', 'UMA_AS_ADMIN_AUTH')
      : []),
  ],
})

/** The settings that `usher migrate` needs. */
export const MIGRATION_SETTINGS = defineSettings({
  title: 'usher migrate',
  settings: DATABASE_SETTINGS,
  check: cellFaults,
})

const { enrolmentSeconds, recoverySeconds, archives, ownerAuth, oidcIssuer, requireSyncStandby } =
  AUTHORITY_SETTINGS.settings

/** The settings that `usher authority owner …` needs. */
export const OWNERS_SETTINGS = defineSettings({
  title: 'usher authority owner',
  settings: {
    ...DATABASE_SETTINGS,
    enrolmentSeconds,
    recoverySeconds,
    archives,
    ownerAuth,
    oidcIssuer,
    issuer: optional('UMA_AS_ISSUER', url, {
      description: 'The issuer that `enrol` writes beside the code, so that she need not be told it.',
    }),
    requireSyncStandby,
  },
  check: cellFaults,
})

/** The configuration of `usher authority`: its settings, and the contents of the files they name. */
export interface AuthorityConfig extends Values<typeof AUTHORITY_SETTINGS.settings>, ServerFiles {
  /** The content of the provisioning file; empty without one. */
  owners: ProvisionedOwner[]
  /** The administrators of owners; none if no file names any. */
  administrators: ProvisionedAdministrator[]
  /** Requirements for their access tokens; undefined if `oidc` is not accepted for them. */
  adminRealm: RealmPolicy | undefined
  /** The key by which owners are notified; without it, nobody is. */
  notificationKey: NotificationKey | undefined
  /** The keys of the log, the first of which signs checkpoints; empty: there are none. */
  logKeys: PrivateKey[]
}

/**
 * Warnings, which do not stop the start. Without a URL of the owner API, owners are led to the issuer. There
 * an authority that does TLS by itself has its public listener alone, unless a proxy, which no setting shows,
 * is before it.
 */
export function authorityWarnings({
  issuer,
  ownerUrl,
  tlsCertFile,
  devLoopback,
}: Pick<AuthorityConfig, 'issuer' | 'ownerUrl' | 'tlsCertFile' | 'devLoopback'>): string[] {
  if (tlsCertFile === undefined || ownerUrl !== undefined || devLoopback) return []
  return [
    `UMA_AS_OWNER_URL: it is not set beside UMA_AS_TLS_CERT_FILE, so owners are led to ${issuer}/owner, where UMA_AS_LISTEN answers 404. ` +
      'Set it to the https URL of UMA_AS_OWNER_LISTEN, unless a proxy leads /owner there.',
  ]
}

/** Loads the files that the settings name. Throws `ConfigFault`. */
export function loadAuthorityFiles(values: Values<typeof AUTHORITY_SETTINGS.settings>): AuthorityConfig {
  const realm = values.ownerAuth.includes('oidc') ? realmPolicy(values) : undefined
  const config: AuthorityConfig = {
    ...values,
    keys: [],
    tls: undefined,
    owners: [],
    administrators: [],
    adminRealm: values.adminAuth.includes('oidc') ? realmPolicy(adminRealmOf(values)) : undefined,
    realm,
    traces: undefined,
    notificationKey: undefined,
    logKeys: [],
  }
  collectFaults<void>([
    ...serverFileTasks('UMA_AS', values, config),
    () => {
      if (values.provisionFile !== undefined)
        config.owners = loadProvisionFile(values.provisionFile, values.devLoopback, realm?.issuer)
    },
    () => {
      if (values.administratorsFile !== undefined)
        config.administrators = loadAdministratorsFile(values.administratorsFile)
    },
    () => {
      if (values.notificationKeyFile !== undefined)
        config.notificationKey = readNotificationKeyFile(
          'UMA_AS_NOTIFICATION_KEY_FILE',
          values.notificationKeyFile,
        )
    },
    () => {
      if (values.logKeysFile !== undefined)
        config.logKeys = readLogKeysFile('UMA_AS_LOG_KEYS_FILE', values.logKeysFile, {
          others: config.keys,
          alg: values.signingAlg,
        })
    },
  ])
  return config
}
