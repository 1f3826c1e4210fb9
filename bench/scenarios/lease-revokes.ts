/**
 * Owns what a revoke waits for while sidecars hold leases of its owner (ADR 0021): ten of them, each with an
 * answer about the very grant that ends, beside the revokes of an owner of whom nobody holds any, in turns;
 * and the same with one sidecar stopped. By itself: `node bench/scenarios/lease-revokes.ts`.
 */
import { join } from 'node:path'
import { until } from '../../src/dev/stack/child-process.ts'
import { createOwnerClient, type OwnerClient } from '../../src/owner/client.ts'
import type { Handle, Owner } from '../../src/wire/identifiers.ts'
import { importPrivateJwk } from '../../src/wire/signatures/keys.ts'
import type { Revoked } from '../../src/wire/owner/owner-api.ts'
import { connect, type CheckClient } from '../../test/support/check-client.ts'
import * as seed from '../../test/support/seed.ts'
import { percentile, spreadOf, type Spread } from '../figures.ts'
import { checkOf } from '../load/corpus.ts'
import { readResidentMib } from '../machine.ts'
import type { MeasuredSidecar } from '../sidecars.ts'
import { startOwnSystem, type System } from '../system.ts'
import type { KnownAgent } from '../world.ts'
import { runByItself } from './by-itself.ts'

const HOLDERS = 10
const REVOKES = 200
/** Of each, before any is timed. */
const WARM_UP = 10
/** With one sidecar stopped. */
const SILENT = 5

export interface LeaseRevokes {
  holders: number
  /** Revoke by revoke: of the owner whose leases are held, and of the one of whom none is. */
  leased_ms: number[]
  asked_ms: number[]
  /** The part of each of `leased_ms` after the commit, while the authority waited for the sidecars. */
  waited_ms: number[]
  /** While one of the sidecars was stopped. */
  silent_ms: number[]
  /** Resident memory of a sidecar that has only just begun to hold a lease. */
  idle_rss_mib: number | undefined
}

/** A sidecar that holds a lease, and a proxy's channel to it. */
interface Leasing {
  sidecar: MeasuredSidecar
  proxy: CheckClient
}

/** Both owners: as many agents of each as are revoked. */
interface Owners {
  leased: { client: OwnerClient; agents: KnownAgent[] }
  asked: { client: OwnerClient; handles: Handle[] }
}

/** Measures on a system of its own. Takes about a minute. */
export async function measureLeaseRevokes(
  directory: string,
  { tell }: { tell: (line: string) => void },
): Promise<LeaseRevokes> {
  tell('leases: starting their system')
  const system = await startOwnSystem(join(directory, 'leases'))
  const stops: (() => void)[] = []
  try {
    const sidecars = await Promise.all(
      Array.from({ length: HOLDERS }, () => system.sidecarWith({ liveness: 'leased' })),
    )
    const leasing = sidecars.map(sidecar => ({ sidecar, proxy: connect(`127.0.0.1:${sidecar.checkPort}`) }))
    stops.push(() => leasing.forEach(({ proxy }) => proxy.close()))
    const owners = await settle(system)
    const spare = owners.leased.agents.pop()!
    await allHold(system, leasing, spare)
    await allRenew(system)
    const idle_rss_mib = await readResidentMib([sidecars[0]!.pid!])
    const [leased_ms, waited_ms, asked_ms]: [number[], number[], number[]] = [[], [], []]
    for (let n = 0; n < WARM_UP + REVOKES; n++) {
      const leased = await leasedRevoke(system, leasing, owners)
      const asked = await askedRevoke(system, leasing, { owners, spare })
      if (n < WARM_UP) continue
      leased_ms.push(leased.ms)
      waited_ms.push(leased.waited_ms)
      asked_ms.push(asked)
    }
    tell(`leases: ${REVOKES} revokes of each`)
    const silent_ms: number[] = []
    for (let n = 0; n < SILENT; n++) silent_ms.push(await silentRevoke(system, leasing, { owners, n }))
    return { holders: HOLDERS, leased_ms, waited_ms, asked_ms, silent_ms, idle_rss_mib }
  } finally {
    for (const stop of stops) stop()
    await system.stop()
  }
}

