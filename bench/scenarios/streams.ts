/**
 * Owns what event streams cost: how soon an approval reaches all streams of an owner, what another owner's
 * calls take meanwhile, and what memory the authority holds before, with, and after them. docs/performance.md
 * says how to read it. By itself alone: `node bench/scenarios/streams.ts`; `--owners 25` spreads the streams.
 */
import { setTimeout as delay } from 'node:timers/promises'
import { parseArgs } from 'node:util'
import { createOwnerClient } from '../../src/owner/client.ts'
import { signedFetch, type ApiAccess } from '../../src/client/signed-fetch.ts'
import type { Owner } from '../../src/wire/identifiers.ts'
import * as seed from '../../test/support/seed.ts'
import { percentile, spreadOf } from '../figures.ts'
import { readResidentMib } from '../machine.ts'
import { startOwnSystem, type System } from '../system.ts'
import { runByItself } from './by-itself.ts'
import { openProtection, type ProtectionDoor } from './protection-door.ts'

const STREAMS = 500
const APPROVALS = 20
/** Of the other owner, a second. */
const CALLS_PER_SECOND = 100
const IDLE_SECONDS = 5
const AFTER_SECONDS = 20
const ANSWER_MS_MAX = 30_000

interface Household {
  owner: Owner
  access: ApiAccess
}

/** Streams of one owner, which count the events that they were sent. */
interface Audience extends Household {
  /** Events in all, over all of her streams. */
  heard: number
}

async function settle(system: System): Promise<Household> {
  const { owner, key } = await seed.seedOwnerWithKey(system.database.db)
  return { owner, access: { api: system.ownerApi, issuer: system.world.issuer, key } }
}

/** Opens a stream, and counts its events; resolves when it is open. */
async function follow(audience: Audience, signal: AbortSignal): Promise<void> {
  const answer = await signedFetch(audience.access, { method: 'GET', path: '/owner/events', signal })
  if (answer.status !== 200) throw new Error(`a stream was answered ${answer.status} ${await answer.text()}`)
  const body = answer.body!.getReader()
  await body.read()
  const listen = async (): Promise<void> => {
    for (;;) {
      const { done, value } = await body.read()
      if (done) return
      audience.heard += Buffer.from(value).toString('latin1').split('event: decided').length - 1
    }
  }
  listen().catch(() => undefined)
}

/** How long it takes, from her decision, until all of her streams have heard of it. */
async function approve(system: System, audience: Audience, streams: number): Promise<number> {
  const { family } = await seed.seedWaiting(system.database.db, audience.owner, seed.name('jkt:'))
  const wanted = audience.heard + streams
  const since = performance.now()
  await createOwnerClient(audience.access).decide(family, 'approved')
  while (audience.heard < wanted) {
    if (performance.now() - since > ANSWER_MS_MAX) throw new Error('an approval did not reach every stream')
    await delay(1)
  }
  return performance.now() - since
}

/** Calls of another owner at a bounded rate, until told to end; what each took, from when it was due. */
function calling(door: ProtectionDoor, token: string): () => Promise<number[]> {
  const times: number[] = []
  const ending = new AbortController()
  const begun = performance.now()
  const calls: Promise<void>[] = []
  const run = (async () => {
    for (let n = 0; !ending.signal.aborted; n++) {
      const dueAt = begun + (n * 1_000) / CALLS_PER_SECOND
      await delay(Math.max(0, dueAt - performance.now()))
      calls.push(door.introspect(token).then(() => void times.push(performance.now() - dueAt)))
    }
    await Promise.all(calls)
  })()
  return async () => {
    ending.abort()
    await run
    return times.toSorted((one, other) => one - other)
  }
}

async function measure(system: System, owners: number): Promise<string> {
  const bob = await settle(system)
  const world = {
    ...system.world,
    owner: bob.owner,
    clientId: seed.CLIENT_ID,
    clientSecret: seed.CLIENT_SECRET,
  }
  const door = await openProtection(world, { connections: 64 })
  const closing = new AbortController()
  const pids = system.pids.authority ?? []
  const token = 'nobody’s'
  try {
    const idle = calling(door, token)
    await delay(IDLE_SECONDS * 1_000)
    const alone = await idle()
    const before = await readResidentMib(pids)
    const each = Math.ceil(STREAMS / owners)
    const audiences: Audience[] = []
    for (let n = 0; n < owners; n++) audiences.push({ ...(await settle(system)), heard: 0 })
    for (const audience of audiences) for (let n = 0; n < each; n++) await follow(audience, closing.signal)
    const open = await readResidentMib(pids)
    const busy = calling(door, token)
    const reached: number[] = []
    for (let n = 0; n < APPROVALS; n++) reached.push(await approve(system, audiences[n % owners]!, each))
    const beside = await busy()
    const after = await readResidentMib(pids)
    closing.abort()
    await delay(AFTER_SECONDS * 1_000)
    const closed = await readResidentMib(pids)
    const { median, max } = spreadOf(reached)!
    const ms = (value: number): string => `${value.toFixed(1)} ms`
    const mib = (value: number | undefined): string => `${value?.toFixed(0) ?? '?'} MiB`
    return [
      `${each * owners} streams of ${owners} owner(s): an approval reached all of hers in ${ms(median)} (at most ${ms(max)})`,
      `another owner's ${CALLS_PER_SECOND} introspections a second: p99 ${ms(percentile(beside, 0.99))} beside it, ${ms(percentile(alone, 0.99))} alone`,
      `the authority holds ${mib(before)} before, ${mib(open)} with them, ${mib(after)} after ${APPROVALS} approvals, ${mib(closed)} ${AFTER_SECONDS} s after they closed`,
    ].join('\n')
  } finally {
    await door.close()
  }
}

async function main(): Promise<void> {
  const { values } = parseArgs({ options: { owners: { type: 'string' } } })
  const owners = Number(values.owners ?? 1)
  await runByItself(async directory => {
    const system = await startOwnSystem(directory, { UMA_AS_STREAMS_PER_OWNER: String(STREAMS) })
    try {
      return await measure(system, owners)
    } finally {
      await system.stop()
    }
  })
}

if (import.meta.main) await main()
