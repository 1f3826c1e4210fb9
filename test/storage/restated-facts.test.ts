/**
 * What a grant rests on is carried into the statement that writes it: a change that returned before the
 * statement began wins, without a lock. Contract: "What the service does" (row 9), "Policy vocabulary and
 * tiers".
 */
import { sql } from 'kysely'
import { describe, expect, it } from 'vitest'
import { sameFactsOf, type FactRecord } from '../../src/rules/grant.ts'
import { grantEnd } from '../../src/rules/grant-end.ts'
import { blockOperator, revokeConnection } from '../../src/storage/authority/connections/connections.ts'
import { inTransaction } from '../../src/storage/core/database.ts'
import type { Tx } from '../../src/storage/authority/database.ts'
import { consumeGrant } from '../../src/storage/authority/grants/consume.ts'
import { recordGrant, type NewGrant } from '../../src/storage/authority/grants/issue.ts'
import { readGrant } from '../../src/storage/authority/grants/read.ts'
import { lockQueue } from '../../src/storage/authority/owners/owners.ts'
import { decideResourceServer } from '../../src/storage/authority/registry/registrations.ts'
import { deleteTier, insertTier, updateTier } from '../../src/storage/authority/policies/tiers.ts'
import { readFamily } from '../../src/storage/authority/negotiations/tickets.ts'
import * as seed from '../support/seed.ts'
import { asClientId, type Owner } from '../../src/wire/identifiers.ts'
import { coreStand } from '../support/stands.ts'

const database = coreStand()

const inTx = <T>(work: (tx: Tx) => Promise<T>) => inTransaction(database.db, work)
const OPERATOR = 'https://operator.example'
const resource = (tx: Tx, owner: Owner) => tx.updateTable('resources').where('owner', '=', owner)

async function judged(): Promise<{ owner: Owner; grant: NewGrant }> {
  const owner = await seed.seedOwner(database.db)
  const handle = seed.name('jkt:')
  const generation = await seed.seedConnection(database.db, owner, handle)
  const row = seed.grantRow(owner, handle, generation, seed.bytes())
  const family = await seed.seedFamily(database.db, owner, null)
  return { owner, grant: { ...row, family, operator: OPERATOR } }
}
const write = (grant: NewGrant) => recordGrant(database.db, grant, [{ kind: 'promised', data: {} }])

type Change = [what: string, change: (tx: Tx, owner: Owner, grant: NewGrant) => Promise<unknown>]
const CHANGES: Change[] = [
  ['the tier was edited', (tx, owner) => updateTier(tx, seed.tierOf(owner, false), undefined)],
  ['the tier was deleted', (tx, owner) => deleteTier(tx, owner, seed.TIER, undefined)],
  [
    'the tier was deleted and made again',
    async (tx, owner) => {
      await deleteTier(tx, owner, seed.TIER, undefined)
      await insertTier(tx, seed.tierOf(owner, false))
    },
  ],
  [
    'the resource was taken out of it',
    (tx, owner) => tx.deleteFrom('tier_resources').where('owner', '=', owner).execute(),
  ],
  [
    'the resource server was withdrawn',
    async (tx, owner) => {
      await lockQueue(tx, owner)
      await decideResourceServer(tx, owner, seed.CLIENT_ID, 'revoked')
    },
  ],
  [
    'the resource server was withdrawn and approved again',
    async (tx, owner) => {
      await lockQueue(tx, owner)
      await decideResourceServer(tx, owner, seed.CLIENT_ID, 'revoked')
      await decideResourceServer(tx, owner, seed.CLIENT_ID, 'active')
    },
  ],
  [
    'the resource lost a scope',
    (tx, owner) =>
      resource(tx, owner)
        .set({ resource_scopes: ['write'] })
        .execute(),
  ],
  [
    'the resource was declared graver',
    (tx, owner) => resource(tx, owner).set({ consequence: 'irreversible' }).execute(),
  ],
  [
    'one of its tools was declared graver',
    (tx, owner) =>
      resource(tx, owner)
        .set({ tools: JSON.stringify({ read: 'irreversible' }) })
        .execute(),
  ],
  [
    'the resource changed hands',
    (tx, owner) =>
      resource(tx, owner)
        .set({ client_id: asClientId('another') })
        .execute(),
  ],
  ['the operator that it names was blocked', (tx, owner) => blockOperator(tx, owner, OPERATOR, seed.ACTOR)],
  ['the connection was revoked', (tx, owner, { handle }) => revokeConnection(tx, owner, handle, seed.ACTOR)],
]

