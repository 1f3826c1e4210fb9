/**
 * Owns the settings of `usher authority`. Contract: "Limits" and "Authentication".
 */
import { ALIAS, DEFAULT_SPEC_NS, type Alias } from '../wire/names.ts'
import { DATABASE_SETTINGS } from './database.ts'
import { collectFaults } from './files.ts'
import { oidcFaults, oidcSettings, realmPolicy } from './oidc.ts'
import { loadProvisionFile, type ProvisionedOwner } from './provision.ts'
import { serverFaults, serverFileTasks, serverSettings, type ServerFiles } from './server.ts'
import {
  agentIssuers,
  choices,
  defaulted,
  defineSettings,
  duration,
  filePath,
  insecureUrlFault,
  issuers,
  listenAddress,
  optional,
  toggle,
  url,
  wholeNumber,
  type Values,
} from './settings.ts'

const DAY_SECONDS = 86_400

export const AUTHORITY_SETTINGS = defineSettings({
  title: 'usher authority',
  settings: {
    ...serverSettings('UMA_AS', {
      drainAlso: ' No less than the default where resource servers call without a balancer.',
    }),
    ...DATABASE_SETTINGS,
    listen: defaulted('UMA_AS_LISTEN', listenAddress, '127.0.0.1:9100', {
      description: 'Where agents and resource servers are served.',
    }),
    ownerListen: defaulted('UMA_AS_OWNER_LISTEN', listenAddress, '127.0.0.1:9101', {
      description: 'Where the owner API is served; the public listener answers 404 to it.',
    }),
    metricsListen: defaulted('UMA_AS_METRICS_LISTEN', listenAddress, '127.0.0.1:9102', {
      description:
        'Where `/metrics` is served, in plain HTTP; it names no owner, and is for operators alone.',
    }),
    provisionFile: optional('UMA_AS_PROVISION', filePath, {
      description:
        'YAML that declares owners, resource servers, resources and tiers; each item is applied once, ever.',
    }),
    ownerAuth: defaulted('UMA_AS_OWNER_AUTH', choices(['device-key', 'oidc']), 'device-key', {
      description:
        'Which credentials the owner API takes: signatures of device keys, access tokens of her OIDC realm, or both. Each suffices.',
    }),
    ...oidcSettings('UMA_AS', { who: 'owners', what: 'owner API' }),
    enrolmentSeconds: defaulted('UMA_AS_ENROLMENT_SECONDS', wholeNumber(60, 7 * DAY_SECONDS), '3600', {
      description: 'Life of the one-time code that `usher authority enrol` prints.',
      unit: 'seconds',
    }),
    ownerUrl: optional('UMA_AS_OWNER_URL', url, {
      description:
        'Base URL under which the owner API is reached, named in the metadata as `owner_endpoint`; left out: the issuer (in development, the owner listener).',
    }),
    heartbeatSeconds: defaulted('UMA_AS_HEARTBEAT_SECONDS', wholeNumber(1, 60), '15', {
      description: 'Longest silence of an event stream.',
      unit: 'seconds',
    }),
    streamsPerOwner: defaulted('UMA_AS_STREAMS_PER_OWNER', wholeNumber(1, 10_000), '20', {
      description: 'Most event streams that one process holds open for one owner; beyond, 429.',
      unit: 'streams',
    }),
    streamsMax: defaulted('UMA_AS_STREAMS_MAX', wholeNumber(1, 100_000), '1000', {
      description: 'Most event streams that one process holds open in all; beyond, 503.',
      unit: 'streams',
    }),
    migrate: defaulted('UMA_AS_MIGRATE', toggle, 'true', {
      description: 'Bring the database up to date at the start; otherwise run `usher migrate` first.',
    }),
    reasonBytesMax: defaulted('UMA_AS_MAX_REASON', wholeNumber(0, 16_384), '512', {
      description: 'Longest `reason` in an agreement.',
      unit: 'bytes of UTF-8',
    }),
    trajectoryWindowSeconds: defaulted('UMA_AS_TRAJECTORY_WINDOW', duration(60, 366 * DAY_SECONDS), '7d', {
      description: 'How far back `standing.denials_above`, `tiers_above` and `calls_above` count.',
    }),
    agentIssuers: optional('UMA_AS_AGENT_ISSUERS', agentIssuers, {
      description:
        'Issuers whose agent tokens are accepted, by their exact URLs, separated by commas; nothing is fetched from any other. None when left out.',
    }),
    organizations: optional('UMA_AS_ORGANIZATIONS', issuers, {
      description:
        'Issuers of organizations of which owners may become members, separated by commas; nothing is fetched from any other. None when left out.',
    }),
    ticketSeconds: defaulted('UMA_AS_TICKET_SECONDS', wholeNumber(10, 3600), '300', {
      description: 'Life of a permission ticket.',
      unit: 'seconds',
    }),
    awaitingSeconds: defaulted('UMA_AS_AWAITING_SECONDS', wholeNumber(10, 7 * DAY_SECONDS), '3600', {
      description: 'Life of a ticket that waits for the owner, from each poll.',
      unit: 'seconds',
    }),
    negotiationSeconds: defaulted(
      'UMA_AS_NEGOTIATION_SECONDS',
      wholeNumber(60, 90 * DAY_SECONDS),
      String(7 * DAY_SECONDS),
      {
        description: 'Life of a whole negotiation.',
        unit: 'seconds',
      },
    ),
    pollSeconds: defaulted('UMA_AS_POLL_SECONDS', wholeNumber(0, 60), '3', {
      description: 'The `interval` an agent is asked to wait between polls.',
      unit: 'seconds',
    }),
    patSeconds: defaulted('UMA_AS_PAT_SECONDS', wholeNumber(120, DAY_SECONDS), '3600', {
      description: 'Life of a protection access token; clients renew 60 seconds early.',
      unit: 'seconds',
    }),
    registrySeconds: defaulted('UMA_AS_REGISTRY_SECONDS', wholeNumber(1, DAY_SECONDS), '300', {
      description: 'How long a listing pulled from a resource server is used before it is pulled again.',
      unit: 'seconds',
    }),
    poolMax: defaulted('UMA_AS_POOL_MAX', wholeNumber(2, 500), '20', {
      description:
        'Most connections to Postgres that one process holds for negotiations, registries and the owner API; one owner has at most half of them at a time.',
      unit: 'connections',
    }),
    callPoolMax: defaulted('UMA_AS_CALL_POOL_MAX', wholeNumber(2, 500), '16', {
      description:
        'Most connections that it holds for calls under way (introspect, consume), shared likewise. In all a process holds at most both and one to be notified by: 37 by default, times its replicas below `max_connections`.',
      unit: 'connections',
    }),
    specNs: defaulted('UMA_SPEC_NS', url, DEFAULT_SPEC_NS, {
      description: 'The base of identifier URIs, `{spec_ns}`; the same for every party.',
    }),
    aliases: optional('UMA_AS_ALIASES', choices(Object.values(ALIAS) as [Alias, ...Alias[]]), {
      description:
        'Names of other software that are taken beside the contract’s: of the agreement’s format (with the claim type `urn:uma4agents:claim:myterms-agreement`) and of the metadata’s address, which are told too; of how the agreement’s `iss` begins; of an introduction’s `typ`. None when left out.',
    }),
  },
  check: values => [
    ...serverFaults('UMA_AS', values),
    ...(values.ownerUrl === undefined
      ? []
      : insecureUrlFault('UMA_AS_OWNER_URL', values.ownerUrl, values.devLoopback)),
    ...(values.agentIssuers ?? []).flatMap(issuer =>
      insecureUrlFault('UMA_AS_AGENT_ISSUERS', issuer, values.devLoopback),
    ),
    ...(values.organizations ?? []).flatMap(issuer =>
      insecureUrlFault('UMA_AS_ORGANIZATIONS', issuer, values.devLoopback),
    ),
    ...(values.ownerAuth.includes('oidc') ? oidcFaults(values, 'UMA_AS', 'UMA_AS_OWNER_AUTH') : []),
  ],
})

