/**
 * What a stranger writes stays text wherever it is shown: in JSON, on the owner's event stream, in her
 * terminal, on the page of her terms. Contract, "Agreement (claim_token, beat 3)" (reason: shown to the
 * owner), "Terms document" and "Events".
 */
import fc from 'fast-check'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, afterEach, beforeAll, describe, expect, test, vi } from 'vitest'
import { watchEvents, type OwnerEvent } from '../../src/owner/index.ts'
import { runOwner } from '../../src/owner/main.ts'
import { capturedTerminal } from '../support/captured-terminal.ts'
import { startContractStand, type ContractStand } from '../support/contract-stand.ts'
import { HOSTILE_TEXTS } from '../support/hostile.ts'
import { newKey, startOperator } from '../support/operators.ts'
import { startRegisteringServer } from '../support/registering-server.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'
import { decide, testAgent } from '../support/test-agent.ts'
import { until } from '../support/until.ts'

/** What a terminal acts on or hides; a line feed is ours where a line of ours ends. */
const ACTING = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Cs}]/u

let stand: ContractStand
const directory = temporaryFolder('text')
const stream = { events: [] as OwnerEvent[], ending: new AbortController(), open: false }
let reading: Promise<void>

beforeAll(async () => {
  stand = await startContractStand()
  const { alice, ownerUrl, issuer } = stand.authority
  const keyFile = join(directory, 'key.json')
  writeFileSync(keyFile, JSON.stringify(alice.key.privateKeyObject.export({ format: 'jwk' })), {
    mode: 0o600,
  })
  vi.stubEnv('UMA_OWNER_API', ownerUrl)
  vi.stubEnv('UMA_OWNER_ISSUER', issuer)
  vi.stubEnv('UMA_OWNER_KEY', keyFile)
  const access = { api: ownerUrl, issuer, key: alice.key }
  const onState = ({ kind }: { kind: string }) => (stream.open ||= kind === 'open')
  reading = (async () => {
    for await (const event of watchEvents(access, { signal: stream.ending.signal, onState }))
      stream.events.push(event)
  })().catch(() => undefined)
  await until(() => stream.open)
})
afterAll(async () => {
  stream.ending.abort()
  await reading
  vi.unstubAllEnvs()
  await stand?.close()
})
afterEach(async () => {
  for (const { handle } of await pending()) await decide(stand.authority, handle, 'denied')
})

const own = (target: string, call: object = {}) =>
  stand.authority.call(stand.authority.alice, { target, ...call })
const pending = async () =>
  (await own('/owner/pending?limit=1000')).body as (Record<string, unknown> & {
    handle: string
    family: string
  })[]

/** What a command prints, which must not act on a terminal, whatever it was told. */
async function shown(...args: string[]): Promise<string> {
  const terminal = capturedTerminal()
  expect(await runOwner(args, terminal)).toBe(0)
  for (const line of `${terminal.printed}${terminal.said}`.split('\n')) expect(line).not.toMatch(ACTING)
  return terminal.printed
}

/** As JSON can carry it and an agreement may: well-formed, and short enough for a reason. */
const texts = HOSTILE_TEXTS.filter(text => text.isWellFormed() && text.trim() !== '' && text.length < 100)

describe('what an agent says of itself', () => {
  test.each(texts)('%j', async text => {
    const agent = testAgent(stand.authority)
    const operation = { tool: text, params: { [text]: text, nested: [{ [text]: text }] } }
    const heard = stream.events.length
    const reply = await agent.ask('place_trade', { reason: text, operation })
    expect(reply.body).toMatchObject({ error: 'request_submitted' })

    // JSON says it to the letter, and says that it is JSON.
    const listed = await own('/owner/pending')
    expect(listed.headers.get('content-type')).toMatch(/^application\/json/)
    expect(listed.headers.get('x-content-type-options')).toBe('nosniff')
    expect(listed.body).toMatchObject([{ reason: text, operation }])
    // On the stream it is one event, and no other.
    await until(() => stream.events.length > heard)
    const [event] = stream.events.slice(heard)
    expect(event).toMatchObject({ event: 'pending', data: { reason: text, operation } })

    // Asked for once more it is the same request, and joins what waits.
    const again = await agent.ask('place_trade', { reason: text, operation })
    expect(again.body).toMatchObject({ error: 'request_submitted' })
    expect(await pending()).toHaveLength(1)

    // In her terminal it neither acts nor makes lines of its own.
    const { family } = (await pending())[0]!
    expect((await shown('pending')).trimEnd().split('\n')).toHaveLength(2)
    await shown('pending', family)
    expect(JSON.parse(await shown('pending', '--json'))).toMatchObject([{ reason: text, operation }])
    await decide(stand.authority, agent.handle, 'approved')
    expect((await agent.present(again.body.ticket)).status).toBe(200)
    await until(() => stream.events.length > heard + 1)
    expect(stream.events.slice(heard).map(one => one.event)).toEqual(['pending', 'decided'])
    await shown('ledger')
    await shown('connections')
    // The page of her terms names no agent, and nothing of what it said.
    const page = await stand.authority.request('GET', '/terms/alice/trading/v1', {
      headers: { accept: 'text/html' },
    })
    expect(page.text).not.toContain(agent.handle)
  })
})

describe('what operators and resource servers call themselves', () => {
  test.each(texts)('%j', async text => {
    const key = newKey()
    const operator = await startOperator({ keys: [key], name: text })
    const agent = testAgent(stand.authority, { key, client_id: operator.client_id })
    await agent.granted()
    const operators = (await own('/owner/operators?limit=1000')).body as {
      origin: string
      name: string | null
    }[]
    const name = operators.find(({ origin }) => origin === operator.origin)?.name
    expect(name ?? '').toBe(text.replaceAll('\0', '').trim())
    await shown('operators')
    await operator.close()

    const server = await startRegisteringServer(stand.authority, 'notes')
    const { status } = await server.register({ name: text })
    // A name that would act is refused where it is a name alone; none is shown that acts.
    expect([202, 400]).toContain(status)
    await shown('servers')
    await server.close()
  })
})

describe('what she writes herself', () => {
  /** The tags of a page, in their order. */
  const tags = (html: string) => html.match(/<\/?[a-z!][^>]*>/gi)

  test('stays text on the page of her terms', async () => {
    const tier = (text: string) => ({
      name: text,
      resources: ['alice/statements'],
      terms: { purpose: text, scope: ['read'], expires_in: 60, prohibited: [text] },
    })
    const pageOf = async (text: string) => {
      const saved = await own('/owner/policies/statements', { method: 'PUT', json: tier(text) })
      expect(saved.status).toBe(200)
      const { template_id } = saved.body.terms as { template_id: string }
      const page = await stand.authority.request('GET', `/terms/${template_id}`, {
        headers: { accept: 'text/html' },
      })
      expect(page.headers.get('content-security-policy')).toContain("default-src 'none'")
      await shown('policies')
      // What differs from version to version is its number.
      return page.text.replaceAll(template_id, '<id>')
    }
    const plain = tags(await pageOf('harmless'))
    const writable = fc
      .oneof(fc.constantFrom(...texts), fc.string({ minLength: 1, maxLength: 60 }))
      .filter(text => !text.includes('\0'))
    await fc.assert(
      fc.asyncProperty(writable, async text => {
        const page = await pageOf(text)
        expect(tags(page)).toEqual(plain)
        for (const line of page.split('\n')) expect(line).not.toMatch(ACTING)
      }),
      { numRuns: 30 },
    )
  })
})
