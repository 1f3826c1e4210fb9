/**
 * Contract, "Events" and "Health": each security event is one line of the log and one more of its counter.
 * The line names people and things by their ids, and contains no secret and no text that an agent wrote.
 */
import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { issueCode } from '../../src/authority/administration/recovery.ts'
import { createLogger } from '../../src/http/telemetry/log.ts'
import { inTransaction } from '../../src/storage/core/database.ts'
import { generatePrivateJwk, importPrivateJwk, publicJwk } from '../../src/wire/signatures/keys.ts'
import { ISSUER, startTestAuthority, type TestAuthority } from '../support/authority.ts'
import { newKey, startOperator, type TestOperator } from '../support/operators.ts'
import * as seed from '../support/seed.ts'
import { decideServer, startResourceServer, type TestResourceServer } from '../support/resource-server.ts'
import { decide, pendingAt, testAgent, type TestAgent } from '../support/test-agent.ts'
import { until } from '../support/until.ts'
import { usherProgram } from '../support/usher-program.ts'

interface Line {
  msg: string
  event: string
  [member: string]: unknown
}

const REASON = 'a reason that only the owner reads'
/** Text that must not be in any line. */
const secrets: string[] = [REASON]
const texts: string[] = []
let authority: TestAuthority
let tools: TestResourceServer
let operator: TestOperator
let agent: TestAgent
let waiting: string
const operatorKey = newKey()

beforeAll(async () => {
  authority = await startTestAuthority({
    environment: { UMA_DEV_LOOPBACK: 'true' },
    log: createLogger({ name: 'authority', level: 'info', write: line => void texts.push(line) }),
  })
  tools = await startResourceServer(ISSUER)
  operator = await startOperator({ keys: [operatorKey] })
  agent = testAgent(authority, { key: operatorKey, client_id: operator.client_id })
  secrets.push(authority.alice.clientSecret)
})
afterAll(() => Promise.all([authority.close(), tools.close(), operator.close()]))

const lines = () => texts.map(text => JSON.parse(text) as Line).filter(({ msg }) => msg === 'security')
const counts = async (): Promise<Record<string, number>> => {
  const text = await (await fetch(`${authority.metricsUrl}/metrics`)).text()
  const found = text.matchAll(/^usher_security_events_total\{event="(\w+)"\} (\d+)$/gm)
  return Object.fromEntries([...found].map(([, event, n]) => [event, Number(n)]))
}
const post = async (target: string, json: object, status = 200) => {
  const reply = await authority.call(authority.alice, { method: 'POST', target, json })
  expect([reply.status, reply.text]).toEqual([status, reply.text])
  return reply
}
const ask = async (by = agent) => {
  const reply = await by.ask('portfolio_read', { reason: REASON })
  secrets.push(reply.body.ticket ?? reply.body.access_token)
  return reply
}
const tierOf = (id: string, purpose: string) => ({
  id,
  name: 'The reading tier',
  resources: ['alice/portfolio'],
  ask_me: false,
  rules: [],
  terms: { purpose, scope: ['read'], expires_in: 3_600, prohibited: [], per_operation: false },
})

/** The lines that `usher authority audit` prints. */
const audit = async (...options: string[]): Promise<string[]> => {
  const { stdout } = await promisify(execFile)(
    process.execPath,
    [usherProgram(), 'authority', 'audit', ...options],
    {
      env: { PATH: process.env['PATH'] ?? '', DATABASE_URL: authority.database.url },
    },
  )
  return stdout.split('\n').filter(line => line !== '')
}

