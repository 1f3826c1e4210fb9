/** Contract, "Introspection and consume answers"; docs/choices.md: several tokens in one request. */
import { expect, it } from 'vitest'
import { authorityStand } from '../support/stands.ts'
import { protectionCall, testAgent } from '../support/test-agent.ts'

const authority = authorityStand({ owners: ['alice', 'bea'] })
const TRADE = { operation: { tool: 'place_trade', params: {} } }
const ask = (body: Record<string, unknown>, owner = 'alice') =>
  protectionCall(authority, '/introspect', body, owner)

it('each is answered as if it had been asked about by itself, in their order', async () => {
  const agent = testAgent(authority)
  const standing = (await agent.granted()).rpt
  const { rpt: spent } = await agent.granted('place_trade', TRADE)
  await protectionCall(authority, '/consume', { token: spent }, 'alice')
  const tokens = [standing, 'no token', spent, '', `${standing}x`, standing, '\0', 'x'.repeat(20_000)]
  const together = await ask({ tokens })
  const { answers } = together.body as { answers: unknown[] }
  const alone = await Promise.all(tokens.slice(0, 3).map(async token => (await ask({ token })).body))
  expect(answers.slice(0, 3)).toEqual(alone)
  expect(answers[5]).toEqual(answers[0])
  expect(answers).toHaveLength(tokens.length)
  expect(answers.map(answer => (answer as { active: boolean }).active)).toEqual(
    tokens.map(token => token === standing),
  )
  expect(together.headers.get('cache-control')).toBe('no-store')
})

it('a PAT of another owner learns nothing of them', async () => {
  const { rpt } = await testAgent(authority).granted()
  const unknown = { active: false, reason: 'unknown_token', error: 'unknown_token' }
  expect((await ask({ tokens: [rpt, rpt] }, 'bea')).body).toEqual({ answers: [unknown, unknown] })
})

it.each([
  ['none', { tokens: [] }],
  ['more than are offered', { tokens: Array.from({ length: 65 }, () => 't') }],
  ['a number among them', { tokens: ['t', 1] }],
  ['one text in place of a list', { tokens: 't' }],
])('%s: 400 for all of them', async (_what, body) => {
  const { status, body: answer } = await ask(body)
  expect([status, answer.error]).toEqual([400, 'invalid_request'])
})

it('the metadata offers as many as are taken', async () => {
  const { body } = await authority.request('GET', '/.well-known/agents-configuration')
  expect(body.introspection_tokens_max).toBe(64)
  expect((await ask({ tokens: Array.from({ length: 64 }, () => 't') })).status).toBe(200)
})

const consume = (body: Record<string, unknown>, owner = 'alice') =>
  protectionCall(authority, '/consume', body, owner)
const fresh = async (count: number): Promise<string[]> => {
  const granted = Array.from({ length: count }, () => testAgent(authority).granted('place_trade', TRADE))
  return (await Promise.all(granted)).map(({ rpt }) => rpt)
}

it('each of several is spent, or not, as if it had been sent by itself, in their order', async () => {
  const standing = (await testAgent(authority).granted()).rpt
  const [spent, unspent] = (await fresh(2)) as [string, string]
  const { body } = await consume({ token: spent })
  const family = (body as { family: string }).family
  const tokens = [unspent, spent, standing, 'no token', '', '\0']
  const { answers } = (await consume({ tokens })).body as { answers: Record<string, unknown>[] }
  const alone = await Promise.all(tokens.slice(1, 4).map(async token => (await consume({ token })).body))
  expect(answers.slice(1, 4)).toEqual(alone)
  expect(answers[0]).toEqual({ consumed: true, family: expect.not.stringMatching(family) })
  expect(answers.map(({ consumed }) => consumed)).toEqual(tokens.map(token => token === unspent))
  expect((await consume({ token: unspent })).body).toEqual({ consumed: false, error: 'already_consumed' })
})

it('one grant that is named several times, in several requests at once, is spent once', async () => {
  const tokens = await fresh(4)
  const requests = await Promise.all(
    Array.from({ length: 6 }, () => consume({ tokens: [...tokens, ...tokens.toReversed()] })),
  )
  const won = requests.flatMap(({ body }) =>
    (body as { answers: { consumed: boolean }[] }).answers.map(({ consumed }, place) =>
      consumed ? [...tokens, ...tokens.toReversed()][place] : undefined,
    ),
  )
  expect(won.filter(token => token !== undefined).toSorted()).toEqual(tokens.toSorted())
})

it('a PAT of another owner spends none of them', async () => {
  const tokens = await fresh(2)
  const unknown = { consumed: false, error: 'unknown_token' }
  expect((await consume({ tokens }, 'bea')).body).toEqual({ answers: [unknown, unknown] })
  const { answers } = (await consume({ tokens })).body as { answers: { consumed: boolean }[] }
  expect(answers.map(({ consumed }) => consumed)).toEqual([true, true])
})

it.each([
  ['none', { tokens: [] }],
  ['more than are offered', { tokens: Array.from({ length: 65 }, () => 't') }],
])('%s to be spent: 400 for all of them', async (_what, body) => {
  const { status, body: answer } = await consume(body)
  expect([status, answer.error]).toEqual([400, 'invalid_request'])
})

it('the metadata offers as many to be spent as are taken', async () => {
  const { body } = await authority.request('GET', '/.well-known/agents-configuration')
  expect(body.consume_tokens_max).toBe(64)
})
