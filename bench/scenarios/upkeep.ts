/**
 * Owns what upkeep costs: rows swept in a second, revoking an agent with many spent grants beside one with
 * none, and, with many owners, the count of `/health/registry` and a round of sweeping in which nothing is
 * due. docs/performance.md says how to read it. By itself alone: `node bench/scenarios/upkeep.ts`;
 * DATABASE_URL measures on an empty database of yours.
 */
import { parseArgs } from 'node:util'
import { sql } from 'kysely'
import { pino } from 'pino'
import { createCountedRegistry } from '../../src/authority/registry/registry-health.ts'
import { sweepDue } from '../../src/authority/sweeper.ts'
import { startEmbeddedPostgres } from '../../src/dev/stack/embedded-postgres.ts'
import { revokeConnection } from '../../src/storage/authority/connections/connections.ts'
import { AUTHORITY_DATABASE, openDatabase, type Database } from '../../src/storage/authority/database.ts'
import { dueNow } from '../../src/storage/authority/due.ts'
import { inTransaction } from '../../src/storage/core/database.ts'
import type { Owner } from '../../src/wire/identifiers.ts'
import * as seed from '../../test/support/seed.ts'
import { spreadOf, type Spread } from '../figures.ts'
import { analyze } from '../system.ts'

const SWEPT_ROWS = 50_000
const SPENT_GRANTS = 200_000
const OWNERS = 20_000
const TURNS = 5

interface Upkeep {
  /** Of negotiations and of grants, half each. */
  rows_swept_per_second: number
  revoke_ms: Record<'none' | 'spent', Spread>
  /** Turn by turn: with many spent grants over with none. */
  ratios: number[]
  health_ms: number
  idle_sweep_ms: number
}

async function measureUpkeep(
  database: Database,
  { spent, owners }: { spent: number; owners: number },
): Promise<Upkeep> {
  const swept = await sweepRate(database)
  const revokes: Record<'none' | 'spent', number[]> = { none: [], spent: [] }
  const busy = await agentWithSpent(database, spent)
  const quiet = await agentWithSpent(database, 0)
  for (let turn = 0; turn < TURNS; turn++) {
    revokes.none.push(await revoke(database, quiet))
    revokes.spent.push(await revoke(database, busy))
  }
  await manyOwners(database, owners)
  return {
    rows_swept_per_second: swept,
    revoke_ms: { none: spreadOf(revokes.none)!, spent: spreadOf(revokes.spent)! },
    ratios: revokes.spent.map((ms, turn) => ms / revokes.none[turn]!),
    health_ms: await timed(createCountedRegistry(database.db)),
    idle_sweep_ms: await timed(() => sweep(database)),
  }
}

async function timed(work: () => Promise<unknown>): Promise<number> {
  const since = performance.now()
  await work()
  return performance.now() - since
}

/** It has listened for no time, and so calls nobody silent: that is no part of these figures. */
const listening = { ms: () => 0, broken: () => undefined }
const sweep = (database: Database): Promise<void> =>
  sweepDue({ database, log: pino({ level: 'silent' }), listening }, 60, () => false)

async function sweepRate(database: Database): Promise<number> {
  const { db } = database
  const owner = await seed.seedOwner(db)
  const half = SWEPT_ROWS / 2
  await fillGrants(database, owner, { count: half, age: '2 days' })
  const family = await seed.seedFamily(db, owner, null)
  const { rows } = await sql<{ names: string }>`
    SELECT string_agg(quote_ident(attname), ', ' ORDER BY attnum) AS names FROM pg_attribute
    WHERE attrelid = 'families'::regclass AND attnum > 0 AND NOT attisdropped
      AND attname NOT IN ('family', 'ticket_hash', 'ticket_expires_at', 'sealed_expires_at')`.execute(db)
  const kept = sql.raw(rows[0]!.names)
  await sql`
    INSERT INTO families (family, ticket_hash, ticket_expires_at, sealed_expires_at, ${kept})
    SELECT 'fam_old_' || n, sha256(n::text::bytea), now() - interval '2 days', now() - interval '2 days', ${kept}
    FROM families, generate_series(1, ${half}::int) n WHERE owner = ${owner} AND family = ${family}`.execute(
    db,
  )
  await analyze(database.url)
  await dueNow(db, owner, 'sweep')
  const ms = await timed(() => sweep(database))
  const left = await sql`SELECT 1 FROM grants WHERE owner = ${owner}`.execute(db)
  if (left.rows.length > 0) throw new Error(`${left.rows.length} grants were not swept`)
  return (SWEPT_ROWS * 1_000) / ms
}

