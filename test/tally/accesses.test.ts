/**
 * Contract, "Tally for a jointly held resource": the calls on a jointly held account, which only its holders
 * can read; and what a started tally removes by itself.
 */
import { Client } from 'pg'
import { describe, expect, test } from 'vitest'
import { signJws } from '../../src/wire/signatures/jws.ts'
import { parseJointAccesses } from '../../src/wire/documents/joint-accesses.ts'
import { signAccessesRequest } from '../../src/wire/joint/joint-accesses.ts'
import { TYP } from '../../src/wire/names.ts'
import { TALLY } from '../support/joint.ts'
import { startJointStand } from '../support/joint-stand.ts'
import { startedForEach } from '../support/started.ts'
import { startTestTally } from '../support/tally.ts'
import { until } from '../support/until.ts'

const stand = startedForEach(() => startJointStand())
type Holder = (typeof stand)['holders'][number]

const claimsOf = (holder: Holder, owner: string, changes: object = {}) => {
  const iat = Math.floor(Date.now() / 1_000)
  const claims = { iss: holder.issuer, aud: TALLY, holder: owner, account: 'family-1', iat, exp: iat + 60 }
  return { ...claims, ...changes } as Parameters<typeof signAccessesRequest>[0]
}
const read = (token: string | undefined, target = '/joint/accesses/family-1') =>
  stand.tally.request(target, token === undefined ? {} : { headers: { authorization: `Bearer ${token}` } })
const readAs = (holder: Holder, owner: string, changes: object = {}) =>
  read(signAccessesRequest(claimsOf(holder, owner, changes), holder.key))

async function reported(...tools: string[]): Promise<void> {
  const granted = await stand.ask()
  const { family } = (await stand.protection('/introspect', { token: granted.body.access_token })).body
  const entries = tools.map(tool => ({ id: `call-${tool}`, family, tool, summary: `read by ${tool}` }))
  // Told twice in one batch it is one call, and so is one that was told before.
  const told = [...entries, entries[0], { id: 'foreign', family: 'fam_foreign', tool: 'read' }]
  const { body } = await stand.protection('/audit/access', { entries: told })
  expect(body).toMatchObject({ recorded: tools.length, unknown: ['foreign'] })
}

describe('Calls of what is held jointly', () => {
  test('are read by each of its holders, the newest first, and say which agent made them', async () => {
    await reported('first', 'second')
    const [one, two] = stand.holders
    const { status, body, headers } = await readAs(one, 'bea')
    expect([status, headers.get('cache-control')]).toEqual([200, 'no-store'])
    const { accesses, next } = parseJointAccesses(body)
    expect([accesses.map(({ tool }) => tool), next]).toEqual([['second', 'first'], null])
    expect(accesses[0]).toMatchObject({
      n: 2,
      client_id: 'family-tools',
      resource_id: 'family-1/savings',
      agent: `jkt:${stand.agent.thumbprint}`,
      summary: 'read by second',
    })
    expect((await readAs(two, 'dora')).body).toEqual(body)
  })

  test('are read page by page', async () => {
    await reported('a', 'b', 'c')
    const [holder] = stand.holders
    const token = signAccessesRequest(claimsOf(holder, 'bea'), holder.key)
    const first = parseJointAccesses((await read(token, '/joint/accesses/family-1?limit=2')).body)
    expect([first.accesses.map(({ tool }) => tool), first.next]).toEqual([['c', 'b'], 2])
    const rest = await read(token, `/joint/accesses/family-1?limit=2&before=${first.next}`)
    expect(parseJointAccesses(rest.body)).toMatchObject({ accesses: [{ tool: 'a' }], next: null })
  })

  test('are told to nobody else: 401, and of no account that is not counted for: 404', async () => {
    await reported('first')
    const [one, two] = stand.holders
    const refused = async (given: Promise<{ status: number; body: object }>) => {
      const { status, body } = await given
      expect(body).not.toHaveProperty('accesses')
      return status
    }
    expect(await refused(read(undefined))).toBe(401)
    expect(await refused(read('junk'))).toBe(401)
    expect(await refused(read(await stand.tally.pat()))).toBe(401)
    expect(await refused(readAs(one, 'mallory'))).toBe(401)
    expect(await refused(readAs(one, 'carl'))).toBe(401)
    expect(await refused(readAs(one, 'bea', { iss: two.issuer }))).toBe(401)
    expect(await refused(readAs(one, 'bea', { aud: 'https://other.example' }))).toBe(401)
    expect(await refused(readAs(one, 'bea', { account: 'family-2' }))).toBe(401)
    const now = Math.floor(Date.now() / 1_000)
    expect(await refused(readAs(one, 'bea', { iat: now - 200, exp: now - 80 }))).toBe(401)
    expect(await refused(readAs(one, 'bea', { exp: now + 3_600 }))).toBe(401)
    const withdrawal = signJws({ typ: TYP.verdictWithdrawal, payload: claimsOf(one, 'bea') }, one.key)
    expect(await refused(read(withdrawal))).toBe(401)
    const good = signAccessesRequest(claimsOf(one, 'bea', { account: 'family-2' }), one.key)
    expect(await refused(read(good, '/joint/accesses/family-2'))).toBe(404)
  })
})

test('A tally removes by itself what no answer can depend on any more', async () => {
  const tally = await startTestTally({ environment: { UMA_TALLY_SWEEP_SECONDS: '1' } })
  const client = new Client({ connectionString: tally.environment['DATABASE_URL']! })
  await client.connect()
  try {
    await client.query(
      "INSERT INTO withdrawals VALUES ('https://as.test', 'old', now() - interval '1 second')",
    )
    await client.query("INSERT INTO withdrawals VALUES ('https://as.test', 'new', now() + interval '1 day')")
    await until(async () => (await client.query('SELECT jti FROM withdrawals')).rows.length === 1)
    expect((await client.query('SELECT jti FROM withdrawals')).rows).toEqual([{ jti: 'new' }])
  } finally {
    await client.end()
    await tally.close()
  }
})
