/**
 * A thousand items wait, ten thousand agents are known, a ledger is long: every owner call reads a bounded
 * number of rows, by index. Contract, "Owner API" (lists are paged) and "Limits". Rows read are counted, not
 * milliseconds: they are the same on every machine. UMA_TEST_LEDGER_ROWS=1000000 fills a million.
 */
import { subscribe, unsubscribe } from 'node:diagnostics_channel'
import { Client } from 'pg'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { startTestAuthority, type OwnerCall, type TestAuthority } from '../support/authority.ts'
import { BUSY, crowd, FIRST_SEQ, LARGE_OPERATOR, QUIET, SMALL_OPERATOR } from '../support/crowded-owner.ts'
import { STATEMENTS_CHANNEL, type SentStatement } from '../../src/storage/core/database.ts'
import { asOwner } from '../../src/wire/identifiers.ts'

const CONNECTIONS = 10_000
const WAITING = 1_000
const LEDGER_ROWS = Number(process.env['UMA_TEST_LEDGER_ROWS'] ?? 100_000)
const PAGE = 100

let authority: TestAuthority
/** Outside the authority's pool, so that what it asks is not taken for the authority's own. */
let observer: Client

beforeAll(async () => {
  authority = await startTestAuthority({ owners: ['alice', 'bea'] })
  const { db, url } = authority.database
  await crowd(db, {
    owner: asOwner('alice'),
    ledgerRows: LEDGER_ROWS,
    connections: CONNECTIONS,
    waiting: WAITING,
  })
  observer = new Client({ connectionString: url })
  await observer.connect()
  await jointQuestions(observer)
}, 240_000)
afterAll(async () => {
  await observer?.end()
  await authority?.close()
})

/** What tallies asked her for long ago, and some that a grant may rest on: of an agent that no call names. */
async function jointQuestions(client: Client): Promise<void> {
  await client.query(`
    INSERT INTO joint_questions (owner, tally, account, negotiation, family, resource_id, contract, effect, handle, tier_id,
      signed_at, collect_until, relied_until)
    SELECT 'alice', 'https://tally.example', 'family-1', 'neg_' || n, 'fam_joint_' || n, 'family-1/savings', 'contract',
      'allow', 'jkt:joint', 'family-1', now() - interval '2 days', now() - interval '2 days',
      now() + CASE WHEN n % 1000 = 0 THEN interval '1 hour' ELSE interval '-1 day' END
    FROM generate_series(1, 10000) n`)
  await client.query('ANALYZE joint_questions')
}

/** Sends a call and collects the statements that the authority ran for it. */
async function statementsOf(call: OwnerCall): Promise<{ status: number; statements: SentStatement[] }> {
  const statements: SentStatement[] = []
  const collect = (sent: unknown): void => void statements.push(sent as SentStatement)
  subscribe(STATEMENTS_CHANNEL, collect)
  try {
    const { status } = await authority.call(authority.alice, call)
    return { status, statements }
  } finally {
    unsubscribe(STATEMENTS_CHANNEL, collect)
  }
}

interface PlanNode {
  'Node Type': string
  'Relation Name'?: string
  'Actual Rows': number
  'Actual Loops': number
  'Rows Removed by Filter'?: number
  'Rows Removed by Index Recheck'?: number
  Plans?: PlanNode[]
}

interface Cost {
  rowsRead: number
  /** Tables read from end to end. */
  wholeTables: string[]
}

/** What a statement reads, with the values it had; what it writes is undone. */
async function costOf({ text, values }: SentStatement, settings?: string): Promise<Cost> {
  await observer.query('BEGIN')
  try {
    if (settings !== undefined) await observer.query(settings)
    const explained = await observer.query(`EXPLAIN (ANALYZE, FORMAT JSON) ${text}`, values as never)
    const [{ Plan: plan }] = (explained.rows[0] as { 'QUERY PLAN': [{ Plan: PlanNode }] })['QUERY PLAN']
    return read(plan)
  } finally {
    await observer.query('ROLLBACK')
  }
}

