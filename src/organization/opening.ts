/**
 * Opens what an organization works with: its database, its keys, and the clients of other servers; and
 * publishes the first charter. Contract: "Parties" (organization's authority), "The organization's
 * authority".
 */
import type { OrganizationConfig } from '../config.ts'
import { createAttemptLimit } from '../credentials/attempt-limit.ts'
import { createRealmKeys, type RealmKeys } from '../credentials/realm-keys.ts'
import { createJwksCache, type JwksCache } from '../http/outbound/jwks-cache.ts'
import { openOutbound } from '../http/outbound/outbound.ts'
import type { Opening } from '../http/party.ts'
import { signatureBase } from '../http/servers/signed-request.ts'
import { BoundedMap } from '../limits/bounded-map.ts'
import { inTransaction } from '../storage/core/database.ts'
import { listen as listenToDatabase } from '../storage/core/listen.ts'
import { appendActivity } from '../storage/organization/activity.ts'
import { lockHead, publishCharter } from '../storage/organization/charters.ts'
import { ORGANIZATION_DATABASE } from '../storage/organization/database.ts'
import { NOTICES_CHANNEL } from '../storage/organization/notices.ts'
import { createClock, logClockChanges } from '../surface/clock.ts'
import { charterDigest, type Charter } from '../wire/organization/charter.ts'
import { signingKeys } from '../wire/signatures/keys.ts'
import type { Organization, OrganizationStore } from './context.ts'
import { createNoticeSender } from './notices/sender.ts'

const WRONG_CODES_PER_MINUTE = 10
/** How many identity providers are kept: one charter after another may name a new one. */
const IDENTITY_PROVIDERS_KEPT = 8
/** The work that pauses while its clock is wrong. */
const SIGNING = { goesOn: 'it signs', stops: 'it signs nothing' }
/** The author of the provisioning file's charter. */
const PROVISIONED_BY = 'provisioning'

/** The context of every endpoint, but for the log of security events, which needs the metrics. */
export type OpenedOrganization = Omit<Organization, 'security'>

/**
 * Opens it; what is opened adds to `closers` how to close it. @param onNotice called when a notice was
 * written, by any replica.
 */
export async function openOrganization(
  config: OrganizationConfig,
  { log, localClock, lockTimeoutMs, closers }: Opening,
  onNotice: () => void,
): Promise<OpenedOrganization> {
  const clock = createClock({ local: localClock, onTurn: logClockChanges(log, SIGNING) })
  const { issuer, id, name, invitationSeconds } = config
  const database = await ORGANIZATION_DATABASE.openServing({ ...config, lockTimeoutMs }, log)
  closers.push(() => database.close())
  const listener = await listenToDatabase({
    url: config.databaseUrl,
    channel: NOTICES_CHANNEL,
    onNotify: onNotice,
    onConnect: onNotice,
    onError: error => log.warn({ err: error }, 'listening to the database was interrupted'),
    onClock: reading => clock.take(reading),
  })
  closers.push(() => listener.close())
  const keys = signingKeys(config.keys)
  const { authorities = [] } = config
  const now = (): number => Math.floor(clock.now() / 1_000)
  const outbound = openOutbound({ devLoopback: config.devLoopback }, closers)
  return {
    issuer,
    id,
    name,
    aliases: config.aliases ?? [],
    keys,
    database,
    log,
    clock,
    now,
    base: signatureBase(issuer),
    invitationSeconds,
    authorities,
    identityKeys: openIdentityKeys(config, closers),
    notices: createNoticeSender({ issuer, key: keys[0], authorities, outbound, now }),
    authorityKeys: openPublishedKeys(config, closers),
    enforcementPoints: config.provisioned.enforcementPoints,
    enforcementKeys: openPublishedKeys(config, closers),
    attempts: createAttemptLimit({ failuresPerMinute: WRONG_CODES_PER_MINUTE, clock: Date.now }),
  }
}

/** The operator chooses authorities and enforcement points, so they may be in a private network. */
function openPublishedKeys({ devLoopback }: OrganizationConfig, closers: (() => Promise<void>)[]): JwksCache {
  return createJwksCache({ outbound: openOutbound({ devLoopback }, closers), clock: Date.now })
}

/**
 * A charter names the provider, so everybody who may publish a charter can name one. So no provider in a
 * private network is asked.
 */
function openIdentityKeys(
  { devLoopback }: OrganizationConfig,
  closers: (() => Promise<void>)[],
): Organization['identityKeys'] {
  const outbound = openOutbound({ devLoopback, publicOnly: true }, closers)
  const known = new BoundedMap<string, RealmKeys>(IDENTITY_PROVIDERS_KEPT)
  return issuer => {
    const keys = known.get(issuer) ?? createRealmKeys({ issuer, outbound, clock: Date.now })
    if (!known.has(issuer)) known.set(issuer, keys)
    return keys
  }
}

/**
 * Publishes the file's charter if none was ever published; only one of several replicas that start together
 * does.
 */
export async function publishFirst(
  { database, log }: OrganizationStore,
  charter: Charter | undefined,
): Promise<void> {
  if (charter === undefined) return
  const version = await inTransaction(database.ofNobody, async tx => {
    if ((await lockHead(tx)) > 0) return undefined
    const s256 = charterDigest(charter)
    const row = await publishCharter(tx, { charter, s256, by: PROVISIONED_BY, affects: 'everybody' })
    const data = { charter_version: row.version, s256, by: PROVISIONED_BY }
    await appendActivity(tx, { kind: 'charter_published', data })
    return row.version
  })
  if (version !== undefined) log.info({ version }, 'the first charter was published')
}
