/**
 * Owns what an owner's tree costs when her ledger is long: numbering, a proof of inclusion, a checkpoint and
 * a tile, at one authority, for an owner with a million entries beside one with a thousand, by turns.
 * docs/performance.md says how to read it. It is a part of `node bench/scenarios/ledger.ts`.
 */
import { randomBytes, randomInt } from 'node:crypto'
import { join } from 'node:path'
import { sql } from 'kysely'
import { stringify } from 'yaml'
import { signTree } from '../../src/authority/ledger/checkpoints.ts'
import { exchangeBytes } from '../../src/client/exchange.ts'
import type { ApiAccess } from '../../src/client/signed-fetch.ts'
import { startChild, untilReady } from '../../src/dev/stack/child-process.ts'
import { authorityEnvironment, writeHousehold, writePrivate } from '../../src/dev/stack/household.ts'
import { choosePorts } from '../../src/dev/stack/ports.ts'
import { ledgerLeaf, type LedgerRow } from '../../src/rules/ledger/ledger-leaf.ts'
import {
  appendLeaves,
  HASH_BYTES,
  planInclusion,
  provesInclusion,
  rootOf,
  TILE_HASHES,
  type Frontier,
} from '../../src/rules/ledger/merkle.ts'
import { AUTHORITY_DATABASE, openDatabase, type Database } from '../../src/storage/authority/database.ts'
import { appendEvents } from '../../src/storage/authority/ledger/events.ts'
import { readCheckpoint } from '../../src/storage/authority/ledger/ledger-checkpoints.ts'
import { readProver } from '../../src/storage/authority/ledger/ledger-tiles.ts'
import { writeTiles } from '../../src/storage/authority/ledger/ledger-tree.ts'
import { appendLedgerAll } from '../../src/storage/authority/ledger/ledger.ts'
import { number } from '../../src/storage/authority/ledger/positions.ts'
import { insertOwner } from '../../src/storage/authority/owners/owners.ts'
import { inTransaction } from '../../src/storage/core/database.ts'
import { asHandle, asOwner, type Owner } from '../../src/wire/identifiers.ts'
import { originBase } from '../../src/wire/ledger/checkpoint.ts'
import { encodeTileNumber } from '../../src/wire/ledger/tile-path.ts'
import {
  generatePrivateJwk,
  importPrivateJwk,
  publicJwk,
  type PrivateKey,
} from '../../src/wire/signatures/keys.ts'
import { bundledCommand } from '../../test/support/deployed.ts'
import { spreadOf, type Spread } from '../figures.ts'
import { analyze, obtainDatabase } from '../system.ts'

const FEW = 1_000
const TURNS = 7
/** How often in each turn, for each of the owners. */
const CALLS = { numbering: 20, checkpoint: 60, inclusion: 300, tile: 100 }
/** So few that the small ledger stays small. */
const NUMBERED_ENTRIES = 10
/** What an authority numbers at once at 1,000 reports a second: an owner is numbered four times a second. */
const FULL_NUMBERING = 250
const CPU_NUMBERINGS = { warmUp: 20, counted: 80 }
const ROWS_AT_ONCE = 20 * TILE_HASHES
const AGENTS = 1_000
const TREE = join(import.meta.dirname, '..', '..')

export const ACTS = ['numbering', 'inclusion', 'checkpoint', 'tile'] as const
export type Act = (typeof ACTS)[number]
const SIDES = ['few', 'many'] as const
type Side = (typeof SIDES)[number]

export interface LedgerSize {
  few: number
  many: number
  fill_seconds: number
  /** Medians of the turns' medians, and their spread. */
  p50_ms: Record<Act, Record<Side, Spread>>
  /** Turn by turn: with many entries over with few. */
  ratios: Record<Act, number[]>
  /** CPU time of whoever numbers, the driver's included, for one where many are numbered at once. */
  numbering_us: { entry: number; event: number }
}

/** An owner, and what is known of her ledger. */
interface Measured {
  owner: Owner
  access: ApiAccess
}

interface Log {
  database: Database
  issuer: string
  key: PrivateKey
}