function read(node: PlanNode): Cost {
  const below = (node.Plans ?? []).map(read)
  const scans = /Scan/.test(node['Node Type']) && node['Node Type'] !== 'Function Scan'
  const removed = (node['Rows Removed by Filter'] ?? 0) + (node['Rows Removed by Index Recheck'] ?? 0)
  const own = scans ? (node['Actual Rows'] + removed) * node['Actual Loops'] : 0
  const whole = node['Node Type'] === 'Seq Scan' ? [node['Relation Name'] ?? '?'] : []
  return {
    rowsRead: own + below.reduce((sum, { rowsRead }) => sum + rowsRead, 0),
    wholeTables: [...whole, ...below.flatMap(({ wholeTables }) => wholeTables)],
  }
}

/**
 * Background work during a call: waking others, taking what is due, and the sequencer, which reads and
 * numbers what was committed before, some hundreds at a time, and keeps the tree over it. Whether its
 * statements fall into the time of a call is chance.
 */
const BESIDE =
  /pg_notify|FROM \w+ t WHERE \w+ <= statement_timestamp\(\)|new_entries AS MATERIALIZED|seq IS NULL ORDER BY id LIMIT|ledger_tiles/
/** What the transaction of a page begins with. */
const SETTINGS = /^SELECT set_config\('enable_sort'/
const PLANNED = /^\s*(?:SELECT|WITH|INSERT|UPDATE|DELETE)\b/i
/**
 * Tables of a few rows, of which the planner rightly reads all; and queues and others with a row or two an
 * owner.
 */
const SMALL = new Set([
  'directory',
  'lease_holders',
  'due',
  'owners',
  'memberships',
  'moves',
  'queues',
  'heads',
  'refusal_counts',
  'events',
  'device_keys',
  'session_keys',
  'passkeys',
  'logins',
  'tiers',
  'terms_versions',
  'resource_servers',
  'registry_pulls',
  'operators',
  'enrolment_codes',
  'spent_signatures',
  'spent_assertions',
])

/** A statement that reads more is named where a bound is passed. */
const DEAR_ROWS = 1_000

/** Runs a call, and answers what it cost. */
async function costOfCall(call: OwnerCall): Promise<Cost & { status: number; dear: string }> {
  const { status, statements } = await statementsOf(call)
  const costs: Cost[] = []
  const dear: string[] = []
  let settings: string | undefined
  for (const statement of statements.filter(({ text }) => PLANNED.test(text) && !BESIDE.test(text))) {
    // They hold for the statement after them.
    if (SETTINGS.test(statement.text)) {
      settings = statement.text
      continue
    }
    const cost = await costOf(statement, settings)
    settings = undefined
    costs.push(cost)
    if (cost.rowsRead > DEAR_ROWS) dear.push(`${cost.rowsRead} rows: ${statement.text}`)
  }
  return {
    status,
    dear: dear.join('\n'),
    rowsRead: costs.reduce((sum, { rowsRead }) => sum + rowsRead, 0),
    // Those of Postgres itself are read where a connection begins, which falls into a call by chance.
    wholeTables: costs
      .flatMap(({ wholeTables }) => wholeTables)
      .filter(table => !SMALL.has(table) && !table.startsWith('pg_')),
  }
}

const middle = FIRST_SEQ + LEDGER_ROWS / 2
const busy = encodeURIComponent(BUSY)
const post = (target: string, json: object): OwnerCall => ({ method: 'POST', target, json })
const get = (target: string): OwnerCall => ({ target })

/**
 * Each with the most rows that it may read: some for each item of its page, and no more for a longer list.
 */
const CALLS: [string, OwnerCall, number][] = [
  ['what waits', get('/owner/pending'), 5 * PAGE],
  ['what waits, further on', get('/owner/pending?after=fam_00000500'), 5 * PAGE],
  ['what waits, all of it', get('/owner/pending?limit=1000'), 5 * WAITING],
  ['connections', get('/owner/connections'), 5 * PAGE],
  ['connections, further on', get('/owner/connections?after=jkt:agent005000'), 5 * PAGE],
  ['connections, the most at once', get('/owner/connections?limit=1000'), 5 * 1_000],
  // An operator is told with how many agents it has: these are counted, once each (where it stands, then by
  // index, then from table).
  ['operators', get('/owner/operators'), 3 * CONNECTIONS + 5 * PAGE],
  ['policies', get('/owner/policies'), 5 * 1_000],
  ['resources', get('/owner/resources'), 5 * PAGE],
  ['resources, further on', get('/owner/resources?after=alice/album-5'), 5 * PAGE],
  ['resource servers', get('/owner/resource-servers'), 5 * PAGE],
  ['device keys', get('/owner/device-keys'), 5 * PAGE],
  ['logins', get('/owner/logins'), 5 * PAGE],
  ['the ledger', get('/owner/ledger'), 5 * PAGE],
  ['the ledger, further on', get(`/owner/ledger?after=${middle}`), 5 * PAGE],
  ['the ledger, the most at once', get('/owner/ledger?limit=1000'), 5 * 1_000],
  ['the ledger of a busy agent', get(`/owner/ledger?handle=${busy}`), 5 * PAGE],
  ['the ledger of a busy agent, further on', get(`/owner/ledger?handle=${busy}&after=${middle}`), 5 * PAGE],
  ['the ledger of a quiet agent', get(`/owner/ledger?handle=${encodeURIComponent(QUIET)}`), 5 * PAGE],
  ['the ledger of nobody', get('/owner/ledger?handle=jkt:nobody'), 5 * PAGE],
  ['a common kind of the ledger', get('/owner/ledger?kind=touched'), 5 * PAGE],
  ['a common kind, further on', get(`/owner/ledger?kind=touched&after=${middle}`), 5 * PAGE],
  ['a rare kind of the ledger', get('/owner/ledger?kind=claimed'), 5 * PAGE],
  ['a rare kind, further on', get(`/owner/ledger?kind=claimed&after=${middle}`), 5 * PAGE],
  ['a kind that never occurred', get('/owner/ledger?kind=relaxed'), 5 * PAGE],
  ['a kind in one of a hundred entries', get('/owner/ledger?kind=promised'), 5 * PAGE],
  ['such a kind, further on', get(`/owner/ledger?kind=promised&after=${middle}`), 5 * PAGE],
  ['a kind of a busy agent', get(`/owner/ledger?kind=touched&handle=${busy}`), 5 * PAGE],
  [
    'a kind in thirty of the entries of a busy agent',
    get(`/owner/ledger?kind=promised&handle=${busy}`),
    5 * PAGE,
  ],
  [
    'a frequent kind that the busy agent never had',
    get(`/owner/ledger?kind=denied&handle=${busy}`),
    5 * PAGE,
  ],
  [
    'a change of policy, tried on the past',
    post('/owner/policies/preview', {
      tier: {
        id: 'tried',
        name: 'Tried',
        resources: ['alice/account'],
        terms: { purpose: 'x', scope: ['close'], expires_in: 60 },
      },
    }),
    10 * 1_000,
  ],
  ['one decision', post('/owner/pending/fam_00000500/decision', { decision: 'denied' }), 5 * PAGE],
  ['revoking an agent with a few grants', post('/owner/connections/revoke', { handle: QUIET }), 5 * PAGE],
  ['revoking an agent with thousands of grants', post('/owner/connections/revoke', { handle: BUSY }), 3_000],
  ['blocking an operator of a few agents', post('/owner/operators/block', { origin: SMALL_OPERATOR }), 5_000],
  ['unblocking it', post('/owner/operators/unblock', { origin: SMALL_OPERATOR }), 5 * PAGE],
]

describe('an owner with a long history', () => {
  it.each(CALLS)('%s', async (_what, call, rowsMax) => {
    const { status, rowsRead, wholeTables, dear } = await costOfCall(call)
    expect(status).toBe(200)
    expect(wholeTables).toEqual([])
    expect(rowsRead, dear).toBeLessThanOrEqual(rowsMax)
  })

  it('blocking an operator of thousands reads some rows for each of its agents, however long the ledger', async () => {
    const { status, rowsRead } = await costOfCall(post('/owner/operators/block', { origin: LARGE_OPERATOR }))
    expect(status).toBe(200)
    expect(rowsRead).toBeLessThanOrEqual(10 * CONNECTIONS)
  })
})
