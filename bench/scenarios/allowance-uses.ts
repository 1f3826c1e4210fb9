/**
 * Owns what an allowance costs that was used very often: an agreement within it, and its owner's list, at an
 * authority with ten million spent grants of it beside one with ten thousand, turn by turn. Only grants are
 * filled in, as they are kept for a day; docs/performance.md names what else a use leaves. It is a part of
 * `node bench/scenarios/allowances.ts --uses N`.
 */
import { join } from 'node:path'
import { isJsonObject } from '../../src/wire/json.ts'
import { thumbprintHandle } from '../../src/wire/agents/handles.ts'
import { spreadOf, type Spread } from '../figures.ts'
import { analyze, startOwnSystem, type System } from '../system.ts'
import { openSpenders, SIDES, type BySide, type Spender } from './allowance-owners.ts'
import { inTurn } from './in-turn.ts'
import { checkDisk, insertGrants } from './scale.ts'

const FEW = 10_000
const MANY = 10_000_000
const TURNS = 5
/** Rounds of a turn: agreements at both authorities, of both sides; and her list at both. */
const ROUNDS = { agreements: 100, lists: 100, warmUp: 150 }
/** Newer than the day for which they are kept, by far more than a run takes. */
const AGES_SECONDS = 79_200

export interface AllowanceUses {
  few: number
  many: number
  fill_seconds: number
  table_mib: number
  /** Medians of the turns' medians, and their spread, in milliseconds. */
  p50_ms: Record<string, Spread>
  /**
   * In each turn, with many uses over with few; and, with many, an agreement within the allowance over one
   * without.
   */
  ratios: Record<'agreement' | 'list' | 'overWithout', number[]>
}

/** One authority whose allowance was used so often. */
interface Used {
  system: System
  spenders: BySide<Spender>
}

/** Fills two authorities, and times calls at both. Refuses to begin if the disk has no room for the rows. */
export async function measureAllowanceUses(
  directory: string,
  { many = MANY, turns = TURNS, tell }: { many?: number; turns?: number; tell: (line: string) => void },
): Promise<AllowanceUses> {
  await checkDisk(many)
  const stops: (() => Promise<void>)[] = []
  const open = async (name: string, uses: number): Promise<Used> => {
    const system = await startOwnSystem(join(directory, name))
    stops.push(() => system.stop())
    const spenders = await openSpenders(system)
    for (const side of SIDES) stops.push(() => spenders[side].close())
    tell(`allowances: filling ${uses} uses`)
    await fill(system, spenders.with, uses)
    return { system, spenders }
  }
  const began = performance.now()
  try {
    const few = await open('few-uses', FEW)
    const large = await open('many-uses', many)
    const fill_seconds = (performance.now() - began) / 1_000
    const { p50_ms, ratios } = await takeTurns([few, large], { turns, tell })
    const { rows } = await large.system.database.pool.query<{ mib: number }>(
      `SELECT (pg_total_relation_size('grants') / 1048576)::int AS mib`,
    )
    return { few: FEW, many, fill_seconds, table_mib: rows[0]!.mib, p50_ms, ratios }
  } finally {
    for (const stop of stops.toReversed()) await stop()
  }
}

