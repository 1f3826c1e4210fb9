/**
 * Owners divided between two Postgres clusters of one authority, and one who is moved while she is asked
 * about. Contract: "What the service does", "Single-use grant", "Grant (RPT) liveness", "Errors".
 */
import { execFile } from 'node:child_process'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { Client } from 'pg'
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { placedBy } from '../../src/storage/authority/owners/cell-directory.ts'
import type { Database } from '../../src/storage/authority/database.ts'
import { moveOwner, type MoveStep } from '../../src/storage/authority/owners/moving.ts'
import { sha256 } from '../../src/wire/encoding.ts'
import { asOwner } from '../../src/wire/identifiers.ts'
import { originBase } from '../../src/wire/ledger/checkpoint.ts'
import { generatePrivateJwk, importPrivateJwk, publicJwk } from '../../src/wire/signatures/keys.ts'
import { startTestAuthority, type Reply, type TestAuthority } from '../support/authority.ts'
import { withLogKeys } from '../support/log-keys.ts'
import { lockWaiters } from '../support/lock-waiters.ts'
import { freshDatabase } from '../support/postgres.ts'
import { until } from '../support/until.ts'
import {
  callWithPat,
  protectionCall,
  testAgent,
  type PendingItem,
  type TestAgent,
} from '../support/test-agent.ts'
import { usherProgram } from '../support/usher-program.ts'

const [alice, bob, carol] = [asOwner('alice'), asOwner('bob'), asOwner('carol')]
const CLI = usherProgram()
const KILL = join(import.meta.dirname, '..', 'support', 'kill-at-statement.ts')
const run = promisify(execFile)

let east: Database
let [first, second] = [] as unknown as [TestAuthority, TestAuthority]
const closing: (() => Promise<unknown>)[] = []
beforeAll(async () => {
  east = await freshDatabase()
  const divided = { UMA_AS_CELLS: `east=${east.url}`, ...withLogKeys().environment }
  first = await startTestAuthority({ owners: [alice, bob, carol], environment: divided })
  second = await startTestAuthority({ beside: first })
  closing.push(
    () => second.close(),
    () => first.close(),
    () => east.close(),
  )
  await move(bob, 'east')
})
afterAll(async () => {
  for (const close of closing) await close()
})

const urls = () =>
  new Map([
    ['home', first.database.url],
    ['east', east.url],
  ])
const move = (owner: typeof alice, to: string, onStep?: (step: MoveStep) => void | Promise<void>) =>
  moveOwner({ owner, cells: urls(), home: 'home', to, restSeconds: 0, ...(onStep && { onStep }) })
const environment = () => ({
  PATH: process.env['PATH'] ?? '',
  DATABASE_URL: first.database.url,
  UMA_AS_CELLS: `east=${east.url}`,
})
const usher = (...args: string[]) =>
  run(process.execPath, [CLI, 'authority', ...args], { env: environment() })
/** As if that owner were the only one of this test's authority. */
const as = (authority: TestAuthority, owner: string): TestAuthority => ({
  ...authority,
  alice: authority.owners[owner]!,
})
type LedgerEntry = { seq: number; kind: string; handle: string | null }
const replicas = () => [first, second]
const ledgerOf = async (authority: TestAuthority): Promise<LedgerEntry[]> => {
  const all: LedgerEntry[] = []
  for (;;) {
    const { body } = await authority.call(authority.alice, {
      target: `/owner/ledger?after=${all.at(-1)?.seq ?? 0}&limit=500`,
    })
    const entries = body.entries as LedgerEntry[]
    all.push(...entries)
    if (entries.length < 500) return all
  }
}

