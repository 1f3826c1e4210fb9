/**
 * Whatever agents take, spend and let expire, and whatever she edits meanwhile, the windows of an allowance
 * hold what was granted and not given back: contract, "Policy vocabulary and tiers", "Single-use grant". One
 * act after the other, compared with a model that is a few lines long.
 */
import { sql } from 'kysely'
import fc from 'fast-check'
import { pino } from 'pino'
import { expect, it } from 'vitest'
import { returnDue } from '../../src/authority/allowance-returns.ts'
import { consumeGrant } from '../../src/storage/authority/grants/consume.ts'
import { UNSPENT_MAX } from '../../src/storage/authority/policies/allowance-windows.ts'
import type { Handle, Owner } from '../../src/wire/identifiers.ts'
import {
  knownAgent,
  lapse,
  ownerWith,
  saveAllowance,
  take,
  type SpendingAgent,
} from '../support/allowance-grants.ts'
import { isLanding } from '../support/layer.ts'
import { PATIENT } from '../support/postgres.ts'
import * as seed from '../support/seed.ts'
import { coreStand } from '../support/stands.ts'

const database = coreStand(PATIENT)
const log = pino({ level: 'silent' })
const CALLS_MAX = 12

type Act =
  | { kind: 'take'; agent: number; cents: number }
  | { kind: 'consume'; nth: number }
  | { kind: 'lapse' }
  | { kind: 'return' }
  | { kind: 'edit'; cents: number }

const taking = fc.record({
  kind: fc.constant('take' as const),
  agent: fc.nat({ max: 2 }),
  cents: fc.nat({ max: 60 }),
})
const anyAct: fc.Arbitrary<Act> = fc.oneof(
  { weight: 6, arbitrary: taking },
  { weight: 3, arbitrary: fc.record({ kind: fc.constant('consume' as const), nth: fc.nat({ max: 40 }) }) },
  { weight: 1, arbitrary: fc.constant({ kind: 'lapse' as const }) },
  { weight: 2, arbitrary: fc.constant({ kind: 'return' as const }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('edit' as const), cents: fc.nat({ max: 300 }) }) },
)

interface ModelGrant {
  agent: number
  cents: number
  rpt: Buffer
  state: 'live' | 'spent' | 'lapsed' | 'returned'
}

const text = (cents: number): string => String(cents / 100)
const windowsOf = (cents: number) => [
  { of: 'calls', per: 'all', max: String(CALLS_MAX) },
  { of: 'price', per: 'all', max: text(cents) },
]

/** An owner with three agents, of which the second was brought in by the first. */
class Model {
  readonly owner: Owner
  readonly agents: readonly SpendingAgent[]
  readonly among: 'all' | 'lineage'
  readonly grants: ModelGrant[] = []
  max: number
  version = 1

  constructor(of: Pick<Model, 'owner' | 'agents' | 'among' | 'max'>) {
    this.owner = of.owner
    this.agents = of.agents
    this.among = of.among
    this.max = of.max
  }

  whose(agent: number): Handle | '' {
    return this.among === 'all' ? '' : this.agents[agent === 1 ? 0 : agent]!.handle
  }

  counted(whose: string): ModelGrant[] {
    return this.grants.filter(one => one.state !== 'returned' && this.whose(one.agent) === whose)
  }

  hasRoom(agent: number, cents: number): boolean {
    const others = this.counted(this.whose(agent))
    const sum = others.reduce((all, one) => all + one.cents, cents)
    const unspent = this.grants.filter(
      one => one.agent === agent && (one.state === 'live' || one.state === 'lapsed'),
    )
    return others.length < CALLS_MAX && sum <= this.max && unspent.length < UNSPENT_MAX
  }

  used(): string[] {
    const all = [...new Set(this.grants.map(({ agent }) => this.whose(agent)))]
    return all
      .flatMap(whose => {
        const counted = this.counted(whose)
        const cents = counted.reduce((sum, one) => sum + one.cents, 0)
        return [`${whose} calls ${counted.length}`, `${whose} price ${text(cents)}`]
      })
      .toSorted()
  }
}

async function modelOf(among: 'all' | 'lineage', max: number): Promise<Model> {
  const { db } = database
  const owner = await ownerWith(db, { among, windows: windowsOf(max) })
  const first = await knownAgent(db, owner)
  const agents = [
    first,
    await knownAgent(db, owner, { introduced_by: first.handle }),
    await knownAgent(db, owner),
  ]
  return new Model({ owner, agents, among, max })
}

async function act(model: Model, one: Act): Promise<void> {
  const { db, calls } = database
  const { owner, grants, agents, among } = model
  switch (one.kind) {
    case 'take': {
      const { agent, cents } = one
      const fits = model.hasRoom(agent, cents)
      const { outcome, rpt } = await take(db, owner, agents[agent]!, { amount: text(cents) })
      expect(outcome).toBe(fits ? 'recorded' : 'beyond')
      if (fits) grants.push({ agent, cents, rpt, state: 'live' })
      return
    }
    case 'consume': {
      const grant = grants[one.nth % Math.max(1, grants.length)]
      if (grant === undefined) return
      const spent = await consumeGrant(calls, owner, { client_id: seed.CLIENT_ID }, grant.rpt)
      expect(spent !== undefined).toBe(grant.state === 'live')
      if (grant.state === 'live') grant.state = 'spent'
      return
    }
    case 'lapse':
      await lapse(db, owner)
      for (const grant of grants) if (grant.state === 'live') grant.state = 'lapsed'
      return
    case 'return':
      await returnDue({ database, log }, () => false)
      for (const grant of grants) if (grant.state === 'lapsed') grant.state = 'returned'
      return
    case 'edit':
      model.max = one.cents
      await saveAllowance(db, owner, { version: ++model.version, among, windows: windowsOf(one.cents) })
  }
}

async function stored({ owner }: Model): Promise<string[]> {
  const { rows } = await sql<{ line: string }>`
    SELECT whose || ' ' || of || ' ' || trim_scale(used) AS line FROM allowance_windows
    WHERE owner = ${owner}`.execute(database.db)
  return rows.map(({ line }) => line).toSorted()
}

it(
  'windows hold what was granted and not given back, whatever agents and the owner do',
  { timeout: 300_000 },
  async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.constantFrom('all' as const, 'lineage' as const),
        fc.integer({ min: 50, max: 300 }),
        fc.array(anyAct, { minLength: 20, maxLength: 60 }),
        async (among, max, acts) => {
          const model = await modelOf(among, max)
          for (const one of acts) {
            await act(model, one)
            expect(await stored(model)).toEqual(model.used())
          }
        },
      ),
      { numRuns: isLanding ? 8 : 40, endOnFailure: true },
    )
  },
)
