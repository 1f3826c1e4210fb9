/**
 * The operators behind an agent: contract, "Connection" (owner blocks the operator), "Owner API" (operators),
 * "What the service does" (row 9: revocation is atomic and immediate).
 */
import { afterEach, describe, expect, it } from 'vitest'
import { OPERATORS_PER_CONNECTION_MAX } from '../../src/rules/connection.ts'
import { type Reply } from '../support/authority.ts'
import { newKey, startOperator, type TestOperator } from '../support/operators.ts'
import { denyAll, protectionCall, testAgent } from '../support/test-agent.ts'
import { authorityStand } from '../support/stands.ts'
import { startedOnce } from '../support/started.ts'

/** Published from the start: a directory just read is read again only after ten seconds. */
const keys = Array.from({ length: 60 }, newKey)
const operator = startedOnce(() => startOperator({ keys: [...keys], name: 'Planners Inc.' }))
const other = startedOnce(() => startOperator({ keys: [...keys] }))
const authority = authorityStand({ environment: { UMA_DEV_LOOPBACK: 'true' } })
afterEach(async () => {
  await denyAll(authority)
  for (const { origin } of [operator, other]) await post('/owner/operators/unblock', { origin })
})

const post = (target: string, json: unknown) =>
  authority.call(authority.alice, { method: 'POST', target, json })
const block = ({ origin }: { origin: string }) => post('/owner/operators/block', { origin })
const list = async (target: string) =>
  (await authority.call(authority.alice, { target: `${target}?limit=1000` })).body as Record<
    string,
    unknown
  >[]
const operatorOf = async ({ origin }: TestOperator) =>
  (await list('/owner/operators')).find(listed => listed['origin'] === origin)
const operatorsOf = async (handle: string) =>
  (await list('/owner/connections')).find(connection => connection['handle'] === handle)?.['operators']
const isLive = async (rpt: string) =>
  (await protectionCall(authority, '/introspect', { token: rpt })).body as {
    active: boolean
    reason?: string
  }
const isRefused = (reply: Reply) => reply.status === 403 && reply.body.error === 'request_denied'

/** One agent, known since a first contact that named no operator: as it goes on so, and as it names one. */
async function known() {
  const key = keys.pop()!
  const unnamed = testAgent(authority, { key })
  await unnamed.granted()
  const naming = ({ client_id }: { client_id: string }) => testAgent(authority, { key, client_id })
  return { handle: unnamed.handle, unnamed, naming }
}

describe('An operator that a later agreement names, attested', () => {
  it("is among the connection's operators, and is shown to the owner", async () => {
    const agent = await known()
    expect(await operatorsOf(agent.handle)).toEqual([])
    expect((await agent.naming(operator).ask()).status).toBe(200)
    expect(await operatorsOf(agent.handle)).toEqual([operator.origin])
    expect(await operatorOf(operator)).toMatchObject({ agents: 1, active: 1, name: 'Planners Inc.' })
  })

  it('is reached by a block of it, which reaches the agent even when it then goes on without client_id', async () => {
    const agent = await known()
    const granted = await agent.naming(operator).ask()
    expect(granted.status).toBe(200)
    const unnamed = await agent.unnamed.granted('statement_read')
    const { body } = await block(operator)
    expect(body.connections_revoked).toBeGreaterThanOrEqual(1)
    for (const rpt of [granted.body.access_token, unnamed.rpt])
      expect(await isLive(rpt)).toMatchObject({ active: false, reason: 'connection_revoked' })
    for (const as of [agent.unnamed, agent.naming(operator), agent.naming(other)])
      expect(isRefused(await as.ask())).toBe(true)
  })

  it('stands there beside another one: a block of either ends the connection', async () => {
    const agent = await known()
    for (const one of [operator, other]) expect((await agent.naming(one).ask()).status).toBe(200)
    expect(await operatorsOf(agent.handle)).toEqual([operator.origin, other.origin].sort())
    const { rpt } = await agent.unnamed.granted()
    await block(other)
    expect(await isLive(rpt)).toMatchObject({ active: false, reason: 'connection_revoked' })
    expect(isRefused(await agent.naming(operator).ask())).toBe(true)
  })

  it('still stands there when the agent was revoked and admitted again', async () => {
    const agent = await known()
    await agent.naming(operator).ask()
    await post('/owner/connections/revoke', { handle: agent.handle })
    const { rpt } = await agent.unnamed.granted()
    await block(operator)
    expect((await isLive(rpt)).active).toBe(false)
  })

  it('ends what the agent waits for without naming it', async () => {
    const agent = await known()
    await agent.naming(operator).ask()
    const operation = { operation: { tool: 'place_trade', params: { symbol: 'VTI', qty: 2 } } }
    const held = await agent.unnamed.ask('place_trade', operation)
    expect(held.body.error).toBe('request_submitted')
    await block(operator)
    expect(await list('/owner/pending')).toEqual([])
    expect(isRefused(await agent.unnamed.present(held.body.ticket))).toBe(true)
  })

  it('does not stand there where its directory does not list the key: anybody can name anybody', async () => {
    const unlisted = testAgent(authority)
    await unlisted.granted()
    const naming = testAgent(authority, { key: unlisted.key, client_id: operator.client_id })
    const { rpt } = await naming.granted('portfolio_read')
    expect(await operatorsOf(unlisted.handle)).toEqual([])
    await block(operator)
    expect((await isLive(rpt)).active).toBe(true)
    expect(isRefused(await naming.ask())).toBe(true)
    expect((await unlisted.ask()).status).toBe(200)
  })

  it('is one of few: an agent cannot fill her list of operators', async () => {
    const agent = await known()
    const { rows } = await authority.database.pool.query<{ n: number }>(
      `INSERT INTO connection_operators (owner, handle, origin)
       SELECT 'alice', $1, 'https://operator-' || n || '.example' FROM generate_series(1, $2::int) n RETURNING 1`,
      [agent.handle, OPERATORS_PER_CONNECTION_MAX - 1],
    )
    expect(rows).toHaveLength(OPERATORS_PER_CONNECTION_MAX - 1)
    expect((await agent.naming(operator).ask()).status).toBe(200)
    const refused = await agent.naming(other).ask()
    expect(isRefused(refused)).toBe(true)
    expect(refused.body.error_description).toMatch(/client_id: 16 operators .* name one of them/)
    expect((await agent.naming(operator).ask()).status).toBe(200)
  })
})

describe('A block against the first grant that names the operator', () => {
  it('leaves no grant of it live, whichever comes first: 15 rounds', async () => {
    const outcomes = { granted: 0, refused: 0 }
    for (let round = 0; round < 15; round++) {
      const agent = await known()
      const offer = await agent.unnamed.offer()
      const [reply] = await Promise.all([agent.naming(operator).agree(offer), block(operator)])
      if (reply.status === 200) {
        outcomes.granted += 1
        expect(await isLive(reply.body.access_token)).toMatchObject({ active: false })
        expect(isRefused(await agent.unnamed.ask())).toBe(true)
      } else {
        outcomes.refused += 1
        expect(isRefused(reply)).toBe(true)
      }
      await post('/owner/operators/unblock', { origin: operator.origin })
    }
    expect(outcomes.granted + outcomes.refused).toBe(15)
  })
})