/** Fills two ledgers at an authority that it starts, and times what is done with them. */
export async function measureLedgerSize(
  directory: string,
  { many: about, tell }: { many: number; tell: (line: string) => void },
): Promise<LedgerSize> {
  // As many leaves are in no full tile yet: whoever makes a root reads and hashes those, in a small tree,
  // too.
  const many = about - (about % TILE_HASHES) + (FEW % TILE_HASHES)
  const stops: (() => Promise<void>)[] = []
  try {
    const { url } = await obtainDatabase(process.env['DATABASE_URL'], stops)
    await AUTHORITY_DATABASE.migrate(url)
    const database = openDatabase({ url, poolMax: 4, statementTimeoutMs: 120_000 })
    stops.push(() => database.close())
    tell(`ledger: filling ${many} entries`)
    const began = performance.now()
    for (const [side, size] of [['few', FEW] as const, ['many', many] as const])
      await fill(database, asOwner(side), size)
    const fill_seconds = (performance.now() - began) / 1_000
    await analyze(url)
    const { log, owners } = await startAuthority(directory, { url, database, stops })
    const { p50_ms, ratios } = await takeTurns(log, owners, tell)
    const numbering_us = await numberingCpu(log, owners.many.owner)
    return { few: FEW, many, fill_seconds, p50_ms, ratios, numbering_us }
  } finally {
    for (const stop of stops.toReversed()) await stop()
  }
}

/** An authority as a deployment starts it, with a key of the log, and both owners, each with a device key. */
async function startAuthority(
  directory: string,
  { url, database, stops }: { url: string; database: Database; stops: (() => Promise<void>)[] },
): Promise<{ log: Log; owners: Record<Side, Measured> }> {
  const ports = await choosePorts({ sidecars: 0, authorities: 1, preferred: {} })
  const { agents, owner: ownerPort } = ports.authorities[0]
  const issuer = `http://127.0.0.1:${agents}`
  const [listen, ownerListen] = [`127.0.0.1:${agents}`, `127.0.0.1:${ownerPort}`]
  const household = await writeHousehold(directory, { issuer, publicUrl: issuer })
  const keys = SIDES.map(side => ({ side, key: importPrivateJwk(generatePrivateJwk()) }))
  const provision = keys.map(({ side, key }) => ({
    owner: side,
    device_keys: [{ name: 'bench', jwk: publicJwk(key) }],
  }))
  const logJwk = generatePrivateJwk()
  const environment = {
    ...authorityEnvironment({
      issuer,
      listen,
      ownerListen,
      databaseUrl: url,
      keysFile: household.authorityKeysFile,
      provisionFile: await writePrivate(directory, 'owners.yaml', stringify({ owners: provision })),
    }),
    UMA_DEV_LOOPBACK: 'true',
    UMA_AS_LOG_KEYS_FILE: await writeLogKeys(directory, logJwk),
  }
  const command = [...(await bundledCommand(TREE)), 'authority']
  const child = startChild({ name: 'authority', command, environment, logFile: join(directory, 'as.log') })
  stops.push(() => child.stop())
  await untilReady(child, async () => (await fetch(`${issuer}/health`)).status === 200)
  const measured = keys.map(({ side, key }): [string, Measured] => [
    side,
    { owner: asOwner(side), access: { api: `http://${ownerListen}`, issuer, key } },
  ])
  return {
    log: { database, issuer, key: importPrivateJwk(logJwk) },
    owners: Object.fromEntries(measured) as Record<Side, Measured>,
  }
}

/** The file of `UMA_AS_LOG_KEYS_FILE`. @returns its path. */
export function writeLogKeys(directory: string, jwk = generatePrivateJwk()): Promise<string> {
  return writePrivate(directory, 'log-keys.json', JSON.stringify({ keys: [jwk] }))
}