describe('Owners of two cells', () => {
  it.each([alice, bob])('%s is served by every replica: asked, granted, spent once, ended', async owner => {
    const [one, other] = replicas().map(authority => as(authority, owner))
    const agent = testAgent(one!)
    const { rpt } = await agent.granted('place_trade', {
      operation: { tool: 'place_trade', params: { n: 1 } },
    })
    expect((await protectionCall(other!, '/introspect', { token: rpt })).body.active).toBe(true)
    expect((await protectionCall(other!, '/consume', { token: rpt })).body.consumed).toBe(true)
    expect((await protectionCall(one!, '/consume', { token: rpt })).body.consumed).toBe(false)
    const ended = await other!.call(other!.alice, {
      method: 'POST',
      target: '/owner/connections/revoke',
      json: { handle: agent.handle },
    })
    expect(ended.status).toBe(200)
    expect((await protectionCall(one!, '/introspect', { token: rpt })).body.active).toBe(false)
    expect(await ledgerOf(one!)).toEqual(await ledgerOf(other!))
    expect((await one!.request('GET', `/terms?owner=${owner}`)).body.owner).toBe(owner)
  })

  it('answers for nobody as it did: unknown owners, tickets, keys and terms are refused alike', async () => {
    const stranger = { ...first.alice, key: importPrivateJwk(generatePrivateJwk()) }
    expect((await first.call(stranger, { target: '/owner/ledger' })).status).toBe(401)
    expect((await first.request('GET', '/terms?owner=nobody')).status).toBe(404)
    expect((await first.request('GET', '/terms')).status).toBe(400)
    const { status, body } = await testAgent(first).present('nobodys~tkt_nothing')
    expect([status, body.error]).toEqual([400, 'invalid_grant'])
  })

  it.each([alice, bob])('%s has a log, whose checkpoint and proofs every replica answers', async owner => {
    const [one, other] = replicas().map(authority => as(authority, owner))
    await testAgent(one!).granted('portfolio_read')
    const { status, text } = await other!.call(other!.alice, { target: '/owner/ledger/checkpoint' })
    expect(status).toBe(200)
    const [origin = '', size, root = ''] = text.split('\n')
    const head = { size: Number(size), root: Buffer.from(root, 'base64').toString('base64url') }
    const tag = origin.slice(originBase(one!.issuer).length)
    const asked = await one!.request('POST', `/ledger/${tag}/consistency`, {
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ from: head, to: head }),
    })
    expect([asked.status, asked.body]).toEqual([200, { proof: [] }])
  })

  it('enrols a device key of hers for one owner of all cells', async () => {
    const jwk = publicJwk(importPrivateJwk(generatePrivateJwk()))
    const enrol = (owner: string): Promise<Reply> =>
      first.call(first.owners[owner]!, {
        method: 'POST',
        target: '/owner/device-keys',
        json: { name: 'phone', jwk },
      })
    expect((await enrol(bob)).status).toBe(201)
    expect((await enrol(alice)).status).toBe(409)
  })

  it('is told to the operator by cell, and refused without the setting', async () => {
    expect(JSON.parse((await usher('owner', 'list', '--json')).stdout)).toMatchObject([
      { owner: alice },
      { owner: bob },
      { owner: carol },
    ])
    expect(JSON.parse((await usher('owner', 'show', bob, '--json')).stdout)).toMatchObject({ owner: bob })
    await expect(usher('owner', 'move', bob, '--to', 'west')).rejects.toMatchObject({
      stderr: expect.stringContaining('There is no cell west: name one of home, east'),
    })
    await expect(startTestAuthority({ beside: { ...first, environment: without() } })).rejects.toThrow(
      'Owners are in the cell east: name it in UMA_AS_CELLS',
    )
  })
})

const without = (): Record<string, string> => {
  const { UMA_AS_CELLS: _cells, ...rest } = first.environment
  return rest
}

/** What was acknowledged, while there was no outage. */
interface Acknowledged {
  spent: string[]
  revoked: { handle: string; rpt: string }[]
  approved: string[]
  outages: number
}

async function approve(at: TestAuthority, handle: string): Promise<void> {
  const waiting = await at.call(at.alice, { target: '/owner/pending?limit=1000' })
  if (waiting.status !== 200) throw new Error(`waiting: ${waiting.status} ${waiting.text}`)
  const item = (waiting.body as PendingItem[]).find(one => one.handle === handle)
  if (item === undefined) throw new Error(`nothing of ${handle} waits`)
  const decided = await at.call(at.alice, {
    method: 'POST',
    target: `/owner/pending/${item.family}/decision`,
    json: { decision: 'approved' },
  })
  if (decided.status !== 200) throw new Error(`decided: ${decided.status} ${decided.text}`)
}