/** Each does one thing in turn, and returns what the log must say about it, besides a position of hers. */
const EVENTS: [what: string, event: string, act: () => Promise<object>, beside?: string][] = [
  [
    'a credential that is refused',
    'credential_refused',
    async () => {
      const stranger = { ...authority.alice, key: importPrivateJwk(generatePrivateJwk()) }
      expect((await authority.call(stranger, { target: '/owner/pending' })).status).toBe(401)
      return { method: 'GET', route: '/owner/pending' }
    },
  ],
  [
    'an enrolment',
    'credential_added',
    async () => {
      const owner = await seed.seedOwner(authority.database.db)
      const accepted = { deviceKeys: true, issuer: undefined }
      const { code } = await inTransaction(authority.database.db, tx =>
        issueCode(
          tx,
          { enrolmentSeconds: 3_600, recoverySeconds: 0, accepted },
          { owner, recover: false, actor: { kind: 'authority' } },
        ),
      )
      const key = importPrivateJwk(generatePrivateJwk())
      secrets.push(code)
      const json = { code, name: 'another laptop', jwk: publicJwk(key) }
      const target = '/owner/enrolment'
      expect(
        (await authority.call(authority.alice, { method: 'POST', target, json, sign: { key } })).status,
      ).toBe(201)
      return { owner }
    },
  ],
  [
    'a denial',
    'denied',
    async () => {
      const stranger = testAgent(authority)
      await ask(stranger)
      const { family } = (await pendingAt(authority)).find(({ handle }) => handle === stranger.handle)!
      await decide(authority, stranger.handle, 'denied')
      return { owner: 'alice', handle: stranger.handle, family }
    },
  ],
  [
    'an approval',
    'approved',
    async () => {
      waiting = (await ask()).body.ticket
      const { family } = (await pendingAt(authority)).find(({ handle }) => handle === agent.handle)!
      await decide(authority, agent.handle, 'approved')
      return { owner: 'alice', handle: agent.handle, family }
    },
    'connected',
  ],
  [
    'a grant',
    'granted',
    async () => {
      const reply = await agent.present(waiting)
      expect(reply.status).toBe(200)
      secrets.push(reply.body.receipt, reply.body.access_token)
      return {
        owner: 'alice',
        handle: agent.handle,
        family: expect.stringMatching(/^fam_/),
        jti: expect.stringMatching(/^rpt_/),
      }
    },
  ],
  [
    'an edit of a policy',
    'policy_changed',
    async () => {
      const reply = await authority.call(authority.alice, {
        method: 'PUT',
        target: '/owner/policies/reading',
        json: tierOf('reading', 'For reading alone'),
      })
      expect(reply.status).toBe(200)
      return { owner: 'alice' }
    },
  ],
  [
    'a revocation',
    'revoked',
    async () => {
      await post('/owner/connections/revoke', { handle: agent.handle })
      return { owner: 'alice', handle: agent.handle }
    },
  ],
  [
    'a block',
    'blocked',
    async () => {
      await post('/owner/operators/block', { origin: operator.origin })
      return { owner: 'alice' }
    },
  ],
  [
    'a registration',
    'resource_server_pending',
    async () => {
      expect((await tools.register(authority, 'told')).status).toBe(202)
      return { owner: 'alice' }
    },
  ],
  [
    'the approval of a resource server',
    'server_approved',
    async () => {
      await decideServer(authority, tools.resource('told'), 'approved')
      return { owner: 'alice' }
    },
  ],
  [
    'the withdrawal of a resource server',
    'server_withdrawn',
    async () => {
      await decideServer(authority, tools.resource('told'), 'revoked')
      return { owner: 'alice' }
    },
  ],
]

describe('A security event', () => {
  it.each(EVENTS)(
    '%s is one line, with ids alone, and one more of its counter',
    async (_what, event, act, beside) => {
      const before = { lines: lines().length, counts: await counts() }
      const ids = await act()
      await until(() => lines().length > before.lines)
      await until(async () => ((await counts())[event] ?? 0) > (before.counts[event] ?? 0))
      const told = lines().slice(before.lines)
      // A first contact that is approved is connected, too, which is an event of its own.
      expect(told.map(one => one.event)).toEqual(beside === undefined ? [event] : [beside, event])
      const level = event === 'credential_refused' ? 'warn' : 'info'
      const position = event === 'credential_refused' ? {} : { seq: expect.any(Number) }
      const time = expect.any(String)
      expect(told.at(-1)).toEqual({
        level,
        time,
        name: 'authority',
        event,
        ...ids,
        ...position,
        msg: 'security',
      })
      const one = (name: string) => ({ [name]: (before.counts[name] ?? 0) + 1 })
      expect(await counts()).toEqual({ ...before.counts, ...(beside && one(beside)), ...one(event) })
    },
  )

  it('is in the audit of a command, too: the same events and ids, each with a time and an id of its own', async () => {
    const audited = (await audit('--since', '1h')).map(line => JSON.parse(line) as Record<string, unknown>)
    const facts = ({ event, owner, seq, handle, family, jti }: Record<string, unknown>) =>
      JSON.stringify({ event, owner, seq, handle, family, jti })
    const logged = lines().filter(({ event }) => event !== 'credential_refused')
    expect(audited.map(facts).sort()).toEqual(logged.map(facts).sort())
    expect(new Set(audited.map(({ id }) => id)).size).toBe(audited.length)
    for (const { at } of audited) expect(Date.parse(at as string)).toBeGreaterThan(Date.now() - 3_600_000)
  })

  it('is in the audit of one owner and of a period alone, if these are named', async () => {
    const hers = await audit('--since', '1h', '--owner', 'alice')
    expect(hers.length).toBeGreaterThan(5)
    for (const line of hers) expect(JSON.parse(line)).toMatchObject({ owner: 'alice' })
    expect(await audit('--since', '2h', '--until', '1h')).toEqual([])
  })

  it('is in the audit in the Common Event Format, a line for each', async () => {
    const [json, cef] = await Promise.all([audit('--since', '1h'), audit('--since', '1h', '--format', 'cef')])
    expect(cef).toHaveLength(json.length)
    for (const line of cef)
      expect(line).toMatch(
        /^CEF:0\|usher\|usher authority\|[^|]+\|\w+\|[\w ]+\|\d\|rt=\d+ externalId=\S+ duser=/,
      )
    for (const secret of secrets) expect([...json, ...cef].join('')).not.toContain(secret)
  })

  it('has no secret in any line, nor has any other line of the log', () => {
    expect(secrets.length).toBeGreaterThan(6)
    for (const secret of secrets) expect(texts.join('')).not.toContain(secret)
  })
})
