/**
 * Owns what the owner's lists cost when they are long: a thousand requests wait, ten thousand agents are
 * known, the ledger is long. Each call is timed as her client sends it, one at a time, the calls taking
 * turns. A page deep in a list must cost what the first one does. docs/performance.md says how to read it. By
 * itself: `node bench/scenarios/owner-lists.ts`.
 */
import { parseArgs } from 'node:util'
import { createOwnerClient, type OwnerClient } from '../../src/owner/client.ts'
import { signedFetch, type ApiRequest } from '../../src/client/signed-fetch.ts'
import { isJsonObject, type Json } from '../../src/wire/json.ts'
import { BUSY, crowd, FIRST_SEQ } from '../../test/support/crowded-owner.ts'
import { percentile } from '../figures.ts'
import { startOwnSystem, type System } from '../system.ts'
import { runByItself } from './by-itself.ts'

const WAITING = 1_000
const CONNECTIONS = 10_000
const PAGE = 100
const TURNS = 60
const WARM_UP_TURNS = 5
/**
 * A page may cost so much more than the first one, and is still no longer to be had by reading all before it.
 */
const DEEP_OVER_FIRST_MAX = 2

export interface OwnerListCall {
  calls: number
  p50_ms: number
  p95_ms: number
  /** Of the answer. */
  items: number
}

export interface OwnerLists {
  ledger_rows: number
  connections: number
  waiting: number
  fill_seconds: number
  calls: Record<string, OwnerListCall>
  /** p50 of a deep page over that of the first, by list. */
  deep_over_first: Record<string, number>
  deep_over_first_max: number
  bounded: boolean
}

/** One call; `items` reads from the answer how many things it holds, and `least` of them there must be. */
interface Timed {
  name: string
  request: ApiRequest
  least: number
}

const get = (name: string, path: string, query: Record<string, string> = {}, least = PAGE): Timed => ({
  name,
  request: { method: 'GET', path, query },
  least,
})

const TRIED = {
  id: 'reading',
  name: 'Reading',
  resources: ['alice/portfolio'],
  rules: [{ when: ['request.reason_absent'], then: 'refuse' }],
  terms: { purpose: 'Know what the account holds', scope: ['read'], expires_in: 60 },
}

/** All her lists, and for long ones also a page near the end, called `<list>, deep`. */
function timedCalls(ledgerRows: number): Timed[] {
  const late = String(FIRST_SEQ + Math.floor(ledgerRows * 0.9))
  const preview = (name: string, after: number): Timed => ({
    name,
    request: { method: 'POST', path: '/owner/policies/preview', body: { tier: TRIED, after, limit: PAGE } },
    least: PAGE,
  })
  return [
    get('pending', '/owner/pending'),
    get('pending, deep', '/owner/pending', { after: 'fam_00000101' }),
    get('pending, all of it', '/owner/pending', { limit: '1000' }, WAITING),
    get('connections', '/owner/connections'),
    get('connections, deep', '/owner/connections', { after: 'jkt:agent009800' }),
    get('operators', '/owner/operators', {}, PAGE / 2),
    get('policies', '/owner/policies', {}, 3),
    get('policy vocabulary', '/owner/policy-vocabulary', {}, 21),
    get('resources', '/owner/resources'),
    get('resources, deep', '/owner/resources', { after: 'alice/album-8' }),
    get('resource servers', '/owner/resource-servers', {}, 1),
    get('device keys', '/owner/device-keys', {}, 1),
    get('logins', '/owner/logins', {}, 0),
    get('ledger', '/owner/ledger'),
    get('ledger, deep', '/owner/ledger', { after: late }),
    get('ledger of an agent', '/owner/ledger', { handle: BUSY }),
    get('ledger of an agent, deep', '/owner/ledger', { handle: BUSY, after: late }),
    get('ledger of a kind', '/owner/ledger', { kind: 'promised' }),
    get('ledger of a kind, deep', '/owner/ledger', { kind: 'promised', after: late }),
    get('ledger of nobody', '/owner/ledger', { handle: 'jkt:nobody' }, 0),
    preview('preview', FIRST_SEQ),
    preview('preview, deep', Number(late)),
  ]
}

/**
 * Fills the owner's tables and times her calls. What was measured before is not touched, but shares the
 * database from now on.
 */