/** The lines of the report. */
export function renderLeaseRevokes(measured: LeaseRevokes): string {
  const { holders, leased_ms, waited_ms, asked_ms, silent_ms, idle_rss_mib: rss } = measured
  const shown = (times: number[]): string => {
    const sorted = times.toSorted((one, other) => one - other)
    const [p50, p99] = [0.5, 0.99].map(share => percentile(sorted, share).toFixed(1))
    return `p50 ${p50} ms, p99 ${p99} (${sorted[0]!.toFixed(1)} to ${sorted.at(-1)!.toFixed(1)})`
  }
  const { median, min, max } = spreadOf(silent_ms) as Spread
  return [
    `a revoke, ${leased_ms.length} of each`,
    `  with ${holders} sidecars that hold leases      ${shown(leased_ms)}`,
    `    of that, the wait after the commit   ${shown(waited_ms)}`,
    `    and all else                         ${shown(leased_ms.map((ms, n) => ms - waited_ms[n]!))}`,
    `  with none                              ${shown(asked_ms)}`,
    `  with one of the ${holders} stopped             ${median.toFixed(0)} ms (${min.toFixed(0)} to ${max.toFixed(0)})`,
    ...(rss === undefined ? [] : [`  memory of a sidecar at its first lease ${rss.toFixed(0)} MiB`]),
  ].join('\n')
}

/** Alice's agents are as the system made them; the other owner's have a connection and a grant each. */
async function settle({ world, database: { db }, ownerApi, ownerKey }: System): Promise<Owners> {
  const { owner: other, key } = await seed.seedOwnerWithKey(db)
  const handles: Handle[] = []
  while (handles.length < WARM_UP + REVOKES) handles.push(await seedAgent(db, other))
  const at = { api: ownerApi, issuer: world.issuer }
  return {
    leased: { client: createOwnerClient({ ...at, key: ownerKey }), agents: [...world.agents] },
    asked: { client: createOwnerClient({ ...at, key }), handles },
  }
}

async function seedAgent(db: System['database']['db'], owner: Owner): Promise<Handle> {
  const handle = seed.name('jkt:')
  await seed.seedGrant(db, owner, handle, await seed.seedConnection(db, owner, handle))
  return handle
}

/** Each sidecar lets a call of the agent's through, and so has an answer about its grant. */
async function passed(system: System, leasing: readonly Leasing[], agent: KnownAgent): Promise<void> {
  const decided = await Promise.all(leasing.map(one => decide(system, one, agent)))
  if (!decided.every(isAllowed => isAllowed)) throw new Error('a call under a live grant was not allowed')
}

/**
 * Calls until each sidecar holds a lease. One call need not suffice: a sidecar takes a lease with an answer
 * that comes once it has read in the authority's metadata that there are leases.
 */
async function allHold(system: System, leasing: readonly Leasing[], agent: KnownAgent): Promise<void> {
  await until(`${HOLDERS} leases to be taken`, async () => {
    await passed(system, leasing, agent)
    return (await readRenewals(system)).size === HOLDERS
  })
}

async function decide({ world }: System, { proxy }: Leasing, agent: KnownAgent): Promise<boolean> {
  const key = importPrivateJwk(agent.jwk)
  const call = { tool: 'portfolio_read', arguments: { account: 'account-1', currency: 'EUR' } }
  const { status, ok_response, denied_response } = await proxy.check(
    checkOf(world, { key, rpt: agent.rpt, call }),
    { deadline: Date.now() + 10_000 },
  )
  if ((status?.code ?? 0) === 0 && ok_response !== undefined) return true
  if (denied_response?.body?.includes('"access_revoked"') === true) return false
  throw new Error(`a check was answered with ${denied_response?.body ?? 'nothing'}`)
}

