/**
 * What an organization's loss of reach ends, on a real Postgres: contract, "Grant (RPT) liveness"
 * (organization_revoked), "Single-use grant". No grant is touched: each carries the epochs that it was issued
 * under.
 */
import { subscribe, unsubscribe } from 'node:diagnostics_channel'
import { sql } from 'kysely'
import { describe, expect, it, onTestFinished } from 'vitest'
import { endMembershipAndReach } from '../../src/authority/organization/membership.ts'
import type { MemberView } from '../../src/rules/organization/member-view.ts'
import type { OrganizationEpochs } from '../../src/rules/organization/membership.ts'
import type { Tx } from '../../src/storage/authority/database.ts'
import { recordGrant } from '../../src/storage/authority/grants/issue.ts'
import { consumeGrant } from '../../src/storage/authority/grants/consume.ts'
import { readGrant } from '../../src/storage/authority/grants/read.ts'
import { appendLedger } from '../../src/storage/authority/ledger/ledger.ts'
import {
  endMembership,
  insertMembership,
  readMembership,
  updateMembership,
  writeReached,
} from '../../src/storage/authority/membership/membership.ts'
import {
  blockAgents,
  endAgent,
  type Acted,
} from '../../src/storage/authority/membership/organization-acts.ts'
import { lockQueue } from '../../src/storage/authority/owners/owners.ts'
import { inTransaction, STATEMENTS_CHANNEL, type SentStatement } from '../../src/storage/core/database.ts'
import type { Handle, Owner } from '../../src/wire/identifiers.ts'
import { holdConsumes } from '../support/held-consumes.ts'
import { lockWaiters } from '../support/lock-waiters.ts'
import { PATIENT } from '../support/postgres.ts'
import * as seed from '../support/seed.ts'
import { coreStand } from '../support/stands.ts'
import { until } from '../support/until.ts'
import { raceRounds } from '../support/layer.ts'

const ROUNDS = raceRounds(100)
const CALLERS = 32
const AT_ONCE = 3
const database = coreStand({ poolMax: 64, ...PATIENT })

const consume = (owner: Owner, rpt: Buffer) =>
  consumeGrant(database.calls, owner, { client_id: seed.CLIENT_ID }, rpt)
const ended = async (owner: Owner, rpt: Buffer) =>
  (await readGrant(database.calls, owner, seed.CLIENT_ID, rpt))?.grant?.organizationEnded
const inTx = <T>(owner: Owner, work: (tx: Tx) => Promise<T>) =>
  inTransaction(database.db, async tx => {
    await lockQueue(tx, owner)
    return work(tx)
  })
const shared = (owner: Owner) => [{ resource_id: seed.resourceId(owner), org: 'shared' as const }]
const joins = (owner: Owner) =>
  inTx(owner, async tx => {
    const view = { org: 'acme' } as MemberView
    const of = { issuer: 'https://org.example', join_id: seed.name('join_'), token: 'token' }
    await insertMembership(tx, owner, { ...of, view, administrators_may: [] })
    await writeReached(tx, owner, shared(owner))
  })
const OPERATOR = 'https://operator.example'

interface Owned {
  owner: Owner
  handle: Handle
  generation: number
  /** The one that agreements name. */
  operator: string | null
}

async function owned(operator: string | null = OPERATOR): Promise<Owned> {
  const owner = await seed.seedOwner(database.db, { ask_me: true })
  const handle = seed.name('jkt:') as Handle
  const generation = await seed.seedConnection(database.db, owner, handle)
  await sql`INSERT INTO operators (owner, origin) VALUES (${owner}, ${OPERATOR})`.execute(database.db)
  return { owner, handle, generation, operator }
}

const FIRST: OrganizationEpochs = { membership: 1, handle: 0, operator: 0 }

/** Records a grant under these epochs; undefined if it rests on nothing any more. */
async function issue(
  { owner, handle, generation, operator }: Owned,
  organization: OrganizationEpochs | undefined = FIRST,
): Promise<Buffer | undefined> {
  const rpt = seed.bytes()
  const row = seed.grantRow(owner, handle, generation, rpt)
  return (await recordGrant(database.db, { ...row, operator, organization }, [])) ? rpt : undefined
}

