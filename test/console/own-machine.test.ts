/**
 * The page's server on her own machine, as the page asks it: what it signs, what it does not, and the stream
 * that goes through it. Contract: "Owner API" (`/owner/pending/{family}/decision`,
 * `/owner/pending/decisions`, `/owner/events`).
 */
import { afterEach, describe, expect, it } from 'vitest'
import { serveConsole } from '../../src/owner/index.ts'
import { itemDigest } from '../../src/wire/owner/decision-item.ts'
import type { PendingItem } from '../../src/wire/owner/owner-api.ts'
import { builtConsole } from '../support/browser.ts'
import { startedOnce } from '../support/started.ts'
import { authorityStand } from '../support/stands.ts'
import { denyAll, pendingAt, testAgent, type TestAgent } from '../support/test-agent.ts'

builtConsole()
// A few strangers may wait at a time.
afterEach(() => denyAll(authority))
const authority = authorityStand()
const served = startedOnce(() => {
  const { key } = authority.alice
  return serveConsole({ api: authority.ownerUrl, issuer: authority.issuer, key })
})

/** A request of the page. */
function request(
  path: string,
  init: Omit<RequestInit, 'headers'> & { headers?: Record<string, string> } = {},
): Promise<Response> {
  const { origin, hash } = new URL(served.link)
  const token = new URLSearchParams(hash.slice(1)).get('token')!
  return fetch(origin + path, { ...init, headers: { authorization: `Bearer ${token}`, ...init.headers } })
}
const post = async (path: string, body: unknown) => {
  const answer = await request(path, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: typeof body === 'string' ? body : JSON.stringify(body),
  })
  return { status: answer.status, body: (await answer.json()) as Record<string, unknown> }
}

/** An agent asks for something that waits: who it is, and what the page is shown. */
async function waiting(qty = 1): Promise<{ agent: TestAgent; shown: PendingItem }> {
  const agent = testAgent(authority)
  const operation = { tool: 'place_trade', params: { symbol: 'VTI', qty } }
  expect((await agent.ask('place_trade', { operation })).body.error).toBe('request_submitted')
  const { family } = (await pendingAt(authority)).find(({ handle }) => handle === agent.handle)!
  return { agent, shown: (await (await request(`/owner/pending/${family}`)).json()) as PendingItem }
}
const isWaiting = async ({ handle }: TestAgent) =>
  (await pendingAt(authority)).some(one => one.handle === handle)
const digestOf = ({ item }: PendingItem) => itemDigest(item)
const approvalOf = async ({ handle }: TestAgent) => {
  const target = `/owner/ledger?kind=approved&handle=${handle}`
  return (await authority.call(authority.alice, { target })).body.entries as unknown[]
}

describe('An approval on her own machine', () => {
  it('is signed over the item that the page showed', async () => {
    const { agent, shown } = await waiting()
    const decision = { decision: 'approved', item_s256: digestOf(shown) }
    expect((await post(`/owner/pending/${shown.family}/decision`, decision)).status).toBe(200)
    const { thumbprint: kid } = authority.alice.key
    expect(await approvalOf(agent)).toMatchObject([{ binding: 'signed', actor: { kid } }])
  })

  it.each([
    ['another item', async () => digestOf((await waiting(2)).shown)],
    ['no item', () => Promise.resolve(undefined)],
    ['what is no digest', () => Promise.resolve(7)],
  ])('is not signed where the page says that it showed %s, and is told what waits', async (_what, other) => {
    const { agent, shown } = await waiting()
    const item_s256 = await other()
    const refused = await post(`/owner/pending/${shown.family}/decision`, { decision: 'approved', item_s256 })
    expect(refused).toMatchObject({
      status: 409,
      body: { error: 'item_changed', item: shown.item, item_s256: digestOf(shown) },
    })
    expect(await isWaiting(agent)).toBe(true)
  })

  it('of several at once is signed for each; of one that the page did not show, none is sent', async () => {
    const [one, other] = [await waiting(3), await waiting(4)]
    const approved = ({ family }: PendingItem, item_s256: string) => ({
      family,
      decision: 'approved',
      item_s256,
    })
    const first = approved(one.shown, digestOf(one.shown))
    const wrong = { decisions: [first, approved(other.shown, digestOf(one.shown))] }
    expect(await post('/owner/pending/decisions', wrong)).toMatchObject({
      status: 409,
      body: { error: 'item_changed', item: other.shown.item },
    })
    for (const { agent } of [one, other]) expect(await isWaiting(agent)).toBe(true)
    const right = { decisions: [first, { family: other.shown.family, decision: 'denied', reason: 'No.' }] }
    expect((await post('/owner/pending/decisions', right)).status).toBe(200)
    expect(await approvalOf(one.agent)).toMatchObject([{ binding: 'signed' }])
    expect(await approvalOf(other.agent)).toEqual([])
  })

  it.each([
    ['a decision that is no object', '{"decisions":["fam_x"]}', 400, 'invalid_request'],
    ['one without a family', '{"decisions":[{"decision":"approved"}]}', 400, 'invalid_request'],
    ['what is no JSON', '{"decision":', 400, 'invalid_request'],
    ['a member twice', '{"decision":"denied","decision":"approved"}', 400, 'invalid_request'],
    ['a body of more than 1 MiB', `{"decision":"${'x'.repeat(1_048_576)}"}`, 413, 'request_too_large'],
  ])('with %s is refused', async (_what, body, status, error) => {
    const path = body.includes('decisions') ? '/owner/pending/decisions' : '/owner/pending/fam_x/decision'
    expect(await post(path, body)).toMatchObject({ status, body: { error } })
  })
})

describe('The stream of what happens', () => {
  it('goes through as it comes, goes on after what the page has seen, and ends with the page', async () => {
    const leaving = new AbortController()
    const events = (headers: Record<string, string> = {}) =>
      request('/owner/events', {
        headers: { accept: 'text/event-stream', ...headers },
        signal: leaving.signal,
      })
    const first = await events()
    expect(first.headers.get('content-type')).toMatch(/^text\/event-stream/)
    const { agent, shown } = await waiting(5)
    const seen = await until(first, shown.family)
    const id = [...seen.matchAll(/^id: ?(.+)$/gm)].at(-1)![1]!
    await post(`/owner/pending/${shown.family}/decision`, { decision: 'denied', reason: 'No.' })
    const later = await until(await events({ 'last-event-id': id }), 'decided')
    expect(later).not.toContain('event: pending')
    expect(await isWaiting(agent)).toBe(false)
    leaving.abort()
  })
})

/** What came of a stream until it held this text. */
async function until(answer: Response, wanted: string): Promise<string> {
  let seen = ''
  const decoder = new TextDecoder()
  for await (const chunk of answer.body!) {
    seen += decoder.decode(chunk as Uint8Array, { stream: true })
    if (seen.includes(wanted)) return seen
  }
  throw new Error(`the stream ended before ${wanted}: ${seen}`)
}
