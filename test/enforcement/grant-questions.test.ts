/**
 * Contract, "Grant (RPT) liveness", "Protection API": several questions, one request, and none of them older
 * for it.
 */
import { afterEach, beforeEach, expect, test } from 'vitest'
import {
  createAuthorityClient,
  type AuthorityClient,
} from '../../src/enforcement/authorities/authority-client.ts'
import { createAuthorityOffers } from '../../src/enforcement/authorities/authority-offers.ts'
import { deadlineAt, type Deadline } from '../../src/enforcement/deadline.ts'
import { UnspentOutage } from '../../src/enforcement/outage.ts'
import { createGrantQuestions } from '../../src/enforcement/authorities/grant-questions.ts'
import { createJwksCache } from '../../src/http/outbound/jwks-cache.ts'
import { createOutbound, type Outbound } from '../../src/http/outbound/outbound.ts'
import { asClientId, asOwner } from '../../src/wire/identifiers.ts'
import type { Refusal } from '../../src/wire/refusal.ts'
import { startScriptedAuthority, type Received, type Script } from '../support/scripted-authority.ts'
import { startedOnce } from '../support/started.ts'
import { until } from '../support/until.ts'

const METADATA = '/.well-known/agents-configuration'
let pools: { challenges: Outbound; grants: Outbound }
let client: AuthorityClient
let jumped = 0
const clock = () => Date.now() + jumped

const authority = startedOnce(startScriptedAuthority)
beforeEach(() => {
  jumped = 0
  authority.reset()
  pools = { challenges: createOutbound({ devLoopback: true }), grants: createOutbound({ devLoopback: true }) }
  client = openClient()
})
afterEach(() => Promise.all([pools.challenges.close(), pools.grants.close()]))

const openClient = () =>
  createAuthorityClient({
    authority: authority.issuer,
    owner: asOwner('alice'),
    resource: 'https://tools.example.com/mcp/alice',
    client_id: asClientId('demo-tools'),
    credential: { kind: 'secret', secret: 'shh' },
    pools,
    keys: createJwksCache({ outbound: pools.challenges, clock }),
    offers: createAuthorityOffers({ outbound: pools.challenges, clock }),
    clock,
  })
const soon = (ms = 10_000): Deadline => deadlineAt(clock() + ms, clock)
/** For a question that must be sent before its time is over, also on a busy machine. */
const PATIENT_MS = 3_000

interface Question {
  token?: string
  tokens?: string[]
}
const questionOf = ({ headers, body }: Received): Question =>
  headers['content-type'] === 'application/json'
    ? (JSON.parse(body) as Question)
    : { token: new URLSearchParams(body).get('token')! }
/** The tokens of each request, in the order in which they were sent. */
const asked = (of = '/introspect') =>
  authority.received
    .filter(({ path }) => path === of)
    .map(one => questionOf(one).tokens ?? [questionOf(one).token!])

const inactive = (token: string) => ({ active: false, reason: `reason_${token}` })
/** Tells of every token its own reason, unless the request is answered by the script. */
function answering(
  scripted: (question: Question, nth: number) => Script | undefined = () => undefined,
): void {
  authority.script('/introspect', (received, nth) => {
    const { token, tokens } = questionOf(received)
    const body = tokens === undefined ? inactive(token!) : { answers: tokens.map(inactive) }
    return scripted({ token, tokens } as Question, nth) ?? { status: 200, body }
  })
}
const offer = async (most: unknown): Promise<void> => {
  const { issuer } = authority
  const endpoints = { token_endpoint: `${issuer}/token`, jwks_uri: `${issuer}/jwks` }
  const offers = { introspection_tokens_max: most, consume_tokens_max: most }
  authority.script(METADATA, { status: 200, body: { issuer, ...endpoints, ...offers } })
  await client.introspect('first', soon())
  // What it offers is read beside the call.
  await until(() => authority.count(METADATA) === 1 && pools.challenges.stats().inFlight === 0)
  authority.received.length = 0
}
const askAll = (tokens: string[], deadline = soon()) =>
  Promise.all(tokens.map(token => client.introspect(token, deadline).catch((error: Error) => error)))