async function takeTurns(
  [few, many]: [Used, Used],
  { turns, tell }: { turns: number; tell: (line: string) => void },
): Promise<Pick<AllowanceUses, 'p50_ms' | 'ratios'>> {
  const agreements = [few, many].flatMap(({ spenders }) => SIDES.map(side => () => spenders[side].spendOne()))
  const lists = [few, many].map(
    ({ spenders }) =>
      () =>
        listMs(spenders.with),
  )
  // After a batch her list reads as many places as it ever does, by plans that know of them.
  for (const { system, spenders } of [few, many]) {
    for (const side of SIDES) await spenders[side].spendBatch()
    await analyze(system.database.url)
  }
  await inTurn(ROUNDS.warmUp, agreements)
  await inTurn(ROUNDS.warmUp, lists)
  const seen: Record<string, number[]> = {}
  const note = (name: string, value: number): void => void (seen[name] ??= []).push(value)
  const ratios: AllowanceUses['ratios'] = { agreement: [], list: [], overWithout: [] }
  for (let turn = 1; turn <= turns; turn++) {
    const [fewWithout, fewWithin, without, within] = await inTurn(ROUNDS.agreements, agreements)
    const [fewList, list] = await inTurn(ROUNDS.lists, lists)
    note('agreement without an allowance, few', fewWithout!)
    note('agreement within it, few uses', fewWithin!)
    note('agreement without an allowance, many', without!)
    note('agreement within it, many uses', within!)
    note('GET /owner/allowances, few uses', fewList!)
    note('GET /owner/allowances, many uses', list!)
    ratios.agreement.push(within! / fewWithin!)
    ratios.list.push(list! / fewList!)
    ratios.overWithout.push(within! / without!)
    tell(`allowances: turn ${turn} of ${turns} with many uses`)
  }
  const p50_ms = Object.entries(seen).map(([name, medians]) => [name, spreadOf(medians)!] as const)
  return { p50_ms: Object.fromEntries(p50_ms), ratios }
}

/** Her list, with what is used and held. It must say that there are more places than it reads. */
async function listMs({ client }: Spender): Promise<number> {
  const from = performance.now()
  const listed = await client.ask({ method: 'GET', path: '/owner/allowances' })
  const took = performance.now() - from
  const [allowance, ...others] = Array.isArray(listed) ? listed : []
  if (!isJsonObject(allowance) || others.length > 0 || allowance['held_more'] !== true)
    throw new Error(`her allowances are ${JSON.stringify(listed)}`)
  return took
}

/**
 * Grants of her agents within the allowance that were spent and then expired, made from one that the
 * authority made.
 */
async function fill({ database }: System, spender: Spender, count: number): Promise<void> {
  await spender.spendOne()
  const handles = spender.agents.map(key => thumbprintHandle(key))
  await insertGrants(database.url, count, {
    sql: `INSERT INTO grants (owner, rpt_sha256, jti, family, handle, generation, client_id, aud, resource_id,
           tier_id, tier_epoch, hold, single_use, claims, expires_at, consumed_at)
         SELECT g.owner, sha256(('spent-grant-' || n)::bytea), 'rpt_spent_' || n, 'fam_spent_' || n,
           ($4::text[])[1 + n % array_length($4::text[], 1)], g.generation, g.client_id, g.aud, g.resource_id,
           g.tier_id, g.tier_epoch, g.hold, true, g.claims, past.at, past.at - interval '1 minute'
         FROM generate_series($1::int, $2::int) n,
           (SELECT * FROM grants WHERE owner = $3 AND single_use LIMIT 1) g,
           LATERAL (SELECT now() - (1 + n % ${AGES_SECONDS}) * interval '1 second' AS at) past`,
    values: [spender.owner, handles],
  })
}

/** What was measured, as lines of text. */
export function renderAllowanceUses(measured: AllowanceUses): string {
  const { few, many, fill_seconds, table_mib, p50_ms, ratios } = measured
  const count = (value: number): string => value.toLocaleString('en-US')
  const spread = ({ median, min, max }: Spread): string =>
    `${median.toFixed(2).padStart(8)}  (${min.toFixed(2)} to ${max.toFixed(2)})`
  return [
    `With ${count(many)} uses of an allowance beside ${count(few)}, one call at a time, p50 in ms;`,
    `${count(table_mib)} MiB of grants; filled in ${Math.round(fill_seconds)} s`,
    ...Object.entries(p50_ms).map(([name, times]) => `${name.padEnd(40)}${spread(times)}`),
    `${'an agreement, many over few'.padEnd(40)}${spread(spreadOf(ratios.agreement)!)}, goal at most 1.2`,
    `${'her list, many over few'.padEnd(40)}${spread(spreadOf(ratios.list)!)}, goal at most 1.2`,
    `${'with many, within it over without one'.padEnd(40)}${spread(spreadOf(ratios.overWithout)!)}`,
  ].join('\n')
}