/** What `usher migrate` needs of them. */
export const MIGRATION_SETTINGS = defineSettings({
  title: 'usher migrate',
  settings: DATABASE_SETTINGS,
})

/** What `usher authority enrol` needs of them. */
export const ENROLMENT_SETTINGS = defineSettings({
  title: 'usher authority enrol',
  settings: {
    ...DATABASE_SETTINGS,
    enrolmentSeconds: AUTHORITY_SETTINGS.settings.enrolmentSeconds,
  },
})

/** What `usher authority` runs with: its settings, and the contents of the files they name. */
export interface AuthorityConfig extends Values<typeof AUTHORITY_SETTINGS.settings>, ServerFiles {
  /** What the provisioning file declares; empty without one. */
  owners: ProvisionedOwner[]
}

/** Loads the files that the settings name. Throws `ConfigFault`. */
export function loadAuthorityFiles(values: Values<typeof AUTHORITY_SETTINGS.settings>): AuthorityConfig {
  const realm = values.ownerAuth.includes('oidc') ? realmPolicy(values) : undefined
  const config: AuthorityConfig = {
    ...values,
    keys: [],
    tls: undefined,
    owners: [],
    realm,
    traces: undefined,
  }
  collectFaults<void>([
    ...serverFileTasks('UMA_AS', values, config),
    () => {
      if (values.provisionFile !== undefined)
        config.owners = loadProvisionFile(values.provisionFile, values.devLoopback, realm?.issuer)
    },
  ])
  return config
}
