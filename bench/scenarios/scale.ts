/**
 * Owns what a call costs when there are many grants: introspect, consume and revoke at one authority with ten
 * million of them beside one with ten thousand, turn by turn, one call at a time. docs/performance.md says
 * how to read it. By itself: `node bench/scenarios/scale.ts`.
 */
import { statfs } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { Client } from 'pg'
import { createOwnerClient, type OwnerClient } from '../../src/owner/client.ts'
import { spreadOf, type Spread } from '../figures.ts'
import { startOwnSystem, type System } from '../system.ts'
import { runByItself } from './by-itself.ts'
import { openProtection, type ProtectionDoor } from './protection-door.ts'

const FEW = 10_000
const MANY = 10_000_000
/** Live grants of the one connection that has many. */
const OF_ONE_CONNECTION = 1_000_000
const TURNS = 5
const CALLS = { introspect: 2_000, consume: 800, revoke: 12, warmUp: 300 }
/** A row with its four index entries, and as much again for what is logged and sorted on the way. */
const BYTES_PER_GRANT = 2_600
const ROWS_PER_INSERT = 500_000

export interface Scale {
  few: number
  many: number
  of_one_connection: number
  fill_seconds: number
  table_mib: number
  /** Medians of the turns' medians, and their spread, in milliseconds. */
  p50_ms: Record<string, Spread>
  /** In each turn, with many over with few. */
  ratios: { introspect: number[]; consume: number[]; revoke: number[] }
}

/** One authority with its grants. */
interface Filled {
  system: System
  door: ProtectionDoor
  owner: OwnerClient
  count: number
  /** The next single-use grant that nobody has spent. */
  nextUnspent: number
}

/** Fills two authorities and times calls at both. Refuses to begin if the disk has no room for the rows. */
export async function measureScale(
  directory: string,
  { many = MANY, tell }: { many?: number; tell: (line: string) => void },
): Promise<Scale> {
  await checkDisk(many)
  const systems: System[] = []
  const open = async (name: string, count: number): Promise<Filled> => {
    const system = await startOwnSystem(join(directory, name))
    systems.push(system)
    tell(`scale: filling ${count} grants`)
    await fill(system, count)
    const { world, ownerApi: api, ownerKey: key } = system
    const owner = createOwnerClient({ api, issuer: world.issuer, key })
    return { system, door: await openProtection(world), owner, count, nextUnspent: 2 }
  }
  const began = performance.now()
  try {
    const few = await open('few', FEW)
    const large = await open('many', many)
    const fill_seconds = (performance.now() - began) / 1_000
    const times = await takeTurns(few, large, tell)
    const { rows } = await large.system.database.pool.query<{ mib: number }>(
      `SELECT (pg_total_relation_size('grants') / 1048576)::int AS mib`,
    )
    return {
      few: FEW,
      many,
      of_one_connection: Math.min(OF_ONE_CONNECTION, many / 2),
      fill_seconds,
      table_mib: rows[0]!.mib,
      p50_ms: Object.fromEntries([...times].map(([name, medians]) => [name, spreadOf(medians)!])),
      ratios: {
        introspect: quotients(times.get('introspect, many')!, times.get('introspect, few')!),
        consume: quotients(times.get('consume, many')!, times.get('consume, few')!),
        revoke: quotients(times.get('revoke, of many')!, times.get('revoke, of one')!),
      },
    }
  } finally {
    for (const system of systems) await system.stop()
  }
}

async function takeTurns(
  few: Filled,
  many: Filled,
  tell: (line: string) => void,
): Promise<Map<string, number[]>> {
  const times = new Map<string, number[]>()
  const note = (call: 'introspect' | 'consume' | 'revoke', [below, above]: number[]): void => {
    const sides = call === 'revoke' ? ['of one', 'of many'] : ['few', 'many']
    for (const [n, median] of [below!, above!].entries()) {
      const name = `${call}, ${sides[n]}`
      times.set(name, [...(times.get(name) ?? []), median])
    }
  }
  await medians(CALLS.warmUp, [() => introspection(few), () => introspection(many)])
  for (let turn = 1; turn <= TURNS; turn++) {
    note('introspect', await medians(CALLS.introspect, [() => introspection(few), () => introspection(many)]))
    note('consume', await medians(CALLS.consume, [() => consumption(few), () => consumption(many)]))
    note('revoke', await revocations(many))
    tell(`scale: turn ${turn} of ${TURNS}`)
  }
  return times
}

