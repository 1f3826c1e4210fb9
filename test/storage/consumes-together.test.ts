/**
 * Single-use grants that are spent at the same time share a statement: each is decided as it would be alone.
 * Contract: "Single-use grant", "Grant (RPT) liveness".
 */
import { subscribe, unsubscribe } from 'node:diagnostics_channel'
import { sql } from 'kysely'
import { Client } from 'pg'
import { describe, expect, it, onTestFinished } from 'vitest'
import type { MemberView } from '../../src/rules/organization/member-view.ts'
import type { OrganizationEpochs } from '../../src/rules/organization/membership.ts'
import {
  blockOperator,
  lockOperator,
  revokeConnection,
} from '../../src/storage/authority/connections/connections.ts'
import { openDatabase, type Tx } from '../../src/storage/authority/database.ts'
import { recordGrant, type NewGrant } from '../../src/storage/authority/grants/issue.ts'
import { consumeGrant } from '../../src/storage/authority/grants/consume.ts'
import { readGrant } from '../../src/storage/authority/grants/read.ts'
import { insertMembership, writeReached } from '../../src/storage/authority/membership/membership.ts'
import { lockQueue } from '../../src/storage/authority/owners/owners.ts'
import { decideResourceServer } from '../../src/storage/authority/registry/registrations.ts'
import { insertResourceServer } from '../../src/storage/authority/registry/resources.ts'
import { deleteTier, insertTier, takeOut } from '../../src/storage/authority/policies/tiers.ts'
import {
  inTransaction,
  isOutage,
  STATEMENTS_CHANNEL,
  type SentStatement,
} from '../../src/storage/core/database.ts'
import { asClientId, type ClientId, type Handle, type Owner } from '../../src/wire/identifiers.ts'
import { lockWaiters } from '../support/lock-waiters.ts'
import { freshDatabase, PATIENT } from '../support/postgres.ts'
import * as seed from '../support/seed.ts'
import { coreStand } from '../support/stands.ts'
import { until } from '../support/until.ts'

const database = coreStand(PATIENT)

const inTx = <T>(owner: Owner, work: (tx: Tx) => Promise<T>) =>
  inTransaction(database.db, async tx => {
    await lockQueue(tx, owner)
    return work(tx)
  })
type Spender = { client_id: ClientId; generation?: number }
const consume = (owner: Owner, rpt: Buffer, by: Spender = { client_id: seed.CLIENT_ID }, at = database) =>
  consumeGrant(at.calls, owner, by, rpt)

type Granted = { handle: Handle; rpt: Buffer }

/** A single-use grant on a connection of its own; on another resource where one is named. */
async function granted(
  owner: Owner,
  of: {
    on?: { client_id?: ClientId; name: string }
    operator?: string
    organization?: OrganizationEpochs
    grant?: Partial<NewGrant>
  } = {},
): Promise<Granted> {
  const handle = seed.name('jkt:')
  const { operator = null, organization } = of
  const known = operator === null || operator === UNKNOWN ? {} : { operator }
  if (known.operator !== undefined) await inTx(owner, tx => lockOperator(tx, owner, known.operator))
  const generation = await seed.seedConnection(database.db, owner, handle, known)
  const rpt = seed.bytes()
  const row = seed.grantRow(owner, handle, generation, rpt)
  const governed =
    of.on === undefined ? {} : await seed.govern(database.db, owner, { client_id: seed.CLIENT_ID, ...of.on })
  const grant = { ...row, ...governed, ...of.grant, operator, organization }
  if (!(await recordGrant(database.db, grant, []))) throw new Error('it rests on nothing')
  return { handle, rpt }
}

/** The statements that spend grants while `work` runs, each with how many grants it is about. */
async function statementsOf<T>(
  work: () => Promise<T>,
): Promise<{ done: T; asked: number[]; texts: string[] }> {
  const sent: SentStatement[] = []
  const hear = (statement: unknown): void => void sent.push(statement as SentStatement)
  subscribe(STATEMENTS_CHANNEL, hear)
  try {
    const done = await work()
    const spending = sent.filter(({ text }) => /UPDATE grants g SET consumed_at/.test(text))
    return {
      done,
      asked: spending.map(({ values }) => (values[1] as Buffer[]).length),
      texts: spending.map(({ text }) => text),
    }
  } finally {
    unsubscribe(STATEMENTS_CHANNEL, hear)
  }
}

