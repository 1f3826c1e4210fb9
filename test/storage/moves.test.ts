/**
 * An owner who is moved from one database to another: all that is hers goes, once, and whenever it is broken
 * off at most one of the two serves her. Contract: "What the service does", "Single-use grant".
 */
import { Client } from 'pg'
import { pino } from 'pino'
import { afterAll, describe, expect, it } from 'vitest'
import { returnDue } from '../../src/authority/allowance-returns.ts'
import { claimIn, placedBy } from '../../src/storage/authority/owners/cell-directory.ts'
import { revokeConnection } from '../../src/storage/authority/connections/connections.ts'
import type { Database } from '../../src/storage/authority/database.ts'
import { consumeGrant } from '../../src/storage/authority/grants/consume.ts'
import { readGrant } from '../../src/storage/authority/grants/read.ts'
import { appendLedger, readLedger } from '../../src/storage/authority/ledger/ledger.ts'
import { insertDeviceKey } from '../../src/storage/authority/credentials/device-keys.ts'
import { insertOwner, spendSignature } from '../../src/storage/authority/owners/owners.ts'
import { ownedTables } from '../../src/storage/authority/owners/owned-tables.ts'
import { readMove } from '../../src/storage/authority/owners/moves.ts'
import { moveOwner, type MoveOutcome, type MoveStep } from '../../src/storage/authority/owners/moving.ts'
import { takeDue } from '../../src/storage/authority/due.ts'
import { inTransaction } from '../../src/storage/core/database.ts'
import type { Owner } from '../../src/wire/identifiers.ts'
import {
  knownAgent,
  lapse,
  ownerWith,
  rowsOf as countedRows,
  take,
  usedOf,
  useOf,
  type SpendingAgent,
} from '../support/allowance-grants.ts'
import { rowsOfLayer } from '../support/layer.ts'
import { connected, onServer } from '../support/postgres.ts'
import * as seed from '../support/seed.ts'
import { coreStand } from '../support/stands.ts'

const home = coreStand()
const east = coreStand()
const cells = () =>
  new Map([
    ['home', home.url],
    ['east', east.url],
  ])

type Moving = Partial<Parameters<typeof moveOwner>[0]>
const move = (owner: Owner, to: string, options: Moving = {}): Promise<MoveOutcome> =>
  moveOwner({ owner, cells: cells(), home: 'home', to, restSeconds: 0, ...options })

/** An owner with something of most kinds: one grant is live, one spent, one of a connection that ended. */
async function furnished({ entries = 10 } = {}) {
  const owner = await seed.seedOwner(home.db)
  const [kept, ended] = [seed.name('jkt:'), seed.name('jkt:')]
  const generation = await seed.seedConnection(home.db, owner, kept)
  const [live, spent] = [
    await seed.seedGrant(home.db, owner, kept, generation),
    await seed.seedGrant(home.db, owner, kept, generation),
  ]
  const dead = await seed.seedGrant(home.db, owner, ended, await seed.seedConnection(home.db, owner, ended))
  await consumeGrant(home.calls, owner, { client_id: seed.CLIENT_ID }, spent)
  await seed.seedWaiting(home.db, owner, seed.name('jkt:'))
  const digest = seed.bytes()
  await inTransaction(home.db, async tx => {
    await revokeConnection(tx, owner, ended, seed.ACTOR)
    await spendSignature(tx, owner, digest, 600)
    await insertDeviceKey(tx, { owner, kid: owner, jwk: { said: 'ü\u0000"' }, name: 'laptop' })
    for (let n = 0; n < entries; n++) await appendLedger(tx, owner, { kind: 'promised', data: { n } })
  })
  return { owner, live, spent, dead, digest, kept }
}

/** By URL: a session that read every table once reads them again in a tenth of the time. */
const readers = new Map<string, Promise<Client>>()
afterAll(async () => {
  for (const reader of readers.values()) await (await reader).end()
})

async function opened(url: string): Promise<Client> {
  const client = new Client({ connectionString: url })
  await client.connect()
  return client
}