/** The token of a filled grant, whatever it says, is found by its SHA-256, like the token of every grant. */
const tokenOf = (n: number): string => `filled-grant-${n}`

/**
 * Odd grants are standing ones, even ones are for a single use; the first two agents are kept out of both for
 * the revocations.
 */
const KEPT_APART = 2

async function introspection({ door, count }: Filled): Promise<void> {
  const n = 1 + 2 * Math.floor((Math.random() * count) / 2)
  const { active } = await door.introspect(tokenOf(n))
  if (!active) throw new Error(`filled grant ${n} is not live`)
}

/** Each spent once, strewn over the whole table: the step shares no factor with the number of grants. */
async function consumption(filled: Filled): Promise<void> {
  const step = 2 * 3_571
  filled.nextUnspent = ((filled.nextUnspent + step - 1) % filled.count) + 1
  const { consumed } = await filled.door.consume(tokenOf(filled.nextUnspent))
  if (!consumed) throw new Error(`filled grant ${filled.nextUnspent} was not spent`)
}

/**
 * Revokes the connection with one live grant and the one with very many, in turn; the next introspection must
 * say so.
 */
async function revocations({ system, door, owner }: Filled): Promise<number[]> {
  const [many, one] = system.world.agents.slice(0, KEPT_APART)
  const times: number[][] = [[], []]
  for (let n = 0; n < CALLS.revoke; n++) {
    for (const [side, { handle, rpt }] of [one!, many!].entries()) {
      const from = performance.now()
      await owner.ask({ method: 'POST', path: '/owner/connections/revoke', body: { handle } })
      times[side]!.push(performance.now() - from)
      const { active, reason } = await door.introspect(rpt)
      if (active || reason !== 'connection_revoked')
        throw new Error(`after a revoke a grant is ${JSON.stringify(reason ?? 'live')}`)
      // As it was, so that it can be revoked again: nothing that the product itself ever does.
      await system.database.pool.query(
        `UPDATE connections SET status = 'active', generation = generation - 1 WHERE owner = $1 AND handle = $2`,
        [system.world.owner, handle],
      )
    }
  }
  return times.map(all => spreadOf(all)!.median)
}

/** The median time of each of these calls, made by turns, so that what disturbs one disturbs the other. */
async function medians(calls: number, each: readonly (() => Promise<void>)[]): Promise<number[]> {
  const times: number[][] = each.map(() => [])
  for (let n = 0; n < calls; n++) {
    for (const [side, call] of each.entries()) {
      const from = performance.now()
      await call()
      times[side]!.push(performance.now() - from)
    }
  }
  return times.map(all => spreadOf(all)!.median)
}

function quotients(above: number[], below: number[]): number[] {
  return above.map((value, n) => value / below[n]!)
}

/** Throws if the disk has no room for so many grants. */
export async function checkDisk(grants: number): Promise<void> {
  const { bavail, bsize } = await statfs(tmpdir())
  const needed = grants * BYTES_PER_GRANT
  if (bavail * bsize < needed)
    throw new Error(
      `${grants} grants need ${Math.ceil(needed / 1e9)} GB of disk; there are ${Math.floor((bavail * bsize) / 1e9)}.`,
    )
}

/**
 * By INSERT … SELECT, from a grant that the authority made; indexes are taken down meanwhile and built anew.
 */