/** Makes the owner and her whole ledger: entries as they are numbered, tiles, root and frontier. */
async function fill({ db }: Database, owner: Owner, size: number): Promise<void> {
  await inTransaction(db, tx => insertOwner(tx, { owner, tag: `${owner}-${randomInt(1e9)}` }))
  const [begins, last] = [Date.now() - size * 1_000, new Map<string, number>()]
  let frontier: Frontier = { size: 0, hashes: [] }
  while (frontier.size < size) {
    const first = frontier.size
    const count = Math.min(ROWS_AT_ONCE, size - first)
    const rows = Array.from({ length: count }, (_, n) => rowOf(owner, first + n + 1, { begins, last }))
    const leaves = rows.map(row => ledgerLeaf(row))
    const grown = appendLeaves(frontier, leaves)
    // Leaves of a tile that is not full are with their entries alone.
    const open = grown.frontier.size - (grown.frontier.size % TILE_HASHES)
    const full = leaves.slice(0, open - first).map((hash, n) => ({ level: 0, index: first + n, hash }))
    await inTransaction(db, async tx => {
      await sql`
        INSERT INTO ledger (owner, id, seq, ts, kind, handle, data, salt, prev, leaf)
        SELECT ${owner}, n.seq, n.seq, n.ts, 'touched', n.handle, n.data, n.salt, n.prev, n.leaf
        FROM unnest(${rows.map((_, n) => first + n + 1)}::bigint[], ${rows.map(({ ts }) => ts)}::timestamptz[],
          ${rows.map(({ handle }) => handle)}::text[], ${rows.map(({ data }) => data)}::json[],
          ${rows.map(({ salt }) => salt)}::bytea[], ${rows.map(({ prev }) => prev)}::bigint[], ${leaves}::bytea[])
          AS n(seq, ts, handle, data, salt, prev, leaf)`.execute(tx)
      await writeTiles(tx, owner, [...full, ...grown.above], grown.groups)
    })
    frontier = grown.frontier
  }
  await sql`
    INSERT INTO heads (owner, ledger, tree_size, tree_root, frontier)
    VALUES (${owner}, ${size}, ${size}, ${rootOf(frontier)}, ${Buffer.concat(frontier.hashes)})`.execute(db)
}

function rowOf(
  owner: Owner,
  seq: number,
  { begins, last }: { begins: number; last: Map<string, number> },
): LedgerRow {
  const handle = `jkt:agent${seq % AGENTS}`
  const prev = last.get(handle) ?? 0
  last.set(handle, seq)
  return {
    owner,
    ts: new Date(begins + seq * 1_000).toISOString(),
    kind: 'touched',
    salt: randomBytes(16),
    family: null,
    handle,
    count: 1,
    data: `{"tool":"portfolio_read","n":${seq}}`,
    prev,
  }
}

async function takeTurns(
  log: Log,
  owners: Record<Side, Measured>,
  tell: (line: string) => void,
): Promise<Pick<LedgerSize, 'p50_ms' | 'ratios'>> {
  const acts: Record<Act, (of: Measured) => Promise<number>> = {
    numbering: ({ owner }) => numberingMs(log, owner, NUMBERED_ENTRIES),
    inclusion: ({ owner }) => inclusionMs(log, owner),
    checkpoint: ({ owner }) => checkpointMs(log, owner),
    tile: of => tileMs(log, of),
  }
  const medians = new Map(ACTS.map(act => [act, { few: [] as number[], many: [] as number[] }]))
  for (let turn = 0; turn <= TURNS; turn++) {
    for (const act of ['checkpoint', 'numbering', 'inclusion', 'tile'] as const) {
      const times = { few: [] as number[], many: [] as number[] }
      // By turns, so that what disturbs one disturbs the other; and each is the first as often.
      for (let n = 0; n < CALLS[act]; n++)
        for (const side of n % 2 === 0 ? SIDES : SIDES.toReversed())
          times[side].push(await acts[act](owners[side]))
      // The first turn is the warm-up.
      if (turn > 0) for (const side of SIDES) medians.get(act)![side].push(spreadOf(times[side])!.median)
    }
    tell(`ledger: turn ${turn} of ${TURNS}`)
  }
  const of = <T>(make: (sides: Record<Side, number[]>) => T): Record<Act, T> =>
    Object.fromEntries(ACTS.map(act => [act, make(medians.get(act)!)])) as Record<Act, T>
  return {
    p50_ms: of(({ few, many }) => ({ few: spreadOf(few)!, many: spreadOf(many)! })),
    ratios: of(({ few, many }) => many.map((ms, n) => ms / few[n]!)),
  }
}

