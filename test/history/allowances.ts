/**
 * Owns what owners of a history do with their allowances: each has one in each part, over a tier of two
 * resource servers; she edits it, ends it and opens it again, and how much of it is used is read.
 */
import { Client } from 'pg'
import type { Setting } from './agents.ts'
import { ZONE } from './check-allowances.ts'
import { ownerRequests, plainly } from './owner-requests.ts'
import type { Person } from './processes.ts'
import type { Allow, Period, WindowUse } from './record.ts'
import { EACH_MAX } from './wishes.ts'

export interface Allowances {
  /** Makes them, and has the tiers name them; before anything is disturbed. */
  make: () => Promise<void>
  /** That of an owner; left out, of any. */
  edit: (owner?: string) => Promise<void>
  /** Reads how much of one is used. */
  read: () => Promise<void>
  /** Reads how much of each is used. */
  readAll: () => Promise<void>
}

/** An allowance as its owner knows it. */
interface Known {
  person: Person
  among: Allow['among']
  version: number
  price: number
  calls: number
  open: boolean
}

/** Of the owners in turn: one set of windows for all her agents, or one for each. */
const AMONG = ['all', 'lineage'] as const
const FIRST = { price: 80, calls: 12, open: true }
/** By how much an edit moves what there is, on the average upwards. */
const MOVES = { price: { most: 90, less: 25 }, calls: { most: 12, less: 3 } }
/** Longest life of a grant, in seconds. */
const HOLD_SECONDS = 60
const MAKE_TRIES_MAX = 100

/** `id`: of the allowances of this part, one for each of the people of the setting. */
export function createAllowances(
  setting: Pick<Setting, 'processes' | 'recorder' | 'chance'>,
  id: string,
): Allowances {
  const { processes, recorder, chance } = setting
  const { look, change } = ownerRequests(setting)
  const target = `/owner/allowances/${id}`
  const all: Known[] = processes.people.map((person, at) => ({
    person,
    among: AMONG[at % AMONG.length]!,
    version: 0,
    ...FIRST,
  }))

  async function save(known: Known, next: Pick<Known, 'price' | 'calls' | 'open'>): Promise<boolean> {
    const { person, among } = known
    const version = known.version + 1
    const windows = [
      { of: 'price', per: 'all' as Period, max: next.price },
      { of: 'calls', per: 'hour' as Period, max: next.calls },
    ]
    const headers: Record<string, string> =
      version === 1 ? { 'if-none-match': '*' } : { 'if-match': `"${known.version}"` }
    const { owner } = person
    const came = await change(
      person,
      { method: 'PUT', target, headers, json: contentOf(among, next.open, windows) },
      (request, via) => ({
        op: 'allow',
        owner,
        allowance: id,
        makes: version,
        among,
        open: next.open,
        windows,
        request,
        via,
      }),
      plainly,
    )
    if (came.outcome === 'done') Object.assign(known, next, { version: Math.max(known.version, version) })
    else await lookAgain(known)
    return known.version > 0
  }

  /** What is stored, after an answer that did not come, or an edit of somebody else's. */
  async function lookAgain(known: Known): Promise<void> {
    const { outcome, body } = await look(known.person, { target })
    if (outcome !== 'done' || (body.version as number) <= known.version) return
    const [price, calls] = (body.windows as { max: string }[]).map(({ max }) => Number(max))
    Object.assign(known, { version: body.version, price, calls, open: body.until === null })
  }

  async function readOne({ person: { owner } }: Known): Promise<void> {
    const op = recorder.begin({ op: 'uses', owner, allowance: id, windows: [], via: 'postgres' })
    try {
      recorder.end(op, { outcome: 'done', windows: await windowsOf(processes.database, owner, id) })
    } catch (error) {
      recorder.end(op, { outcome: 'unknown', code: String(error) })
    }
  }

  /** Asks until it is done. */
  async function untilDone(what: string, tries: () => Promise<boolean>): Promise<void> {
    for (let count = 1; !(await tries()); count++)
      if (count === MAKE_TRIES_MAX) throw new Error(`${what} cannot be made`)
  }

  return {
    make: async () => {
      for (const known of all) {
        await untilDone('an allowance', () => save(known, FIRST))
        const rules = [
          { when: ['standing.approved_at_tier'], then: 'auto' },
          { when: [`operation.beyond:${id}`], then: 'ask' },
        ]
        const call = { method: 'PUT' as const, target: '/owner/policies/trading', json: { rules } }
        await untilDone(
          'the rules of a tier',
          async () => (await look(known.person, call)).outcome === 'done',
        )
      }
    },
    edit: async owner => {
      const known = all.find(({ person }) => person.owner === owner) ?? chance.of(all)
      const moved = (of: keyof typeof MOVES): number =>
        Math.max(0, known[of] + chance.below(MOVES[of].most) - MOVES[of].less)
      const open = known.open ? chance.next() < 0.9 : true
      await save(known, { price: moved('price'), calls: moved('calls'), open })
    },
    read: () => readOne(chance.of(all)),
    readAll: async () => {
      for (const known of all) await readOne(known)
    },
  }
}

function contentOf(among: Allow['among'], open: boolean, windows: Allow['windows']): object {
  return {
    zone: ZONE.name,
    among,
    until: open ? null : new Date(Date.now() - 60_000).toISOString(),
    hold_s: HOLD_SECONDS,
    amounts: [{ name: 'price', each_max: String(EACH_MAX) }],
    windows: windows.map(({ of, per, max }) => ({ of, per, max: String(max) })),
    tiers: {
      trading: {
        tools: ['place_trade'],
        amounts: { price: { pointer: '/qty' } },
        only: [{ pointer: '/symbol', one_of: ['VTI'] }],
        free: ['/note'],
      },
    },
  }
}

/** Read where it is kept, by the database's own account of each window. */
async function windowsOf(url: string, owner: string, id: string): Promise<WindowUse[]> {
  const client = new Client({ connectionString: url, connectionTimeoutMillis: 5_000, query_timeout: 15_000 })
  // A server that is killed tells its clients so whenever it likes.
  client.on('error', () => {})
  await client.connect()
  try {
    const { rows } = await client.query<
      Omit<WindowUse, 'starts' | 'used'> & { starts: string; used: string }
    >(
      `SELECT "of", per, whose, extract(epoch FROM start) * 1000 AS starts, used FROM allowance_windows
       WHERE owner = $1 AND allowance = $2 AND (ends IS NULL OR ends > clock_timestamp())`,
      [owner, id],
    )
    return rows.map(({ starts, used, ...window }) => ({
      ...window,
      starts: Number(starts),
      used: Number(used),
    }))
  } finally {
    await client.end().catch(() => {})
  }
}