function fill({ world, database }: System, count: number): Promise<void> {
  const handles = world.agents.map(({ handle }) => handle)
  const ofOne = Math.min(OF_ONE_CONNECTION, count / 2)
  return insertGrants(database.url, count, {
    sql: `INSERT INTO grants (owner, rpt_sha256, jti, family, handle, generation, client_id, aud, resource_id,
           tier_id, tier_epoch, hold, single_use, claims, expires_at)
         SELECT g.owner, sha256(('${tokenOf(0).slice(0, -1)}' || n)::bytea), 'rpt_filled_' || n, 'fam_filled_' || n,
           CASE WHEN n <= $5::int AND n % 2 = 1 THEN ($4::text[])[1]
             ELSE ($4::text[])[${KEPT_APART + 1} + n % (array_length($4::text[], 1) - ${KEPT_APART})] END,
           g.generation, g.client_id, g.aud, g.resource_id, g.tier_id, g.tier_epoch, g.hold, n % 2 = 0, g.claims,
           now() + interval '1 day'
         FROM generate_series($1::int, $2::int) n,
           (SELECT * FROM grants WHERE owner = $3 AND NOT single_use LIMIT 1) g`,
    values: [world.owner, handles, 2 * ofOne],
  })
}

/**
 * Inserts so many grants as a superuser, by a statement that inserts those from `$1` to `$2`. More values
 * begin with `$3`. Indexes are taken down meanwhile and built anew.
 */
export async function insertGrants(
  databaseUrl: string,
  count: number,
  { sql, values }: { sql: string; values: readonly unknown[] },
): Promise<void> {
  const client = new Client({ connectionString: databaseUrl })
  await client.connect()
  try {
    await client.query(`SET maintenance_work_mem = '512MB'`)
    const restore = await takeDownIndexes(client)
    for (let from = 1; from <= count; from += ROWS_PER_INSERT)
      await client.query(sql, [from, Math.min(count, from + ROWS_PER_INSERT - 1), ...values])
    await restore()
    await client.query('VACUUM (ANALYZE) grants')
    await client.query('ANALYZE')
    await client.query('CHECKPOINT')
  } finally {
    await client.end()
  }
}

/** Takes down the indexes of grants; answers how to build each again as it was. */
async function takeDownIndexes(client: Client): Promise<() => Promise<void>> {
  const { rows: constraints } = await client.query<{ name: string; definition: string }>(
    `SELECT conname AS name, pg_get_constraintdef(oid) AS definition FROM pg_constraint
     WHERE conrelid = 'grants'::regclass AND contype = 'p'`,
  )
  for (const { name } of constraints) await client.query(`ALTER TABLE grants DROP CONSTRAINT ${name}`)
  const { rows: indexes } = await client.query<{ name: string; definition: string }>(
    `SELECT indexname AS name, indexdef AS definition FROM pg_indexes WHERE tablename = 'grants'`,
  )
  for (const { name } of indexes) await client.query(`DROP INDEX ${name}`)
  return async () => {
    for (const { name, definition } of constraints)
      await client.query(`ALTER TABLE grants ADD CONSTRAINT ${name} ${definition}`)
    for (const { definition } of indexes) await client.query(definition)
  }
}

/** What was measured, as lines of text. */
export function renderScale(scale: Scale): string {
  const count = (value: number): string => value.toLocaleString('en-US')
  const lines = Object.entries(scale.p50_ms).map(
    ([name, { median, min, max }]) =>
      `${name.padEnd(18)}${median.toFixed(2).padStart(8)}  (${min.toFixed(2)} to ${max.toFixed(2)})`,
  )
  return [
    `With ${count(scale.many)} grants beside ${count(scale.few)}, one call at a time, p50 in ms; ${count(scale.of_one_connection)} of one connection;`,
    `${count(scale.table_mib)} MiB of grants; filled in ${Math.round(scale.fill_seconds)} s`,
    ...lines,
  ].join('\n')
}

async function main(): Promise<void> {
  const { values } = parseArgs({ options: { grants: { type: 'string', default: String(MANY) } } })
  await runByItself(async (directory, tell) => {
    const scale = await measureScale(directory, { many: Number(values.grants), tell })
    return `${renderScale(scale)}\n${JSON.stringify(scale.ratios)}`
  })
}

if (import.meta.main) await main()