type Asked = Parameters<typeof consume>[2]
type Case = [what: string, wins: boolean, rpt: Buffer, by?: Asked]

const WITHDRAWN = asClientId('withdrawn-server')
const [BLOCKED, ACTED_ON] = ['https://blocked.example', 'https://acted-on.example']
/** Nothing is recorded of it. */
const UNKNOWN = 'https://unknown.example'

/** An owner with grants of every kind, and what ends some of them has happened. */
async function manyKinds(): Promise<{ owner: Owner; cases: Case[] }> {
  const owner = await seed.seedOwner(database.db, { ask_me: true })
  const server = {
    owner,
    client_id: WITHDRAWN,
    name: 'Other tools',
    resource_uri: `https://other.example/${owner}`,
    status: 'active' as const,
    auth: 'secret' as const,
    secret_sha256: seed.bytes(),
  }
  await inTx(owner, tx => insertResourceServer(tx, server))
  const live = await Promise.all(Array.from({ length: 5 }, () => granted(owner)))
  const spent = await granted(owner)
  const revoked = await granted(owner)
  const readmitted = await granted(owner)
  const blocked = await granted(owner, { operator: BLOCKED })
  const standing = await granted(owner, { grant: { single_use: false } })
  const expired = await granted(owner, { grant: { expiresAt: Math.floor(Date.now() / 1000) - 1 } })
  const withdrawn = await granted(owner, { on: { client_id: WITHDRAWN, name: 'of-another' } })
  const untiered = await granted(owner, { on: { name: 'tier-deleted' } })
  const madeAnew = await granted(owner, { on: { name: 'tier-made-anew' } })
  const takenOut = await granted(owner, { on: { name: 'taken-out' } })
  const governedSince = await granted(owner, { on: { name: 'governed-since' } })

  await seed.govern(database.db, owner, { client_id: seed.CLIENT_ID, name: 'shared' })
  await inTx(owner, async tx => {
    const view = { org: 'acme' } as MemberView
    const of = { issuer: 'https://org.example', join_id: seed.name('join_'), token: 'token' }
    await insertMembership(tx, owner, { ...of, view, administrators_may: [] })
    const org = 'shared' as const
    await writeReached(tx, owner, [
      { resource_id: `${owner}/governed-since`, org },
      { resource_id: `${owner}/shared`, org },
    ])
  })
  const onShared = {
    organization: { membership: 1, handle: 0, operator: 0 },
    grant: { resource_id: `${owner}/shared`, tier_id: 'shared' },
  }
  const shared = await granted(owner, onShared)
  const ofOperator = await granted(owner, { ...onShared, operator: 'https://operator.example' })
  const ofUnknown = await granted(owner, { ...onShared, operator: UNKNOWN })
  const agentActedOn = await granted(owner, onShared)
  const operatorActedOn = await granted(owner, { ...onShared, operator: ACTED_ON })
  const ofEarlierMembership = await granted(owner, onShared)

  await consume(owner, spent.rpt)
  await inTx(owner, async tx => {
    await revokeConnection(tx, owner, revoked.handle, seed.ACTOR)
    await revokeConnection(tx, owner, readmitted.handle, seed.ACTOR)
    await blockOperator(tx, owner, BLOCKED, seed.ACTOR)
    await decideResourceServer(tx, owner, WITHDRAWN, 'revoked')
    await deleteTier(tx, owner, 'tier-deleted', undefined)
    await deleteTier(tx, owner, 'tier-made-anew', undefined)
    const anew = { ...seed.tierOf(owner, true), tier_id: 'tier-made-anew' }
    await insertTier(tx, { ...anew, resources: [`${owner}/tier-made-anew`] })
    await takeOut(tx, owner, { resource_ids: [`${owner}/taken-out`] })
    await sql`UPDATE connections SET org_epoch = 1
      WHERE owner = ${owner} AND handle = ${agentActedOn.handle}`.execute(tx)
    await sql`UPDATE operators SET org_epoch = 1 WHERE owner = ${owner} AND origin = ${ACTED_ON}`.execute(tx)
    await sql`UPDATE grants SET org_epoch = 0
      WHERE owner = ${owner} AND rpt_sha256 = ${ofEarlierMembership.rpt}`.execute(tx)
  })
  await seed.seedConnection(database.db, owner, readmitted.handle)

  const by = seed.CLIENT_ID
  const cases: Case[] = [
    ['one that is live', true, live[0]!.rpt],
    ['by the generation of its server', true, live[1]!.rpt, { client_id: by, generation: 1 }],
    ['by an earlier generation of its server', false, live[2]!.rpt, { client_id: by, generation: 2 }],
    ['by another server', false, live[3]!.rpt, { client_id: WITHDRAWN }],
    ['by an unknown server', false, live[4]!.rpt, { client_id: asClientId('nobody') }],
    ['one that was never made', false, seed.bytes()],
    ['a spent one', false, spent.rpt],
    ['a standing one', false, standing.rpt],
    ['an expired one', false, expired.rpt],
    ['one of a revoked connection', false, revoked.rpt],
    ['one from before its agent was let in again', false, readmitted.rpt],
    ['one of a blocked operator', false, blocked.rpt],
    ['one of a withdrawn server', false, withdrawn.rpt, { client_id: WITHDRAWN }],
    ['one whose tier was deleted', false, untiered.rpt],
    ['one whose tier was made anew', false, madeAnew.rpt],
    ['one whose resource was taken out', false, takenOut.rpt],
    ['one whose resource an organization governs since', false, governedSince.rpt],
    ['one on what is shared', true, shared.rpt],
    ['one on what is shared, of an operator that nothing was done to', true, ofOperator.rpt],
    ['one on what is shared, of an operator that nothing is known of', true, ofUnknown.rpt],
    ['one of an agent that the organization acted on', false, agentActedOn.rpt],
    ['one of an operator that the organization acted on', false, operatorActedOn.rpt],
    ['one of an earlier membership', false, ofEarlierMembership.rpt],
  ]
  return { owner, cases }
}