export async function measureOwnerLists(
  system: System,
  { ledgerRows, tell }: { ledgerRows: number; tell: (line: string) => void },
): Promise<OwnerLists> {
  const { owner, issuer } = system.world
  tell(`owner lists: filling a ledger of ${ledgerRows} rows`)
  const began = performance.now()
  await crowd(system.database.db, { owner, ledgerRows, connections: CONNECTIONS, waiting: WAITING })
  const fill_seconds = (performance.now() - began) / 1_000
  const client = createOwnerClient({ api: system.ownerApi, issuer, key: system.ownerKey })
  const timed = timedCalls(ledgerRows)
  const turns = new Map([...timed.map(({ name }) => name), EVENTS].map(name => [name, [] as number[]]))
  const items = new Map<string, number>([[EVENTS, 0]])
  for (let turn = -WARM_UP_TURNS; turn < TURNS; turn++) {
    for (const one of timed) {
      const from = performance.now()
      items.set(one.name, await call(client, one))
      if (turn >= 0) turns.get(one.name)!.push(performance.now() - from)
    }
    const ms = await connectEvents(client)
    if (turn >= 0) turns.get(EVENTS)!.push(ms)
  }
  const calls = Object.fromEntries(
    [...turns].map(([name, times]) => [name, { ...summary(times), items: items.get(name)! }]),
  )
  const deep = Object.keys(calls).filter(name => name.endsWith(DEEP))
  const deep_over_first = Object.fromEntries(
    deep.map(name => {
      const list = name.slice(0, -DEEP.length)
      return [list, calls[name]!.p50_ms / calls[list]!.p50_ms]
    }),
  )
  tell(`owner lists: ${timed.length + 1} calls timed ${TURNS} times each`)
  return {
    ledger_rows: ledgerRows,
    connections: CONNECTIONS,
    waiting: WAITING,
    fill_seconds,
    calls,
    deep_over_first,
    deep_over_first_max: DEEP_OVER_FIRST_MAX,
    bounded: Object.values(deep_over_first).every(ratio => ratio <= DEEP_OVER_FIRST_MAX),
  }
}

const DEEP = ', deep'
const EVENTS = 'events, connecting'

async function call(client: OwnerClient, { name, request, least }: Timed): Promise<number> {
  const count = countOf(await client.ask(request))
  if (count < least) throw new Error(`${name} answered ${count} items, not ${least}`)
  return count
}

/** A list is the answer itself, or its one member that is a list. */
function countOf(answer: Json | undefined): number {
  if (Array.isArray(answer)) return answer.length
  if (answer === undefined || !isJsonObject(answer)) return 0
  const { requests, entries, tiers } = answer
  const found = requests ?? entries ?? tiers
  return Array.isArray(found) ? found.length : 0
}

/** Milliseconds until the stream is open and has said where it begins. */
async function connectEvents({ access }: OwnerClient): Promise<number> {
  const leaving = new AbortController()
  const from = performance.now()
  const response = await signedFetch(access, { method: 'GET', path: '/owner/events', signal: leaving.signal })
  if (response.status !== 200) throw new Error(`the event stream answered ${response.status}`)
  await response.body!.getReader().read()
  const ms = performance.now() - from
  leaving.abort()
  return ms
}

function summary(times: number[]): Omit<OwnerListCall, 'items'> {
  const sorted = times.toSorted((one, other) => one - other)
  return { calls: times.length, p50_ms: percentile(sorted, 0.5), p95_ms: percentile(sorted, 0.95) }
}

/** What was measured, as lines of text. */
export function renderOwnerLists(lists: OwnerLists): string {
  const { ledger_rows, connections, waiting, calls, deep_over_first, deep_over_first_max } = lists
  const count = (value: number): string => value.toLocaleString('en-US')
  const width = Math.max(...Object.keys(calls).map(name => name.length))
  const lines = Object.entries(calls).map(([name, { p50_ms, p95_ms, items }]) => {
    const cells = [p50_ms.toFixed(1), p95_ms.toFixed(1), count(items)]
    return `${name.padEnd(width)}${cells.map(cell => cell.padStart(9)).join('')}`
  })
  const worst = Object.entries(deep_over_first).toSorted(([, one], [, other]) => other - one)[0]!
  return [
    `Her lists: ${count(waiting)} requests wait, ${count(connections)} agents are known, ${count(ledger_rows)} ledger rows; one call at a time`,
    `${''.padEnd(width)}${['p50 ms', 'p95 ms', 'items'].map(cell => cell.padStart(9)).join('')}`,
    ...lines,
    `A deep page over the first: at most ${worst[1].toFixed(2)} (${worst[0]}); goal at most ${deep_over_first_max}`,
  ].join('\n')
}

async function main(): Promise<void> {
  const { values } = parseArgs({ options: { 'ledger-rows': { type: 'string', default: '100000' } } })
  const ledgerRows = Number(values['ledger-rows'])
  if (!Number.isInteger(ledgerRows) || ledgerRows < 10_000)
    throw new Error('Give --ledger-rows as a number from 10000.')
  await runByItself(async (directory, tell) => {
    const system = await startOwnSystem(directory)
    try {
      const lists = await measureOwnerLists(system, { ledgerRows, tell })
      if (!lists.bounded) process.exitCode = 1
      return renderOwnerLists(lists)
    } finally {
      await system.stop()
    }
  })
}

if (import.meta.main) await main()