const BY = {
  by: 'administrator',
  actor: { kind: 'organization', org: 'acme', name: 'Acme', admin: 'ines' },
} as const

/** What an administrator acts under, once the agent, whom its operator attests, used what is governed. */
async function used(tx: Tx, { owner, handle }: Owned) {
  await appendLedger(tx, owner, { kind: 'promised', handle, about: seed.resourceId(owner) })
  await sql`INSERT INTO connection_operators (owner, handle, origin) VALUES (${owner}, ${handle}, ${OPERATOR})`.execute(
    tx,
  )
  const { join_id } = (await readMembership(tx, owner))!
  return { owner, membership: join_id, by: BY }
}

/** An act that was done to nobody proves nothing. */
const done = (acted: Acted | undefined) => expect(acted?.changed).toBe(true)

type Loss = [what: string, lose: (tx: Tx, of: Owned) => Promise<unknown>, operator?: string | null]
const blocks: Loss[1] = async (tx, of) => done(await blockAgents(tx, await used(tx, of), OPERATOR))

const LOSSES: Loss[] = [
  ['she leaves', (tx, { owner }) => endMembershipAndReach(tx, owner, { by: 'owner', actor: seed.ACTOR })],
  ['her group changes', (tx, { owner }) => updateMembership(tx, owner, { loses: true })],
  [
    'what it shared is shared no more',
    async (tx, { owner }) => {
      await updateMembership(tx, owner, { loses: true })
      await writeReached(tx, owner, [{ resource_id: seed.resourceId(owner), org: 'governed' }])
    },
  ],
  [
    'an administrator ends the agent',
    async (tx, of) => done(await endAgent(tx, await used(tx, of), of.handle)),
  ],
  ['an administrator blocks its operator', blocks],
  ['an administrator blocks an operator whom its agreement does not name', blocks, null],
]