/** Grants of one agent of hers, which is answered. */
async function fillGrants(
  { db }: Database,
  owner: Owner,
  { count, age }: { count: number; age: string },
): Promise<{ owner: Owner; handle: ReturnType<typeof seed.name> }> {
  const handle = seed.name('jkt:')
  const generation = await seed.seedConnection(db, owner, handle)
  for (let at = 0; at < count; at += 50_000)
    await sql`
      INSERT INTO grants (owner, rpt_sha256, jti, family, handle, generation, client_id, aud, resource_id, tier_id,
        tier_epoch, single_use, claims, expires_at, consumed_at)
      SELECT ${owner}, sha256((${handle} || n)::bytea), ${handle} || n, 'fam_' || n, ${handle}, ${generation}, 'demo-tools', 'x',
        ${seed.resourceId(owner)}, ${seed.TIER}, 1, true, '{}', now() - ${age}::interval, now()
      FROM generate_series(${at + 1}::int, ${Math.min(count, at + 50_000)}::int) n`.execute(db)
  return { owner, handle }
}

async function agentWithSpent(
  database: Database,
  count: number,
): Promise<{ owner: Owner; handle: ReturnType<typeof seed.name> }> {
  const agent = await fillGrants(database, await seed.seedOwner(database.db), { count, age: '-1 hour' })
  await analyze(database.url)
  return agent
}

/** Times a revocation, and takes it back, so that the same grants are there for the next. */
async function revoke(
  { db }: Database,
  { owner, handle }: Awaited<ReturnType<typeof agentWithSpent>>,
): Promise<number> {
  const back = new Error('taken back')
  let ms = 0
  await inTransaction(db, async tx => {
    ms = await timed(() => revokeConnection(tx, owner, handle, seed.ACTOR))
    throw back
  }).catch((error: unknown) => {
    if (error !== back) throw error
  })
  return ms
}

async function manyOwners(database: Database, count: number): Promise<void> {
  const { db } = database
  await sql`
    WITH made AS (INSERT INTO owners (owner, tag) SELECT 'many-' || n, 'tag-' || n FROM generate_series(1, ${count}::int) n RETURNING owner),
      due AS (INSERT INTO due (owner, kind, at) SELECT owner, 'sweep', now() + interval '1 hour' FROM made)
    INSERT INTO resource_servers (owner, client_id, name, resource_uri, status, auth, publishes)
    SELECT owner, 'https://tools.example/' || owner, 'X', 'https://tools.example/' || owner, 'active', 'signature', true FROM made`.execute(
    db,
  )
  await analyze(database.url)
  await sweep(database)
}

function renderUpkeep(measured: Upkeep, { spent, owners }: { spent: number; owners: number }): string {
  const { rows_swept_per_second: swept, revoke_ms: revokes, ratios, health_ms, idle_sweep_ms } = measured
  const ms = ({ median, min, max }: Spread): string =>
    `${median.toFixed(1)} ms (${min.toFixed(1)} to ${max.toFixed(1)})`
  return [
    `Sweeping: ${Math.round(swept)} rows a second`,
    `Revoking an agent: ${ms(revokes.none)} without a grant, ${ms(revokes.spent)} with ${spent} spent ones that have not expired; ratio ${spreadOf(ratios)!.median.toFixed(2)}`,
    `With ${owners} owners: /health/registry ${health_ms.toFixed(0)} ms, a sweep in which nothing is due ${idle_sweep_ms.toFixed(1)} ms`,
  ].join('\n')
}

async function main(): Promise<void> {
  const { values } = parseArgs({ options: { spent: { type: 'string' }, owners: { type: 'string' } } })
  const sizes = { spent: Number(values.spent ?? SPENT_GRANTS), owners: Number(values.owners ?? OWNERS) }
  const given = process.env['DATABASE_URL']
  const server =
    given === undefined
      ? await startEmbeddedPostgres({ maxConnections: 20, durable: true })
      : { url: given, stop: async () => undefined }
  try {
    await AUTHORITY_DATABASE.migrate(server.url)
    const database = openDatabase({ url: server.url, poolMax: 4, statementTimeoutMs: 60_000 })
    try {
      process.stdout.write(`${renderUpkeep(await measureUpkeep(database, sizes), sizes)}\n`)
    } finally {
      await database.close()
    }
  } finally {
    await server.stop()
  }
}

if (import.meta.main) await main()