describe('Grants spent at the same time', () => {
  it('are one statement, and each is decided as it is alone', async () => {
    const wanted: Record<string, boolean> = {}
    const alone: Record<string, boolean> = {}
    const first = await manyKinds()
    for (const [what, wins, rpt, by] of first.cases) {
      wanted[what] = wins
      alone[what] = (await consume(first.owner, rpt, by)) !== undefined
    }
    expect(alone).toEqual(wanted)
    const { owner, cases } = await manyKinds()
    const { done, asked } = await statementsOf(() =>
      Promise.all(cases.map(([, , rpt, by]) => consume(owner, rpt, by))),
    )
    expect(Object.fromEntries(cases.map(([what], n) => [what, done[n] !== undefined]))).toEqual(wanted)
    // Those that it has not spent are asked about once more, each by itself.
    const lost = cases.filter(([, wins]) => !wins)
    expect(asked).toEqual([cases.length, ...lost.map(() => 1)])
    for (const [n, [, wins, rpt]] of cases.entries())
      if (wins) {
        const { grant } = (await readGrant(database.calls, owner, seed.CLIENT_ID, rpt))!
        expect([grant?.family, grant?.consumed]).toEqual([done[n]!.family, true])
      }
  })

  it('of one grant are won by one alone, which is told so', async () => {
    const owner = await seed.seedOwner(database.db, { ask_me: true })
    const rpts = (await seed.callers(4, () => granted(owner))).map(({ rpt }) => rpt)
    const { done, asked } = await statementsOf(() =>
      Promise.all([...rpts, ...rpts, ...rpts].map(rpt => consume(owner, rpt))),
    )
    expect(asked[0]).toBe(12)
    for (const n of rpts.keys())
      expect([done[n], done[n + 4], done[n + 8]].filter(family => family !== undefined)).toHaveLength(1)
  })

  it('of two owners are each of her own', async () => {
    const owners = await seed.callers(2, () => seed.seedOwner(database.db, { ask_me: true }))
    const [hers, his] = await Promise.all(owners.map(owner => granted(owner)))
    const [alice, bob] = owners as [Owner, Owner]
    const done = await Promise.all([
      consume(bob, hers!.rpt),
      consume(alice, his!.rpt),
      consume(alice, hers!.rpt),
      consume(bob, his!.rpt),
    ])
    expect(done.map(family => family !== undefined)).toEqual([false, false, true, true])
  })

  it('do not fail for one among them that Postgres refuses', async () => {
    const owner = await seed.seedOwner(database.db, { ask_me: true })
    const grants = await seed.callers(3, () => granted(owner))
    const outcomes = await Promise.allSettled([
      consume(owner, grants[0]!.rpt),
      consume(owner, grants[1]!.rpt, { client_id: asClientId('\u0000') }),
      consume(owner, grants[2]!.rpt),
    ])
    expect(outcomes.map(({ status }) => status)).toEqual(['fulfilled', 'rejected', 'fulfilled'])
    expect(outcomes.map(one => one.status === 'fulfilled' && one.value !== undefined)).toEqual([
      true,
      false,
      true,
    ])
    expect(await consume(owner, grants[1]!.rpt)).toBeDefined()
  })
})