/** Every row of hers, but for how she is found. */
async function rowsOf({ url }: Database, owner: Owner): Promise<Record<string, string[]>> {
  const reader = readers.get(url) ?? opened(url)
  readers.set(url, reader)
  const client = await reader
  const all: Record<string, string[]> = {}
  for (const { name } of await ownedTables(client, ['directory', 'moves'])) {
    const { rows } = await client.query<{ row: string }>(
      `SELECT t::text AS row FROM ${name} t WHERE owner = $1 ORDER BY 1`,
      [owner],
    )
    if (rows.length > 0) all[name] = rows.map(({ row }) => row)
  }
  return all
}

const isServed = async (database: Database, owner: Owner): Promise<boolean> => {
  const row = await readMove(database.calls, owner)
  return row === undefined ? database === home : row.state === 'here'
}
const cellOf = async (owner: Owner) => (await placedBy(home.db, 'name', owner))?.cell
const spend = (database: Database, owner: Owner, rpt: Buffer) =>
  consumeGrant(database.calls, owner, { client_id: seed.CLIENT_ID }, rpt)

describe('An owner who is moved to another cell', () => {
  it('is there with every row that she had, to the last digit, and with none where she was', async () => {
    const { owner, live, spent, dead, digest } = await furnished({ entries: 700 })
    await readLedger(home.db, owner, { after: 0, limit: 1 })
    const before = await rowsOf(home, owner)
    expect(await move(owner, 'east')).toMatchObject({ from: 'home', to: 'east' })
    expect(await rowsOf(east, owner)).toEqual(before)
    expect(await rowsOf(home, owner)).toEqual({})
    expect([await cellOf(owner), await isServed(home, owner), await isServed(east, owner)]).toEqual([
      'east',
      false,
      true,
    ])
    expect(await spend(east, owner, spent)).toBeUndefined()
    expect(await spend(east, owner, dead)).toBeUndefined()
    expect(await spend(east, owner, live)).toBeDefined()
    expect((await readGrant(east.calls, owner, seed.CLIENT_ID, dead))?.grant).toMatchObject({
      connected: false,
    })
    expect(await inTransaction(east.db, tx => spendSignature(tx, owner, digest, 600))).toBe(false)
  })

  it('goes on in her ledger where it ended, without a gap, and so again where she came from', async () => {
    const { owner } = await furnished()
    const told = async (database: Database) => {
      await appendLedger(database.db, owner, { kind: 'promised', data: {} })
      return (await readLedger(database.db, owner, { after: 0, limit: 1_000 })).map(({ seq }) => seq)
    }
    const first = await told(home)
    await move(owner, 'east')
    const then = await told(east)
    await move(owner, 'home')
    const last = await told(home)
    const upTo = (count: number) => Array.from({ length: count }, (_, at) => at + 1)
    expect([first, then, last].map(seqs => seqs.toSorted((a, b) => a - b))).toEqual([
      upTo(first.length),
      upTo(first.length + 1),
      upTo(first.length + 2),
    ])
    expect(await cellOf(owner)).toBeNull()
  })

  it('does not become another owner of her name where she was made', async () => {
    const { owner } = await furnished()
    await move(owner, 'east')
    await expect(
      inTransaction(home.db, tx => insertOwner(tx, { owner, tag: seed.name('t') })),
    ).rejects.toThrow('cannot be made')
  })

  it('has at home no credential again that she gave up while she was away', async () => {
    const { owner } = await furnished()
    await move(owner, 'east')
    const key = JSON.stringify(['https://realm.example', owner])
    expect(await claimIn(home.db, { kind: 'login', key, owner })).toBe(owner)
    await move(owner, 'home')
    expect(await placedBy(home.db, 'login', key)).toBeUndefined()
    expect(await placedBy(home.db, 'device_key', owner)).toMatchObject({ owner })
  })

  it('is refused a cell that she left just now, and nobody of another name is moved', async () => {
    const { owner } = await furnished()
    await move(owner, 'east')
    expect(await move(owner, 'home', { restSeconds: 60 })).toEqual({ refused: 'resting' })
    expect(await move(seed.name('o'), 'east')).toEqual({ refused: 'unknown' })
  })
})