describe('A grant on what an organization governs', () => {
  it.each(LOSSES)(
    'is organization_revoked once %s, cannot be spent, and is not revived',
    async (_, lose, operator) => {
      const of = await owned(operator)
      await joins(of.owner)
      const rpt = (await issue(of))!
      expect(await ended(of.owner, rpt)).toBe(false)
      await inTx(of.owner, tx => lose(tx, of))
      expect(await ended(of.owner, rpt)).toBe(true)
      expect(await consume(of.owner, rpt)).toBeUndefined()
      await inTx(of.owner, tx => endMembership(tx, of.owner))
      await joins(of.owner)
      expect(await ended(of.owner, rpt)).toBe(true)
      expect(await issue(of)).toBeUndefined()
    },
  )

  it('made before it was governed ends with the joining, and one made while it was hers is as before', async () => {
    const of = await owned()
    const rpt = await seed.seedGrant(database.db, of.owner, of.handle, of.generation)
    expect(await ended(of.owner, rpt)).toBe(false)
    await joins(of.owner)
    expect(await ended(of.owner, rpt)).toBe(true)
    expect(await consume(of.owner, rpt)).toBeUndefined()
    const own = { ...of, ...(await owned()) }
    const mine = await seed.seedGrant(database.db, own.owner, own.handle, own.generation)
    expect(await consume(own.owner, mine)).toBeDefined()
  })

  it('is spent if its agreement named an operator that nothing is known of, which counts as never acted on', async () => {
    const of = await owned()
    await sql`DELETE FROM operators WHERE owner = ${of.owner}`.execute(database.db)
    await joins(of.owner)
    const rpt = (await issue(of))!
    expect(await ended(of.owner, rpt)).toBe(false)
    expect(await consume(of.owner, rpt)).toBeDefined()
  })

  it('is not made as if the resource were hers alone, nor for one that is not shared', async () => {
    const of = await owned()
    await joins(of.owner)
    const { owner, handle, generation } = of
    await expect(seed.seedGrant(database.db, owner, handle, generation)).rejects.toThrow('rests on nothing')
    await inTx(owner, tx =>
      writeReached(tx, owner, [{ resource_id: seed.resourceId(owner), org: 'governed' }]),
    )
    expect(await issue(of)).toBeUndefined()
  })

  it.each(LOSSES)(
    'a consume that waits for its grant while %s wins before that returns, or not at all',
    async (_, lose, operator) => {
      const of = await owned(operator)
      await joins(of.owner)
      const rpt = (await issue(of))!
      const holder = await database.pool.connect()
      await holder.query('BEGIN')
      await holder.query('SELECT 1 FROM grants WHERE owner = $1 AND rpt_sha256 = $2 FOR UPDATE', [
        of.owner,
        rpt,
      ])
      const consumed = consume(of.owner, rpt)
      await until(async () => (await lockWaiters(database)) === 1)
      let returned = false
      const losing = inTx(of.owner, tx => lose(tx, of)).then(() => {
        returned = true
      })
      await until(async () => returned || (await lockWaiters(database)) === 2)
      const tooLate = returned
      await holder.query('COMMIT')
      holder.release()
      expect({ tooLate, won: (await consumed) !== undefined }).not.toEqual({ tooLate: true, won: true })
      await losing
    },
  )

  it.each(LOSSES)('and others that share its statement win before %s returns', async (_, lose, operator) => {
    const of = await owned(operator)
    await joins(of.owner)
    const rpts = await seed.callers(3, () => issue(of))
    const hold = await holdConsumes(database.url)
    onTestFinished(() => hold.release())
    const consumed = Promise.all(rpts.map(rpt => consume(of.owner, rpt!)))
    await until(async () => (await lockWaiters(database)) === 1)
    let returned = false
    const losing = inTx(of.owner, tx => lose(tx, of)).then(() => {
      returned = true
    })
    await until(async () => returned || (await lockWaiters(database)) === 2)
    expect(returned).toBe(false)
    await hold.release()
    expect((await consumed).filter(family => family !== undefined)).toHaveLength(rpts.length)
    await losing
  })

  it.each(LOSSES)('once %s, no consume wins and no grant is issued: %#', async (_, lose, operator) => {
    await seed.inRounds(ROUNDS, AT_ONCE, async () => {
      const of = await owned(operator)
      await joins(of.owner)
      const rpt = (await issue(of))!
      let isLost = false
      const late: boolean[] = []
      const consumers = seed.callers(CALLERS, async () => {
        const before = isLost
        const won = (await consume(of.owner, rpt)) !== undefined
        late.push(won && before)
        return won
      })
      const issued = seed.callers(CALLERS, () => issue(of))
      await inTx(of.owner, tx => lose(tx, of)).then(() => {
        isLost = true
      })
      expect(await consume(of.owner, rpt)).toBeUndefined()
      expect((await consumers).filter(Boolean).length).toBeLessThanOrEqual(1)
      expect(late).not.toContain(true)
      for (const one of (await issued).filter(found => found !== undefined))
        expect(await ended(of.owner, one)).toBe(true)
    })
  })
})

describe('A call of an owner without a membership', () => {
  it('is one statement each, which looks at no membership and at no operator', async () => {
    const of = await owned()
    const rpt = await seed.seedGrant(database.db, of.owner, of.handle, of.generation)
    const sent: SentStatement[] = []
    const hear = (statement: unknown): void => void sent.push(statement as SentStatement)
    subscribe(STATEMENTS_CHANNEL, hear)
    await readGrant(database.calls, of.owner, seed.CLIENT_ID, rpt)
    await consume(of.owner, rpt)
    unsubscribe(STATEMENTS_CHANNEL, hear)
    expect(sent).toHaveLength(2)
    for (const { text, values } of sent) {
      const { rows } = await database.pool.query<{ 'QUERY PLAN': unknown }>(
        `EXPLAIN (ANALYZE, FORMAT JSON) ${text}`,
        [...values],
      )
      const looked = nodesOf(rows[0]!['QUERY PLAN']).filter(node => Number(node['Actual Loops']) > 0)
      const tables = looked.flatMap(node => node['Relation Name'] ?? [])
      expect(tables).toContain('grants')
      expect(tables).not.toContain('memberships')
      expect(tables).not.toContain('operators')
    }
  })
})

type PlanNode = Record<string, unknown>

/** Every node of a plan, as EXPLAIN writes it. */
function nodesOf(plan: unknown): PlanNode[] {
  if (Array.isArray(plan)) return plan.flatMap(nodesOf)
  if (plan === null || typeof plan !== 'object') return []
  const own = 'Node Type' in plan ? [plan as PlanNode] : []
  return [...own, ...Object.values(plan).flatMap(nodesOf)]
}