/** Holds the row of a connection, as what ends it does; `end` ends it, and `leave` leaves it as it was. */
async function holding(owner: Owner, handle: Handle) {
  const holder = await database.pool.connect()
  let isDone = false
  const done = async (text: string): Promise<void> => {
    if (isDone) return
    isDone = true
    await holder.query(text)
    holder.release()
  }
  onTestFinished(() => done('ROLLBACK'))
  await holder.query('BEGIN')
  await holder.query('SELECT FROM connections WHERE owner = $1 AND handle = $2 FOR UPDATE', [owner, handle])
  const end = async (): Promise<void> => {
    await holder.query(
      `UPDATE connections SET status = 'revoked', generation = generation + 1 WHERE owner = $1 AND handle = $2`,
      [owner, handle],
    )
    await done('COMMIT')
  }
  return { end, leave: () => done('ROLLBACK') }
}

describe('A grant whose connection somebody holds', () => {
  it.each([
    ['is spent once it is let go', 'leave'],
    ['is not spent if it has ended', 'end'],
  ] as const)('keeps no other one waiting, and %s', async (_, how) => {
    const owner = await seed.seedOwner(database.db, { ask_me: true })
    const [slow, ...others] = await seed.callers(6, () => granted(owner))
    const holder = await holding(owner, slow!.handle)
    let isTold = false
    const held = consume(owner, slow!.rpt).finally(() => (isTold = true))
    const done = await Promise.all(others.map(({ rpt }) => consume(owner, rpt)))
    expect(done.every(family => family !== undefined)).toBe(true)
    // Told before it could be known, it is let go all the same: what holds the row would hold the test's end.
    await until(async () => isTold || (await lockWaiters(database)) === 1)
    await holder[how]()
    expect((await held) !== undefined).toBe(how === 'leave')
  })

  it('is an outage after the time for that, is not spent, and fails no other', async () => {
    const impatient = openDatabase({ url: database.url, poolMax: 4, lockTimeoutMs: 50 })
    onTestFinished(() => impatient.close())
    const owner = await seed.seedOwner(database.db, { ask_me: true })
    const [slow, other] = await seed.callers(2, () => granted(owner))
    const holder = await holding(owner, slow!.handle)
    const at = { client_id: seed.CLIENT_ID }
    const outcomes = await Promise.allSettled(
      [slow!, other!].map(({ rpt }) => consume(owner, rpt, at, impatient)),
    )
    expect(outcomes.map(({ status }) => status)).toEqual(['rejected', 'fulfilled'])
    expect(outcomes[0]!.status === 'rejected' && isOutage(outcomes[0]!.reason)).toBe(true)
    await holder.leave()
    expect(await consume(owner, slow!.rpt)).toBeDefined()
  })

  it('is judged by the time at which it was let go', async () => {
    const owner = await seed.seedOwner(database.db, { ask_me: true })
    const expiresAt = Math.ceil(Date.now() / 1000) + 1
    const { handle, rpt } = await granted(owner, { grant: { expiresAt } })
    const holder = await holding(owner, handle)
    let isTold = false
    const held = consume(owner, rpt).finally(() => (isTold = true))
    // If it expired before a busy machine came as far as the lock, it is told at once.
    await until(async () => isTold || (await lockWaiters(database)) === 1)
    await until(async () => (await readGrant(database.calls, owner, seed.CLIENT_ID, rpt))!.grant!.expired)
    await holder.leave()
    expect(await held).toBeUndefined()
  })
})