/** Once her authority answers again: what she cannot decide any more is in nobody's way. */
async function denyWhatWaits(at: TestAuthority, handle: string): Promise<void> {
  for (;;) {
    const waiting = await at.call(at.alice, { target: '/owner/pending?limit=1000' })
    if (waiting.status !== 200) continue
    const item = (waiting.body as PendingItem[]).find(one => one.handle === handle)
    if (item === undefined) return
    const target = `/owner/pending/${item.family}/decision`
    await at.call(at.alice, { method: 'POST', target, json: { decision: 'denied' } })
  }
}

const expectStatus = (what: string, { status, text }: Reply, expected = 200): void => {
  if (status !== expected) throw new Error(`${what}: ${status} ${text}`)
}

/** One agent's life, from its first request to the end of its connection. */
async function lives(at: TestAuthority, agent: TestAgent, done: Acknowledged): Promise<void> {
  const asked = await agent.ask('place_trade', { operation: { tool: 'place_trade', params: {} } })
  expectStatus('asked', asked, 403)
  await approve(at, agent.handle)
  done.approved.push(agent.handle)
  const granted = await agent.present(asked.body.ticket)
  expectStatus('granted', granted)
  const token = granted.body.access_token as string
  const consumed = await protectionCall(at, '/consume', { token })
  expectStatus('consumed', consumed)
  if (consumed.body.consumed !== true) throw new Error(`a fresh grant was not consumed: ${consumed.text}`)
  done.spent.push(token)
  const reading = await agent.ask('portfolio_read')
  expectStatus('read', reading)
  const { handle } = agent
  const target = '/owner/connections/revoke'
  expectStatus('revoked', await at.call(at.alice, { method: 'POST', target, json: { handle } }))
  done.revoked.push({ handle, rpt: reading.body.access_token as string })
}

/** Goes on until it is told to end. Whatever is answered that is neither right nor an outage ends it, too. */
async function works(at: TestAuthority, isOver: () => boolean, done: Acknowledged): Promise<void> {
  while (!isOver()) {
    const agent = testAgent(at)
    try {
      await lives(at, agent, done)
    } catch (error) {
      if (!/\b503\b|temporarily_unavailable/.test(String(error))) throw error
      done.outages++
      await denyWhatWaits(at, agent.handle)
    }
  }
}