const told = (tokens: string[]) => tokens.map(inactive)
const names = (count: number) => Array.from({ length: count }, (_, n) => `t${n}`)

test('questions at the same time go as one request, and each gets its own answer', async () => {
  answering()
  await offer(64)
  expect(await askAll(names(10))).toEqual(told(names(10)))
  expect(asked()).toEqual([names(10)])
})

test.each([undefined, 1, 0, -5, 'many', 2.5])('where %s are offered each goes by itself', async offered => {
  answering()
  await offer(offered)
  expect(await askAll(names(6))).toEqual(told(names(6)))
  expect(asked().toSorted()).toEqual(names(6).map(name => [name]))
})

test('an authority without metadata, or with that of another issuer, is asked one by one', async () => {
  answering()
  await askAll(names(3))
  authority.script(METADATA, { status: 200, body: { issuer: 'https://other', introspection_tokens_max: 64 } })
  client = openClient()
  await askAll(names(3))
  await until(() => authority.count(METADATA) === 2)
  await askAll(names(3))
  expect(asked().every(({ length }) => length === 1)).toBe(true)
})

test('no request names more tokens than are offered, nor more than fit its body', async () => {
  answering()
  await offer(3)
  await askAll(names(8))
  expect(asked().map(({ length }) => length)).toEqual([3, 3, 2])
  client = openClient()
  authority.received.length = 0
  await offer(64)
  const long = names(30).map(name => name.padEnd(8_000, '-'))
  expect(await askAll(long)).toEqual(told(long))
  expect(asked().map(({ length }) => length)).toEqual([16, 14])
})

test('a question never joins a request that was sent, and is sent though none of them is answered', async () => {
  answering(({ tokens }) => (tokens?.[0]?.startsWith('held') === true ? 'hang' : undefined))
  await offer(64)
  const held: Promise<unknown>[] = []
  for (const n of [1, 2, 3, 4, 5]) {
    held.push(...[1, 2].map(m => client.introspect(`held-${n}-${m}`, soon(2_000)).catch(() => 'late')))
    await until(() => asked().length === n)
  }
  expect(await askAll(['late-a', 'late-b'])).toEqual(told(['late-a', 'late-b']))
  expect(asked().at(-1)).toEqual(['late-a', 'late-b'])
  expect(await Promise.all(held)).toEqual(held.map(() => 'late'))
})

test('one that has no time left ends alone, the others get their answers', async () => {
  answering(({ tokens }) =>
    tokens === undefined ? undefined : { status: 200, body: { answers: tokens.map(inactive) }, delayMs: 300 },
  )
  await offer(64)
  const hurried = client.introspect('a', soon(50)).catch((error: { code: string }) => error.code)
  const patient = client.introspect('b', soon())
  expect(await hurried).toBe('temporarily_unavailable')
  expect(asked()).toEqual([['a', 'b']])
  expect(await patient).toEqual(inactive('b'))
})

test('an answer that cannot be read is an outage for the call that it is about', async () => {
  answering(({ tokens }) =>
    tokens === undefined
      ? undefined
      : { status: 200, body: { answers: [inactive('a'), { active: 'perhaps' }, inactive('c')] } },
  )
  await offer(64)
  expect(await askAll(['a', 'b', 'c'])).toEqual([
    inactive('a'),
    expect.objectContaining({ code: 'temporarily_unavailable' }),
    inactive('c'),
  ])
})

