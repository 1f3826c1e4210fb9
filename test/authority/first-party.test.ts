/**
 * Contract, "Policy vocabulary and tiers": an agent is the owner's own only by her own act, while its
 * operator lists its key.
 */
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { inTransaction } from '../../src/storage/core/database.ts'
import { readConnection } from '../../src/storage/authority/connections/connections.ts'
import { claimOperator, disclaimOperator } from '../../src/storage/authority/connections/operators.ts'
import { signIntroduction } from '../../src/wire/agents/introduction.ts'
import { startTestAuthority, type TestAuthority } from '../support/authority.ts'
import {
  newKey,
  startIssuer,
  startOperator,
  type TestIssuer,
  type TestOperator,
} from '../support/operators.ts'
import { decide, testAgent, type TestAgent } from '../support/test-agent.ts'
import { asOwner, type Handle } from '../../src/wire/identifiers.ts'

const TRADE = { operation: { tool: 'place_trade', params: { symbol: 'VTI', qty: 2 } } }
let issuer: TestIssuer
let authority: TestAuthority
const started: TestOperator[] = []

beforeAll(async () => {
  issuer = await startIssuer()
  authority = await startTestAuthority({
    environment: { UMA_AS_AGENT_ISSUERS: issuer.iss, UMA_DEV_LOOPBACK: 'true' },
    // Her own agents trade without asking; for all others she is asked.
    provision: document => ({
      owners: document.owners.map(owner => ({
        ...owner,
        tiers: owner.tiers.map(tier =>
          tier.id === 'trading'
            ? { ...tier, rules: [{ when: ['standing.first_party'], then: 'auto' }] }
            : tier,
        ),
      })),
    }),
  })
})
afterAll(async () => {
  await authority.close()
  await Promise.all([issuer, ...started].map(server => server.close()))
})

async function operatorOf(...keys: ReturnType<typeof newKey>[]): Promise<TestOperator> {
  const operator = await startOperator({ keys })
  started.push(operator)
  return operator
}
const claim = ({ origin }: TestOperator, published: string[] = []) =>
  inTransaction(authority.database.db, tx => claimOperator(tx, asOwner('alice'), origin, published))
const isFirstParty = async ({ handle }: { handle: Handle }) =>
  (await readConnection(authority.database.db, asOwner('alice'), handle))?.first_party
const trades = async (agent: TestAgent) => (await agent.ask('place_trade', TRADE)).body.kind ?? 'granted'

describe('standing.first_party', () => {
  it('is set if the owner approves an agent whose key the directory of her own operator lists', async () => {
    const key = newKey()
    const operator = await operatorOf(key)
    await claim(operator)
    const agent = testAgent(authority, { key, client_id: operator.client_id })
    await agent.granted()
    expect(await isFirstParty(agent)).toBe(true)
    expect(await trades(agent)).toBe('granted')
    // The owner takes the claim back.
    await inTransaction(authority.database.db, tx => disclaimOperator(tx, asOwner('alice'), operator.origin))
    expect(await trades(agent)).toBe('operation')
    await decide(authority, agent.handle, 'denied')
  })

  it('is set if she approves an operation of an agent that she knew before she claimed the operator', async () => {
    const key = newKey()
    const operator = await operatorOf(key)
    const agent = testAgent(authority, { key, client_id: operator.client_id })
    await agent.granted()
    await claim(operator)
    expect(await trades(agent)).toBe('operation')
    expect(await isFirstParty(agent)).toBe(false)
    await decide(authority, agent.handle, 'approved')
    expect(await isFirstParty(agent)).toBe(true)
  })

  it('is not set by naming her operator: its directory must list the key', async () => {
    const operator = await operatorOf()
    await claim(operator)
    const agent = testAgent(authority, { client_id: operator.client_id })
    await agent.granted()
    expect(await isFirstParty(agent)).toBe(false)
    expect(await trades(agent)).toBe('operation')
    await decide(authority, agent.handle, 'denied')
  })

  it('is not set if the operator is not hers', async () => {
    const key = newKey()
    const operator = await operatorOf(key)
    const agent = testAgent(authority, { key, client_id: operator.client_id })
    await agent.granted()
    expect(await isFirstParty(agent)).toBe(false)
  })

  it('is not set by a directory at another origin, nor by a document that only claims', async () => {
    const key = newKey()
    const [hers, other] = [await operatorOf(), await operatorOf(key)]
    await claim(hers)
    const agent = testAgent(authority, { key, client_id: hers.client_id, signature_agent: other.origin })
    await agent.granted()
    expect(await isFirstParty(agent)).toBe(false)
  })

  it('is not inherited by an agent that hers introduces', async () => {
    const [parentKey, childKey] = [newKey(), newKey()]
    const operator = await operatorOf(parentKey, childKey)
    await claim(operator)
    const parent = testAgent(authority, { key: parentKey, client_id: operator.client_id })
    await parent.granted()
    const child = testAgent(authority, { key: childKey, client_id: operator.client_id })
    const iat = Math.floor(Date.now() / 1000)
    const introduction = signIntroduction(
      { newcomer: childKey, aud: authority.issuer, iat, exp: iat + 60, jti: 'int_1' },
      parentKey,
    )
    expect((await child.ask('portfolio_read', { introduction })).status).toBe(200)
    expect([await isFirstParty(parent), await isFirstParty(child)]).toEqual([true, false])
    expect(await trades(child)).toBe('operation')
    await decide(authority, child.handle, 'denied')
  })

  it('is of the key she acted on: an identified agent under another key has none of it', async () => {
    const [key, next] = [newKey(), newKey()]
    const operator = await operatorOf(key)
    await claim(operator)
    const { client_id } = operator
    const agent = testAgent(authority, { key, client_id, identified: issuer.identify(key, 'hers') })
    await agent.granted()
    expect(await trades(agent)).toBe('granted')
    const rotated = testAgent(authority, { key: next, client_id, identified: issuer.identify(next, 'hers') })
    expect(await trades(rotated)).toBe('operation')
    // Approved under the unlisted key, the agent is hers no more, under either.
    await decide(authority, rotated.handle, 'approved')
    expect(await trades(agent)).toBe('operation')
    await decide(authority, agent.handle, 'denied')
  })

  it('ends with a revocation, and is set anew only by her own act', async () => {
    const key = newKey()
    const operator = await operatorOf(key)
    await claim(operator)
    const agent = testAgent(authority, { key, client_id: operator.client_id })
    await agent.granted()
    const target = '/owner/connections/revoke'
    await authority.call(authority.alice, { method: 'POST', target, json: { handle: agent.handle } })
    expect(await trades(agent)).toBe('connection')
    await decide(authority, agent.handle, 'approved')
    expect(await isFirstParty(agent)).toBe(true)
  })

  it('is set by the claim itself, for connected agents whose keys the directory lists', async () => {
    const [listed, unlisted] = [newKey(), newKey()]
    const operator = await operatorOf(listed)
    const { client_id } = operator
    const agents = [listed, unlisted].map(key => testAgent(authority, { key, client_id })) as [
      TestAgent,
      TestAgent,
    ]
    for (const agent of agents) await agent.granted()
    expect(await claim(operator, [listed.thumbprint])).toEqual([agents[0].handle])
    expect([await isFirstParty(agents[0]), await isFirstParty(agents[1])]).toEqual([true, false])
  })
})