async function timed(work: () => Promise<unknown>): Promise<number> {
  const from = performance.now()
  await work()
  return performance.now() - from
}

/** Until so many new entries have position and leaf. */
async function numberingMs({ database: { db } }: Log, owner: Owner, count: number): Promise<number> {
  await append(db, owner, count)
  return timed(() => number(db, owner))
}

const append = (db: Database['db'], owner: Owner, count: number): Promise<void> =>
  appendLedgerAll(
    db,
    owner,
    Array.from({ length: count }, (_, n) => ({
      kind: 'touched' as const,
      handle: asHandle(`jkt:agent${n % AGENTS}`),
      data: { tool: 'portfolio_read', jti: 'rpt_of_the_bench', client_id: 'demo-tools', at: n },
    })),
  )

/** Until her tree, in which something is new, is signed. */
async function checkpointMs(log: Log, owner: Owner): Promise<number> {
  const { db } = log.database
  for (;;) {
    await numberingMs(log, owner, 1)
    await sql`UPDATE ledger_checkpoints SET signed_at = signed_at - interval '2 seconds'
      WHERE owner = ${owner}`.execute(db)
    let outcome = ''
    const ms = await timed(async () => (outcome = await signTree(db, owner, log)))
    if (outcome === 'signed') return ms
    // Otherwise the authority's own sweep was quicker.
    if (outcome !== 'unchanged' && outcome !== 'resting') throw new Error(`a tree was ${outcome}, not signed`)
  }
}

/** Until the proof that a leaf at a random place is in her tree is made of what is stored. */
async function inclusionMs({ database: { db }, issuer }: Log, owner: Owner): Promise<number> {
  const head = (await readCheckpoint(db, owner, originBase(issuer)))!
  const index = randomInt(head.size)
  let proof: Buffer[] = []
  const ms = await timed(async () => {
    const plan = planInclusion(index, head.size)
    proof = (await readProver(db, owner, [plan]))(plan)
  })
  const { rows } = await sql<{ leaf: Buffer }>`
    SELECT leaf FROM ledger WHERE owner = ${owner} AND seq = ${index + 1}`.execute(db)
  if (!provesInclusion({ index, leaf: rows[0]!.leaf }, head, proof))
    throw new Error(`the proof of entry ${index + 1} of ${owner} does not hold`)
  return ms
}

/** Until a random full tile of leaves has come over her API. */
async function tileMs({ database: { db }, issuer }: Log, { owner, access }: Measured): Promise<number> {
  const { size } = (await readCheckpoint(db, owner, originBase(issuer)))!
  const path = `/owner/ledger/tile/0/${encodeTileNumber(randomInt(Math.floor(size / TILE_HASHES)))}`
  let bytes = 0
  const ms = await timed(
    async () => ({ length: bytes } = await exchangeBytes(access, { method: 'GET', path })),
  )
  if (bytes !== TILE_HASHES * HASH_BYTES) throw new Error(`${path} has ${bytes} bytes`)
  return ms
}

/**
 * Microseconds of CPU time of this process for an entry, and for an event, which gets a position by the same
 * statements and has no leaf; nothing else happens in it meanwhile.
 */
async function numberingCpu({ database: { db } }: Log, owner: Owner): Promise<LedgerSize['numbering_us']> {
  const events = Array.from({ length: FULL_NUMBERING }, (_, at) => ({
    event: 'decided' as const,
    data: { at },
  }))
  const adds = {
    entry: () => append(db, owner, FULL_NUMBERING),
    event: () => inTransaction(db, tx => appendEvents(tx, owner, events)),
  }
  const us = { entry: 0, event: 0 }
  for (let n = -CPU_NUMBERINGS.warmUp; n < CPU_NUMBERINGS.counted; n++)
    for (const kind of ['entry', 'event'] as const) {
      await adds[kind]()
      const before = process.cpuUsage()
      await number(db, owner)
      const { user, system } = process.cpuUsage(before)
      if (n >= 0) us[kind] += user + system
    }
  const count = CPU_NUMBERINGS.counted * FULL_NUMBERING
  return { entry: us.entry / count, event: us.event / count }
}