const nested = '['.repeat(64) + ']'.repeat(64)
const spoilt: [string, Script][] = [
  ['refused', { status: 400, body: { error: 'invalid_request' } }],
  ['failed', { status: 500, body: {} }],
  ['too long', { status: 200, body: { answers: [inactive('a'), inactive('b'), 'x'.repeat(1_100_000)] } }],
  ['nested too deep', { status: 200, body: `{"answers":[{"active":false},{"active":false},${nested}]}` }],
  ['no JSON', { status: 200, body: '{"answers":[' }],
  ['for one too few', { status: 200, body: { answers: [inactive('a'), inactive('b')] } }],
  ['for none', { status: 200, body: inactive('a') }],
]
test.each(spoilt)('if the answer to several is %s, each is asked by itself', async (_what, script) => {
  answering(({ tokens }) => (tokens === undefined ? undefined : script))
  await offer(64)
  expect(await askAll(['a', 'b', 'c'])).toEqual(told(['a', 'b', 'c']))
  expect(asked()[0]).toEqual(['a', 'b', 'c'])
  expect(asked().slice(1).toSorted()).toEqual([['a'], ['b'], ['c']])
  // What it offers is believed again once it was read again.
  await askAll(['d', 'e'])
  expect(asked().slice(4).toSorted()).toEqual([['d'], ['e']])
  jumped = 31_000
  await askAll(['f', 'g'])
  await until(() => authority.count(METADATA) === 1 && pools.challenges.stats().inFlight === 0)
  await askAll(['h', 'i'])
  expect(asked().slice(6, 8).toSorted()).toEqual([['f'], ['g']])
  expect(asked().at(8)).toEqual(['h', 'i'])
})

test.each([429, 503])(
  'if it says %s, all that went together wait no longer and are not asked again',
  async status => {
    answering(({ tokens }) => (tokens === undefined ? undefined : { status, body: {} }))
    await offer(64)
    const outage = expect.objectContaining({ code: 'temporarily_unavailable' }) as unknown
    expect(await askAll(['a', 'b'])).toEqual([outage, outage])
    expect(asked()).toEqual([['a', 'b']])
  },
)

test.each<[string, Script]>([
  ['hangs', 'hang'],
  ['says 502', { status: 502, body: {} }],
  ['says 504', { status: 504, body: {} }],
  ['says 429', { status: 429, body: {} }],
])('if it %s whenever one token is among several, that one spoils no other again', async (_what, script) => {
  answering(({ tokens }) => (tokens?.includes('bad') === true ? script : undefined))
  await offer(64)
  const outage = expect.objectContaining({ code: 'temporarily_unavailable' }) as unknown
  expect(await askAll(['bad', 'good'], soon(PATIENT_MS))).toEqual([outage, outage])
  expect(await askAll(['bad', 'good'])).toEqual(told(['bad', 'good']))
  expect(asked().slice(1).toSorted()).toEqual([['bad'], ['good']])
})

test('the silence of a request for several is noted before the last of its questions fails', async () => {
  const order: string[] = []
  const ask = createGrantQuestions({
    tokensMax: () => 8,
    askOne: () => Promise.reject(new Error('asked alone')),
    askSeveral: () => new Promise(() => undefined),
    onSilence: () => order.push('silence'),
  })
  await Promise.all(['a', 'b'].map(token => ask(token, soon(20)).catch(() => order.push('outage'))))
  expect(order.toSorted()).toEqual(['outage', 'outage', 'silence'])
  expect(order.at(-1)).toBe('outage')
})

test('a PAT that is no longer taken is renewed once for all of them', async () => {
  answering(({ tokens }, nth) => (tokens !== undefined && nth === 1 ? { status: 401, body: {} } : undefined))
  await offer(64)
  const before = authority.count('/token')
  expect(await askAll(['a', 'b', 'c'])).toEqual(told(['a', 'b', 'c']))
  expect([asked().length, authority.count('/token') - before]).toEqual([2, 1])
})