/** Ends the grant of the next agent, about which every sidecar has an answer; one of them is called again. */
async function leasedRevoke(
  system: System,
  leasing: readonly Leasing[],
  { leased }: Owners,
): Promise<{ ms: number; waited_ms: number }> {
  const agent = leased.agents.pop()!
  await passed(system, leasing, agent)
  const { ms, leases } = await revoke(leased.client, agent.handle)
  if (leases?.holders !== HOLDERS || leases.acknowledged !== HOLDERS)
    throw new Error(`of ${HOLDERS} sidecars the revoke said ${JSON.stringify(leases)}`)
  await refused(system, leasing[leased.agents.length % HOLDERS]!, agent)
  return { ms, waited_ms: leases.waited_ms }
}

/** The other owner's, after calls as before. */
async function askedRevoke(
  system: System,
  leasing: readonly Leasing[],
  { owners: { asked }, spare }: { owners: Owners; spare: KnownAgent },
): Promise<number> {
  await passed(system, leasing, spare)
  const { ms, leases } = await revoke(asked.client, asked.handles.pop()!)
  if (leases !== undefined)
    throw new Error(`nobody holds a lease, but the revoke said ${JSON.stringify(leases)}`)
  return ms
}

/** The time of a revoke that waited for a stopped sidecar until the lease of its answers was over. */
async function silentRevoke(
  system: System,
  leasing: readonly Leasing[],
  { owners, n }: { owners: Owners; n: number },
): Promise<number> {
  for (;;) {
    const ms = await revokeBesideStopped(system, leasing, { owners, stopped: leasing[n % HOLDERS]! })
    if (ms !== undefined) return ms
  }
}

/**
 * Revokes while a sidecar that holds a lease is stopped; it goes on afterwards, and must not use what it had.
 * Undefined if the authority swept its lease during the wait, because it had been silent for 2.2 s by then.
 */
async function revokeBesideStopped(
  system: System,
  leasing: readonly Leasing[],
  { owners: { leased }, stopped }: { owners: Owners; stopped: Leasing },
): Promise<number | undefined> {
  const { world } = system
  const agent = leased.agents.pop()!
  await passed(system, leasing, agent)
  await allRenew(system)
  // One that was stopped before has another lease by now, and none of its answers.
  await passed(system, leasing, agent)
  process.kill(stopped.sidecar.pid!, 'SIGSTOP')
  try {
    const { ms, leases } = await revoke(leased.client, agent.handle)
    if (leases?.holders === HOLDERS && leases.acknowledged === HOLDERS) return undefined
    if (leases?.acknowledged !== HOLDERS - 1 || leases.silent?.join() !== world.clientId)
      throw new Error(`with one of ${HOLDERS} sidecars stopped the revoke said ${JSON.stringify(leases)}`)
    return ms
  } finally {
    process.kill(stopped.sidecar.pid!, 'SIGCONT')
    await refused(system, stopped, agent)
  }
}

async function refused(system: System, one: Leasing, agent: KnownAgent): Promise<void> {
  if (await decide(system, one, agent)) throw new Error('a call that began after its revoke was allowed')
}

async function revoke(
  client: OwnerClient,
  handle: Handle,
): Promise<{ ms: number; leases: Revoked['leases'] }> {
  const from = performance.now()
  const { leases } = await client.revoke(handle)
  return { ms: performance.now() - from, leases }
}

/** Waits until each sidecar holds a lease that it has renewed since now. */
async function allRenew(system: System): Promise<void> {
  const before = await readRenewals(system)
  await until(`${HOLDERS} leases to be renewed`, async () => {
    const now = await readRenewals(system)
    return now.size === HOLDERS && [...now].every(([id, renewals]) => renewals > (before.get(id) ?? 0))
  })
}

/** How often each lease was renewed, by its id. */
async function readRenewals({ database: { pool } }: System): Promise<Map<string, number>> {
  const { rows } = await pool.query<{ id: string; renewals: number }>(
    'SELECT id, renewals FROM lease_holders',
  )
  return new Map(rows.map(({ id, renewals }) => [id, renewals]))
}

if (import.meta.main)
  await runByItself(async (directory, tell) =>
    renderLeaseRevokes(await measureLeaseRevokes(directory, { tell })),
  )
