/**
 * Opens what a tally works with: its database, its keys, and the clients of other servers. Contract:
 * "Parties" (tally), "Tally for a jointly held resource".
 */
import type { TallyConfig } from '../config.ts'
import { createJwksCache } from '../http/outbound/jwks-cache.ts'
import { createOutbound, openOutbound } from '../http/outbound/outbound.ts'
import type { Opening } from '../http/party.ts'
import { createRemoteDocuments } from '../http/outbound/remote-documents.ts'
import { listen as listenToDatabase } from '../storage/core/listen.ts'
import { TALLY_DATABASE } from '../storage/tally/database.ts'
import { ACCOUNTS_CHANNEL } from '../storage/tally/negotiations.ts'
import { createAgentIssuers, type AgentIssuers } from '../surface/agents/agent-issuers.ts'
import { createClock, GRANTING, logClockChanges } from '../surface/clock.ts'
import { signingKeys } from '../wire/signatures/keys.ts'
import { ticketKeys } from '../wire/negotiation/ticket.ts'
import type { Tally } from './context.ts'
import { createHolderClient } from './holders/client.ts'
import type { HolderProofContext } from './holders/proof.ts'
import { createCollector } from './negotiation/collector.ts'
import type { TallyDecisionContext } from './negotiation/decisions.ts'
import type { Negotiating } from './negotiation/negotiations.ts'
import { createQuotes } from './negotiation/quotes.ts'
import { provision } from './provision.ts'
import { createWakes } from './wakes.ts'

/** An unknown kid may be a key that was just rotated in, but anybody can name an unknown one. */
const ISSUER_REFETCH_SECONDS = 60

/** The context that every endpoint gets. */
export type WholeTally = Tally &
  Negotiating &
  TallyDecisionContext &
  HolderProofContext & { agentIssuers: AgentIssuers }

/** Opens it; what is opened adds to `closers` how to close it. */
export async function openTally(
  config: TallyConfig,
  { log, localClock, lockTimeoutMs, closers }: Opening,
): Promise<WholeTally> {
  const clock = createClock({ local: localClock, onTurn: logClockChanges(log, GRANTING) })
  const database = await TALLY_DATABASE.openServing({ ...config, lockTimeoutMs }, log)
  closers.push(() => database.close())
  for (const done of await provision(database.ofNobody, config.accounts))
    log.info(done, 'a mandate is in force from now on')
  const wakes = createWakes()
  closers.push(async () => wakes.wake())
  const listener = await listenToDatabase({
    url: config.databaseUrl,
    channel: ACCOUNTS_CHANNEL,
    polls: !config.notifies,
    onNotify: account => wakes.wake(account),
    onConnect: () => wakes.wake(),
    onError: error => log.warn({ err: error }, 'listening to the database was interrupted'),
    onClock: reading => clock.take(reading),
  })
  closers.push(() => listener.close())
  const keys = signingKeys(config.keys)
  const core = {
    issuer: config.issuer,
    specNs: config.specNs,
    aliases: config.aliases ?? [],
    limits: config,
    keys,
    ticketKeys: ticketKeys(keys),
    database,
    log,
    clock,
    now: () => Math.floor(clock.now() / 1_000),
  }
  return { ...core, wakes, ...openHolders(config, core, closers), ...openIssuers(config, core, closers) }
}

/** The operator chooses the holders' authorization servers, so they may be in a private network. */
function openHolders(
  { devLoopback }: TallyConfig,
  core: Tally,
  closers: (() => Promise<void>)[],
): Pick<WholeTally, 'quotes' | 'collector' | 'holderKeys'> {
  const asking = createOutbound({ devLoopback })
  const reading = createOutbound({ devLoopback })
  const { issuer, keys: own } = core
  const holders = createHolderClient({ issuer, key: own[0], outbound: asking, now: () => core.now() })
  const holderKeys = createJwksCache({ outbound: reading, clock: Date.now })
  const collector = createCollector({ ...core, holders, holderKeys })
  closers.push(async () => {
    const stopped = collector.stop()
    // Running questions are aborted, so that stopping does not wait for another server.
    await Promise.all([asking.close(), reading.close()])
    await stopped
  })
  return { quotes: createQuotes(holders, () => performance.now()), collector, holderKeys }
}

function openIssuers(
  { devLoopback, agentIssuers }: TallyConfig,
  core: Tally,
  closers: (() => Promise<void>)[],
): { agentIssuers: AgentIssuers } {
  const outbound = openOutbound({ devLoopback, publicOnly: true }, closers)
  const documents = createRemoteDocuments({
    outbound,
    clock: () => Date.now(),
    refetchSeconds: ISSUER_REFETCH_SECONDS,
  })
  return { agentIssuers: createAgentIssuers(agentIssuers ?? [], documents, () => core.now()) }
}