/** Spends what is called fresh, unless the request is answered by the script. */
function spending(scripted: (question: Question) => Script | undefined = () => undefined): void {
  const spend = (token: string) =>
    token.startsWith('fresh')
      ? { consumed: true, family: 'fam_x' }
      : { consumed: false, error: 'already_consumed' }
  authority.script('/consume', received => {
    const { token, tokens } = questionOf(received)
    const body = tokens === undefined ? spend(token!) : { answers: tokens.map(spend) }
    return scripted({ token, tokens } as Question) ?? { status: 200, body }
  })
}
const spendAll = (tokens: string[], whyNot?: (token: string) => Error | undefined) =>
  Promise.all(
    tokens.map(token =>
      client.consume(token, soon(PATIENT_MS), () => whyNot?.(token)).catch((error: Refusal) => error),
    ),
  )
const OUTAGE = expect.objectContaining({ code: 'temporarily_unavailable' }) as unknown

test('grants that are spent at the same time go as one request, and each gets its own answer', async () => {
  answering()
  spending()
  await offer(64)
  const no = { consumed: false, error: 'already_consumed' }
  expect(await spendAll(['fresh-a', 'b', 'fresh-c'])).toEqual([{ consumed: true }, no, { consumed: true }])
  expect(asked('/consume')).toEqual([['fresh-a', 'b', 'fresh-c']])
})

test('where consumes of several are not offered each goes by itself', async () => {
  answering()
  spending()
  await offer(undefined)
  expect(await spendAll(['fresh-a', 'fresh-b'])).toEqual([{ consumed: true }, { consumed: true }])
  expect(asked('/consume').toSorted()).toEqual([['fresh-a'], ['fresh-b']])
})

test('what its caller no longer waits for is not spent with the others', async () => {
  answering()
  spending()
  await offer(64)
  const gone = new UnspentOutage('gone')
  const told = await spendAll(['fresh-a', 'fresh-b'], token => (token === 'fresh-a' ? gone : undefined))
  expect(told).toEqual([gone, { consumed: true }])
  expect(asked('/consume')).toEqual([['fresh-b']])
})

test('if the authority does not know whether a grant was spent, that is an outage and no refusal', async () => {
  answering()
  spending(() => ({
    status: 200,
    body: { answers: [{ error: 'temporarily_unavailable' }, { consumed: true }] },
  }))
  await offer(64)
  expect(await spendAll(['fresh-a', 'fresh-b'])).toEqual([OUTAGE, { consumed: true }])
})

test.each<[string, Script]>([
  ['hangs', 'hang'],
  ['is cut', 'cut'],
  ['says 401', { status: 401, body: {} }],
  ['says 500', { status: 500, body: {} }],
  ['says 502', { status: 502, body: {} }],
  ['says 503', { status: 503, body: {} }],
  ['is no JSON', { status: 200, body: '{"answers":[' }],
  ['is one too few', { status: 200, body: { answers: [{ consumed: true }] } }],
  ['is for one', { status: 200, body: { consumed: false, error: 'already_consumed' } }],
])('if the answer to several that were to be spent %s, none is sent again', async (_what, script) => {
  answering()
  spending(({ tokens }) => (tokens === undefined ? undefined : script))
  await offer(64)
  const told = await spendAll(['fresh-a', 'fresh-b'])
  expect(told).toEqual([OUTAGE, OUTAGE])
  // Each may be spent.
  expect(told.map(one => one instanceof UnspentOutage)).toEqual([false, false])
  expect(asked('/consume')).toEqual([['fresh-a', 'fresh-b']])
})

test('an authority that reads no several has spent none of them, and gets the next one by one', async () => {
  answering()
  spending(({ tokens }) =>
    tokens === undefined ? undefined : { status: 400, body: { error: 'invalid_request' } },
  )
  await offer(64)
  const told = await spendAll(['fresh-a', 'fresh-b'])
  expect(told.map(one => one instanceof UnspentOutage)).toEqual([true, true])
  expect(await spendAll(['fresh-a', 'fresh-b'])).toEqual([{ consumed: true }, { consumed: true }])
  expect(asked('/consume').slice(1).toSorted()).toEqual([['fresh-a'], ['fresh-b']])
})
