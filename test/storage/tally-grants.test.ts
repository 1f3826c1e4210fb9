/**
 * What a tally's grant rests on is proved in the transaction that writes it: contract, "Tally for a jointly
 * held resource", "Grant (RPT) liveness".
 */
import { sql } from 'kysely'
import { afterEach, describe, expect, test } from 'vitest'
import { putRegistered, type AccountRegistry } from '../../src/storage/tally/accounts.ts'
import { readNegotiation } from '../../src/storage/tally/negotiations.ts'
import { inTransaction } from '../../src/storage/core/database.ts'
import { asClientId } from '../../src/wire/identifiers.ts'
import { startedOnce } from '../support/started.ts'
import { ACCOUNT, approved, granted, REGISTERED, RESOURCE, tallyDatabase } from '../support/tally-database.ts'

const database = startedOnce(tallyDatabase)
const register = (changes: Partial<AccountRegistry>) =>
  inTransaction(database.db, tx => putRegistered(tx, ACCOUNT, { ...REGISTERED, ...changes }))
afterEach(() => register({}))

const [server] = REGISTERED.resource_servers
const OTHER = { ...server!, client_id: asClientId('rs_other'), resource_uri: 'https://other.example/mcp' }
const CHANGES: [string, Partial<AccountRegistry>][] = [
  ['the resource is registered no more', { resources: [] }],
  [
    'the resource is of another resource server',
    {
      resource_servers: [server!, OTHER],
      resources: REGISTERED.resources.map(one => ({ ...one, client_id: OTHER.client_id })),
    },
  ],
  ['the resource server is there no more', { resource_servers: [OTHER] }],
  [
    'the resource server is at another address',
    { resource_servers: [{ ...server!, resource_uri: OTHER.resource_uri }] },
  ],
]

describe('A grant of a tally is not made, and nothing is written, where meanwhile', () => {
  test.each(CHANGES)('%s', async (_what, changes) => {
    const family = await approved(database)
    await register(changes)
    expect((await granted(database, family)).outcome).toBe('moved')
    const kept = await sql`
      SELECT FROM grants WHERE account = ${ACCOUNT} AND family = ${family}`.execute(database.db)
    expect(kept.rows).toEqual([])
    expect((await readNegotiation(database.db, ACCOUNT, family))?.state).toBe('awaiting_holders')
  })
})

test('A grant of a tally is made if the same is registered again', async () => {
  const family = await approved(database)
  await register({ resources: REGISTERED.resources.map(one => ({ ...one, name: 'Another name' })) })
  expect([RESOURCE, (await granted(database, family)).outcome]).toEqual([RESOURCE, 'granted'])
})