const TABLES: Record<FactRecord, string> = {
  connection: 'connections',
  server: 'resource_servers',
  resource: 'resources',
  tier: 'tiers',
}
const FACTS = (Object.keys(TABLES) as FactRecord[]).flatMap(of => sameFactsOf(of))
const FOR_LIFE = FACTS.filter(([, fact]) => fact.forLife)
const OTHER_VALUE = { text: '$ || 1', int: '$ + 1', boolean: 'NOT $' }
/** This fact has another value, and nothing else changes. */
const anotherValue = ([, { of, column, type }]: (typeof FACTS)[number]): Change[1] => {
  const value = sql.raw(OTHER_VALUE[type].replace('$', column))
  return (tx, owner) =>
    sql`UPDATE ${sql.table(TABLES[of])} SET ${sql.ref(column)} = ${value} WHERE owner = ${owner}`.execute(tx)
}
const OTHERWISE = FACTS.map(fact => [`${fact[0]} is another`, anotherValue(fact)] satisfies Change)

describe('A grant whose facts were read before', () => {
  it('is written while all of them stand', async () => {
    const { owner, grant } = await judged()
    expect(await write(grant)).toBe(true)
    expect((await readFamily(database.db, owner, grant.family))?.state).toBe('granted')
    const told = database.db.selectFrom('ledger').select('kind').where('owner', '=', owner)
    expect(await told.execute()).toEqual([{ kind: 'promised' }])
  })

  it.each([...CHANGES, ...OTHERWISE])('is not written where %s, nor is anything else', async (_, change) => {
    const { owner, grant } = await judged()
    await inTx(tx => change(tx, owner, grant))
    expect(await write(grant)).toBe(false)
    expect((await readGrant(database.calls, owner, seed.CLIENT_ID, grant.rptSha256))?.grant).toBeUndefined()
    expect((await readFamily(database.db, owner, grant.family))?.state).toBe('need_info')
    const told = database.db.selectFrom('ledger').select('kind').where('owner', '=', owner)
    expect(await told.where('kind', '=', 'promised').execute()).toEqual([])
  })

  it('is judged by itself: of those written in one statement the others are made', async () => {
    const { owner, grant } = await judged()
    const like = (version: number): NewGrant => ({
      ...grant,
      rptSha256: seed.bytes(),
      jti: seed.name('rpt_'),
      family: seed.name('fam_'),
      tier_version: version,
    })
    await inTx(tx => updateTier(tx, seed.tierOf(owner, false), undefined))
    expect(await Promise.all([1, 2, 1, 2].map(version => write(like(version))))).toEqual([
      false,
      true,
      false,
      true,
    ])
  })
})

describe('A grant that was made', () => {
  it('rests for life on the epoch of its tier, at least', () => {
    expect(FOR_LIFE.map(([member]) => member)).toContain('tier_epoch')
  })

  it.each(FOR_LIFE)('is revoked, and not spent, once its %s is another', async (...fact) => {
    const { owner, grant } = await judged()
    await write(grant)
    const end = async () => {
      const read = await readGrant(database.calls, owner, seed.CLIENT_ID, grant.rptSha256)
      return read?.grant && grantEnd(read.grant)
    }
    expect(await end()).toBeNull()
    await inTx(tx => anotherValue(fact)(tx, owner, grant))
    expect(await end()).toBe('revoked')
    const holder = { client_id: seed.CLIENT_ID }
    expect(await consumeGrant(database.calls, owner, holder, grant.rptSha256)).toBeUndefined()
  })
})