const STEPS: MoveStep[] = [
  'named',
  'awaited',
  'emptied',
  'left',
  'copied',
  'placed',
  'opened',
  'closed',
  'deleted',
]
/** From here on she is where she goes. */
const isBeyond = (step: MoveStep): boolean => STEPS.indexOf(step) >= STEPS.indexOf('placed')

async function brokenOff(owner: Owner, step: MoveStep): Promise<void> {
  const onStep = (reached: MoveStep): void => {
    if (reached === step) throw new Error('killed')
  }
  await expect(move(owner, 'east', { onStep })).rejects.toThrow('killed')
  const served = [await isServed(home, owner), await isServed(east, owner)]
  expect(served.filter(Boolean).length, `${step}: served by both`).toBeLessThanOrEqual(1)
  expect(await cellOf(owner)).toBe(isBeyond(step) ? 'east' : null)
}

describe('A move that is broken off', () => {
  // What a step leaves is taken up by the same code at each.
  const tried = rowsOfLayer(STEPS, step => ['emptied', 'copied', 'placed'].includes(step))
  it.each(tried)('once she was %s, is gone on with: nothing is lost, nothing is there twice', async step => {
    const { owner } = await furnished()
    await readLedger(home.db, owner, { after: 0, limit: 1 })
    const before = await rowsOf(home, owner)
    await brokenOff(owner, step)
    await move(owner, 'east')
    expect(await rowsOf(east, owner)).toEqual(before)
    expect(await rowsOf(home, owner)).toEqual({})
    expect([await isServed(home, owner), await isServed(east, owner)]).toEqual([false, true])
  })

  it.each(tried.filter(step => !isBeyond(step)))(
    'once she was %s, is taken back: she is served where she was, as she was',
    async step => {
      const { owner } = await furnished()
      await readLedger(home.db, owner, { after: 0, limit: 1 })
      const before = await rowsOf(home, owner)
      await brokenOff(owner, step)
      await move(owner, 'home')
      expect(await rowsOf(home, owner)).toEqual(before)
      expect(await rowsOf(east, owner)).toEqual({})
      expect([await isServed(home, owner), await isServed(east, owner)]).toEqual([true, false])
      expect(await move(owner, 'east', { restSeconds: 60 })).toMatchObject({ from: 'home', to: 'east' })
    },
  )

  it('and taken back by another who thought it dead, changes nothing any more', async () => {
    const { owner } = await furnished()
    await readLedger(home.db, owner, { after: 0, limit: 1 })
    const before = await rowsOf(home, owner)
    const copied = Promise.withResolvers<void>()
    const woken = Promise.withResolvers<void>()
    const onStep = async (step: MoveStep): Promise<void> => {
      if (step !== 'copied') return
      copied.resolve()
      await woken.promise
    }
    const first = move(owner, 'east', { onStep })
    await copied.promise
    await onServer(client =>
      client.query(
        `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'usher-lock' AND datname = $1`,
        [new URL(home.url).pathname.slice(1)],
      ),
    )
    await expect.poll(async () => 'refused' in (await move(owner, 'home'))).toBe(false)
    woken.resolve()
    await expect(first).rejects.toThrow('taken back')
    expect(await rowsOf(home, owner)).toEqual(before)
    expect([await cellOf(owner), await isServed(home, owner), await isServed(east, owner)]).toEqual([
      null,
      true,
      false,
    ])
  })
})