describe('An owner who is moved while she is asked about', () => {
  beforeEach(() => move(alice, 'home'))

  it('keeps each revoke, each spent grant and each entry that was acknowledged; all else was an outage', async () => {
    const done: Acknowledged = { spent: [], revoked: [], approved: [], outages: 0 }
    let ended = false
    const workers = Promise.all([first, second, first].map(at => works(at, () => ended, done)))
    const moreIsDone = async (): Promise<void> => {
      const [spent, revoked] = [done.spent.length, done.revoked.length]
      await Promise.race([
        workers,
        until(() => done.spent.length > spent + 2 && done.revoked.length > revoked + 2),
      ])
    }
    try {
      for (const to of ['east', 'home', 'east']) {
        await moreIsDone()
        expect(await move(alice, to)).toMatchObject({ to })
      }
      await moreIsDone()
    } finally {
      ended = true
      await workers
    }
    for (const token of done.spent)
      expect((await protectionCall(first, '/consume', { token })).body.consumed).toBe(false)
    for (const { rpt } of done.revoked)
      expect((await protectionCall(second, '/introspect', { token: rpt })).body.active).toBe(false)
    const entries = await ledgerOf(first)
    expect(entries.map(({ seq }) => seq)).toEqual(entries.map((_, at) => at + 1))
    expect(await ledgerOf(second)).toEqual(entries)
    const told = (kind: string, handle: string) =>
      entries.filter(entry => entry.kind === kind && entry.handle === handle).length
    for (const handle of done.approved) expect(told('approved', handle)).toBe(1)
    for (const { handle } of done.revoked) expect(told('revoked', handle)).toBe(1)
  }, 300_000)

  it('is answered 503 while she is nowhere, by a replica that thinks her elsewhere too', async () => {
    const asked: [string, number, unknown][] = []
    const ask = async (step: MoveStep): Promise<void> => {
      for (const at of replicas()) {
        const reply = await at.call(at.alice, { target: '/owner/ledger?limit=1' })
        asked.push([step, reply.status, reply.body.error])
      }
    }
    await move(alice, 'east', ask)
    const statuses = Object.groupBy(asked, ([step]) => step)
    for (const step of ['named', 'emptied', 'opened', 'closed', 'deleted'])
      expect(
        statuses[step]!.map(([, status]) => status),
        step,
      ).toEqual([200, 200])
    for (const step of ['left', 'copied', 'placed'])
      expect(
        statuses[step]!.map(([, ...answer]) => answer),
        step,
      ).toEqual([
        [503, 'temporarily_unavailable'],
        [503, 'temporarily_unavailable'],
      ])
  })

  it('what was begun before she left and ends after it is told to nobody as done', async () => {
    const agent = testAgent(first)
    const { rpt } = await agent.granted('place_trade', { operation: { tool: 'place_trade', params: {} } })
    const pat = await first.pat()
    const consume = () => callWithPat(first, pat, '/consume', { token: rpt })
    const holder = await holdConnections(first.database, alice)
    let consuming: Promise<Reply> | undefined
    let isSpentBehind = false
    await move(alice, 'east', async step => {
      if (step === 'emptied') {
        consuming = consume()
        await holder.waitedFor()
      }
      if (step !== 'copied') return
      await holder.release()
      await consuming
      isSpentBehind = await isSpent(first.database, rpt)
    })
    // It committed in the cell that she left, when her rows had been copied.
    expect([(await consuming)?.status, isSpentBehind]).toEqual([503, true])
    const answers = [await consume(), await consume()]
    expect(answers.map(({ body }) => body.consumed)).toEqual([true, false])
  })

  it('is served again where she was, once a command that was killed halfway is taken back', async () => {
    const read = async () =>
      (await first.call(first.owners[carol]!, { target: '/owner/ledger?limit=1' })).status
    // What gives positions is asked once she has left, and before anything is copied.
    const KILL_AT = 'statement SELECT EXISTS (SELECT 1 FROM ledger'
    const killed = run(
      process.execPath,
      ['--import', KILL, CLI, 'authority', 'owner', 'move', carol, '--to', 'east'],
      {
        env: { ...environment(), KILL_AT },
      },
    )
    await expect(killed).rejects.toMatchObject({ signal: 'SIGKILL' })
    expect([(await placedBy(first.database.db, 'name', carol))?.cell, await read()]).toEqual([null, 503])
    await usher('owner', 'move', carol, '--to', 'home')
    expect(await read()).toBe(200)
    expect((await usher('owner', 'move', carol, '--to', 'east')).stdout).toContain('carol is in east now')
    expect(await read()).toBe(200)
  })
})

/** Keeps every consume of hers waiting in this cell. */
async function holdConnections({ pool, url }: Database, owner: string) {
  const client = new Client({ connectionString: url })
  client.on('error', () => undefined)
  await client.connect()
  await client.query('BEGIN')
  await client.query('SELECT FROM connections WHERE owner = $1 FOR UPDATE', [owner])
  return {
    waitedFor: () => expect.poll(() => lockWaiters({ pool })).toBeGreaterThan(0),
    release: async () => {
      await client.query('ROLLBACK')
      await client.end()
    },
  }
}

async function isSpent({ pool }: Database, rpt: string): Promise<boolean> {
  const { rows } = await pool.query<{ spent: boolean }>(
    'SELECT consumed_at IS NOT NULL AS spent FROM grants WHERE rpt_sha256 = $1',
    [sha256(rpt)],
  )
  return rows[0]?.spent === true
}