describe('A statement that spends several grants', () => {
  it('and is lost is an outage of all of them, and none is sent again', async () => {
    const away = await freshDatabase()
    const admin = new Client({ connectionString: away.url })
    onTestFinished(async () => {
      await admin.end()
      await away.close()
    })
    await admin.connect()
    const owner = await seed.seedOwner(away.db, { ask_me: true })
    const handle = seed.name('jkt:')
    const generation = await seed.seedConnection(away.db, owner, handle)
    const rpts = await seed.callers(3, () => seed.seedGrant(away.db, owner, handle, generation))
    await admin.query(`
      CREATE FUNCTION lose() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$ BEGIN
        PERFORM pg_terminate_backend(pg_backend_pid()); RETURN NULL; END $$;
      CREATE TRIGGER lose AFTER UPDATE ON grants FOR EACH STATEMENT EXECUTE FUNCTION lose()`)
    const at = { client_id: seed.CLIENT_ID }
    const { done, asked } = await statementsOf(() =>
      Promise.allSettled(rpts.map(rpt => consume(owner, rpt, at, away))),
    )
    expect(done.map(one => one.status === 'rejected' && isOutage(one.reason))).toEqual([true, true, true])
    expect(asked).toEqual([3])
    await admin.query('DROP TRIGGER lose ON grants')
    const again = await Promise.all(rpts.map(rpt => consume(owner, rpt, at, away)))
    expect(again.every(family => family !== undefined)).toBe(true)
  })

  it('finds every row by its key, also by a plan that is used again', async () => {
    const owner = await seed.seedOwner(database.db, { ask_me: true })
    const grants = await seed.callers(20, () => granted(owner))
    const { texts } = await statementsOf(() => consume(owner, seed.bytes()))
    expect(texts).toHaveLength(2)
    const admin = new Client({ connectionString: database.url })
    onTestFinished(() => admin.end())
    await admin.connect()
    const columns = (of: string) => `'${owner}', 'x' || n, ${of}`
    await admin.query(`
      INSERT INTO connections (owner, handle, status, identity)
      SELECT '${owner}', 'x' || n, 'active', 'pseudonymous' FROM generate_series(1, 5000) n;
      INSERT INTO grants (owner, jti, family, rpt_sha256, handle, generation, client_id, aud, resource_id, tier_id,
        tier_epoch, single_use, claims, expires_at)
      SELECT ${columns("'x', sha256(convert_to('x' || n, 'UTF8')), 'x' || n, 1, 'x', 'x', 'x', 'x', 1, true, '{}'")},
        now() + interval '1 hour' FROM generate_series(1, 5000) n;
      ANALYZE grants, connections`)
    await admin.query(`SET plan_cache_mode = 'force_generic_plan'`)
    for (const [n, text] of texts.entries()) {
      await admin.query(`PREPARE spending_${n} (text, bytea[], text[], int[]) AS ${text}`)
      const rpts = grants.map(({ rpt }) => `'\\x${rpt.toString('hex')}'::bytea`).join(', ')
      const { rows } = await admin.query<{ 'QUERY PLAN': string }>(`
        EXPLAIN (ANALYZE) EXECUTE spending_${n} ('${owner}', ARRAY[${rpts}],
          array_fill('${seed.CLIENT_ID}'::text, ARRAY[20]), array_fill(NULL::int, ARRAY[20]))`)
      const plan = rows.map(row => row['QUERY PLAN']).join('\n')
      expect(plan.match(/Index Scan using grants_pkey/g)).toHaveLength(2)
      expect(plan).toContain('Index Scan using connections_pkey')
      expect(plan).not.toMatch(/(?:Seq|Bitmap Heap|Bitmap Index) Scan on (?:grants|connections)/)
      expect(plan).not.toMatch(/Scan using (?:grants|connections)_(?!pkey)/)
    }
  })
})