describe('A cell that was restored to a time before a move', () => {
  const sqlAt = ({ url }: Database, text: string, values: unknown[]) =>
    connected(url, client => client.query(text, values))
  const all = async (owner: Owner) => [
    await rowsOf(home, owner),
    await rowsOf(east, owner),
    await cellOf(owner),
    await isServed(home, owner),
    await isServed(east, owner),
  ]
  const refusesToMove = async (owner: Owner): Promise<void> => {
    const before = await all(owner)
    for (const to of ['east', 'home'])
      await expect(move(owner, to)).rejects.toThrow('do not agree on where she is')
    expect(await all(owner)).toEqual(before)
  }

  it('and that she left since, serves nobody by her old rows: the directory has her elsewhere, and no move believes it', async () => {
    const { owner, live } = await furnished()
    await move(owner, 'east')
    const { rows } = await sqlAt(east, 'SELECT move FROM moves WHERE owner = $1', [owner])
    await move(owner, 'home')
    await sqlAt(east, `UPDATE moves SET state = 'here', move = $2 WHERE owner = $1`, [owner, rows[0].move])
    expect(await cellOf(owner)).toBeNull()
    await refusesToMove(owner)
    expect(await spend(home, owner, live)).toBeDefined()
  })

  it('and that has the directory, serves her by what it has, and no move overwrites either', async () => {
    const { owner } = await furnished()
    const { rows } = await sqlAt(home, 'SELECT tag, created_at FROM owners WHERE owner = $1', [owner])
    await move(owner, 'east')
    await sqlAt(home, 'INSERT INTO owners (owner, tag, created_at) VALUES ($1, $2, $3)', [
      owner,
      rows[0].tag,
      rows[0].created_at,
    ])
    await sqlAt(home, 'DELETE FROM moves WHERE owner = $1', [owner])
    await sqlAt(home, `UPDATE directory SET cell = NULL WHERE kind = 'name' AND key = $1`, [owner])
    await refusesToMove(owner)
  })
})

describe('What unspent grants hold of an allowance of an owner who leaves', () => {
  const log = pino({ level: 'silent' })
  const returnAll = (database: Database): Promise<void> => returnDue({ database, log }, () => false)
  const used = async (database: Database, owner: Owner): Promise<string[]> =>
    (await usedOf(database.db, owner)).map(([, , amount]) => amount)

  /** An owner with two grants within an allowance, of which one is spent. */
  async function holding(): Promise<{ owner: Owner; agent: SpendingAgent; rpt: Buffer }> {
    const owner = await ownerWith(home.db, { windows: [{ of: 'calls', per: 'all', max: '9' }] })
    const agent = await knownAgent(home.db, owner)
    const [one, { outcome, rpt }] = [await take(home.db, owner, agent), await take(home.db, owner, agent)]
    expect([one.outcome, outcome]).toEqual(['recorded', 'recorded'])
    expect(await spend(home, owner, one.rpt)).toBeDefined()
    return { owner, agent, rpt }
  }

  it('stays held where she is then, and goes back there, once', async () => {
    const { owner, agent, rpt } = await holding()
    await move(owner, 'east')
    expect([await used(home, owner), await used(east, owner)]).toEqual([[], ['2']])
    expect((await useOf(east.db, owner, agent.handle)).unspent).toBe(1)
    await lapse(east.db, owner)
    await returnAll(home)
    expect(await used(east, owner)).toEqual(['2'])
    for (let round = 0; round < 2; round++) {
      await returnAll(east)
      expect(await used(east, owner)).toEqual(['1'])
    }
    expect(await countedRows(east.db, owner)).toMatchObject({ grants: 2, places: 0 })
    await move(owner, 'home')
    await lapse(home.db, owner)
    await returnAll(home)
    expect(await used(home, owner)).toEqual(['1'])
    expect(await spend(home, owner, rpt)).toBeUndefined()
  })

  it('goes back once, too, if the move was broken off when she was in both', async () => {
    const { owner } = await holding()
    await brokenOff(owner, 'copied')
    for (const { db } of [home, east]) await lapse(db, owner)
    for (const database of [home, east]) await returnAll(database)
    expect([await used(home, owner), await used(east, owner)]).toEqual([['2'], ['2']])
    await move(owner, 'east')
    for (const database of [home, east]) await returnAll(database)
    expect([await used(home, owner), await used(east, owner)]).toEqual([[], ['1']])
  })
})

describe('What is due for an owner who leaves', () => {
  it('is done by no replica of the cell that she leaves, nor where she arrives before she is there', async () => {
    const { owner } = await furnished()
    await brokenOff(owner, 'copied')
    for (const database of [home, east]) {
      const taken = await takeDue(database.db, 'sweep', { limit: 1_000, seconds: 60 })
      expect(taken.map(one => one.owner)).not.toContain(owner)
    }
    await move(owner, 'east')
    const taken = await takeDue(east.db, 'sweep', { limit: 1_000, seconds: 60 })
    expect(taken.map(one => one.owner)).toContain(owner)
  })
})
