/** The sidecar asks to be let in: contract, "Resource server establishment: POST `/rs/register`". */
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { startRegistration, type RegistrationLoop } from '../../src/enforcement/authorities/registration.ts'
import { createLogger } from '../../src/http/telemetry/log.ts'
import { createOutbound, type Outbound } from '../../src/http/outbound/outbound.ts'
import { verifyRequest } from '../../src/wire/signatures/http-signature.ts'
import { issueCertificate, makeCa } from '../support/local-ca.ts'
import { startScriptedAuthority, type ScriptedAuthority } from '../support/scripted-authority.ts'
import { startScriptedServer } from '../support/scripted-http.ts'
import { until } from '../support/until.ts'
import { newKey, nowSeconds } from './calls.ts'
import { asOwner } from '../../src/wire/identifiers.ts'

const key = newKey()
const resource = 'https://tools.example.com/mcp/alice'
let authority: ScriptedAuthority
let outbound: Outbound
let registration: RegistrationLoop | undefined
let lines: { msg: string; why?: string; status?: string }[]

beforeEach(async () => {
  authority = await startScriptedAuthority()
  outbound = createOutbound({ devLoopback: true })
  lines = []
})
afterEach(async () => {
  registration?.stop()
  await outbound.close()
  await authority.close()
})

const start = (name?: string, waitingMs?: number, issuer = authority.issuer) => {
  const write = (line: string) => void lines.push(JSON.parse(line) as (typeof lines)[0])
  const logger = createLogger({ name: 'test', level: 'info', write })
  const about = { authority: issuer, owner: asOwner('alice'), resource, name, key }
  registration = startRegistration({ ...about, outbound, logger, clock: Date.now, waitingMs })
}
const asked = () => authority.count('/rs/register')
const settled = () => lines.some(({ msg }) => msg.startsWith('registered'))

describe('A registration', () => {
  test('says owner, resource_uri and name, signed over the body by the key that the resource publishes', async () => {
    authority.script('/rs/register', { status: 202, body: { client_id: resource, status: 'pending' } })
    start('The broker')
    await until(settled)
    const [request] = authority.received
    expect(JSON.parse(request!.body)).toEqual({ owner: 'alice', resource_uri: resource, name: 'The broker' })
    const headers = new Map(Object.entries(request!.headers).map(([name, value]) => [name, [String(value)]]))
    const { covered } = verifyRequest(
      {
        method: 'POST',
        scheme: 'http',
        authority: new URL(authority.issuer).host,
        path: '/rs/register',
        headers,
        body: Buffer.from(request!.body),
      },
      {
        // Sent empty and covered: the verifier has no reading of its own for an absent one.
        requiredComponents: ['@method', '@authority', '@path', 'authorization'],
        mustCoverDigest: true,
        keyidRequired: true,
        now: nowSeconds(),
        findKey: keyid => (keyid === key.kid ? key : undefined),
      },
    )
    expect(covered).toContain('content-digest')
  })

  test.each([
    [202, 'pending'],
    [200, 'active'],
  ])('that is answered %s %s is told of, and nothing more is asked at once', async (status, word) => {
    authority.script('/rs/register', { status, body: { client_id: resource, status: word } })
    start()
    await until(settled)
    expect(lines.find(({ msg }) => msg.startsWith('registered'))).toMatchObject({ status: word })
    expect(asked()).toBe(1)
    expect(JSON.parse(authority.received[0]!.body)).not.toHaveProperty('name')
  })

  test.each<[string, Parameters<ScriptedAuthority['script']>[1], RegExp]>([
    [
      'is refused, as its documents may not be reachable yet',
      { status: 400, body: { error: 'invalid_request', error_description: 'No document.' } },
      /400 invalid_request No document\./,
    ],
    ['is refused for a signature', { status: 401, body: { error: 'invalid_client' } }, /401 invalid_client/],
    ['comes too early for its owner', { status: 403, body: { error: 'access_denied' } }, /403 access_denied/],
    ['finds the queue full', { status: 429, body: { error: 'request_denied' } }, /429 request_denied/],
    ['meets an outage', { status: 503, body: 'down' }, /503/],
    ['gets no answer', 'cut', /broke/],
    ['gets another answer', { status: 200, body: { status: 'fine' } }, /200/],
  ])('that %s is asked again, later and later', async (_what, script, why) => {
    authority.script('/rs/register', (_received, nth) =>
      nth < 3 && script !== undefined && typeof script !== 'function'
        ? script
        : { status: 202, body: { client_id: resource, status: 'pending' } },
    )
    start()
    await until(settled)
    expect(asked()).toBe(3)
    const retries = lines.filter(({ msg }) => msg === 'not registered yet')
    expect(retries).toHaveLength(2)
    for (const line of retries) expect(line.why).toMatch(why)
    expect(retries.map(line => (line as unknown as { retry_ms: number }).retry_ms > 0)).toEqual([true, true])
  })

  test('that meets a certificate by a CA that it does not know says which setting names that CA', async () => {
    const untrusted = await startScriptedServer(() => undefined, await issueCertificate(await makeCa(), 'as'))
    start(undefined, undefined, untrusted.origin)
    await until(() => lines.some(({ msg }) => msg === 'not registered yet'))
    expect(lines[0]!.why).toMatch(
      /broke \(\w+\): its certificate is by a CA that is not known here\. Name that CA in authority_ca_file/,
    )
    await untrusted.close()
  })

  test.each([
    ['3', 3_000, 3_600],
    // A day, after a withdrawal: an owner may let it in sooner in some other way, so it is not slept through.
    ['86400', 3_600_000, 3_601_000],
    ['soon', 0, 600],
  ])(
    'that is told to wait for %s seconds waits so long, and an hour at most',
    async (header, least, most) => {
      const headers = { 'retry-after': header }
      authority.script('/rs/register', { status: 429, headers, body: { error: 'request_denied' } })
      start()
      await until(() => lines.some(({ msg }) => msg === 'not registered yet'))
      const { retry_ms } = lines.find(({ msg }) => msg === 'not registered yet') as unknown as {
        retry_ms: number
      }
      expect(retry_ms).toBeGreaterThanOrEqual(least)
      expect(retry_ms).toBeLessThanOrEqual(most)
    },
  )

  test('that waits is asked for again, as it lapses when the owner is away, until she has let it in', async () => {
    authority.script('/rs/register', (_received, nth) => {
      if (nth === 2) return { status: 503, body: { error: 'temporarily_unavailable' } }
      return nth < 4
        ? { status: 202, body: { client_id: resource, status: 'pending' } }
        : { status: 200, body: { client_id: resource, status: 'active' } }
    })
    start(undefined, 20)
    await until(() => lines.some(({ status }) => status === 'active'))
    expect(asked()).toBe(4)
    // Each is told of once.
    expect(lines.map(({ status }) => status).filter(Boolean)).toEqual(['pending', 'active'])
  })

  test.each([
    [429, 'request_denied', 'withdrawn_lately'],
    [403, 'access_denied', 'origin_banned'],
  ])(
    'that waited and is then refused by the owner (%s %s %s) is not asked for again',
    async (status, error, reason) => {
      authority.script('/rs/register', (_received, nth) =>
        nth === 1
          ? { status: 202, body: { client_id: resource, status: 'pending' } }
          : { status, body: { error, reason } },
      )
      start(undefined, 20)
      await until(() => lines.some(({ msg }) => msg.startsWith('the owner has refused')))
      expect(asked()).toBe(2)
      expect(lines.some(({ msg }) => msg === 'not registered yet')).toBe(false)
    },
  )

  test('that is stopped while it waits asks no more', async () => {
    authority.script('/rs/register', { status: 202, body: { client_id: resource, status: 'pending' } })
    start(undefined, 20)
    await until(() => asked() > 2)
    registration!.stop()
    const atStop = asked()
    await outbound.close()
    expect(asked()).toBeLessThanOrEqual(atStop + 1)
  })

  test('that is stopped asks no more', async () => {
    authority.script('/rs/register', { status: 500, body: {} })
    start()
    await until(() => asked() === 1)
    registration!.stop()
    await until(() => lines.length > 0 || asked() === 1)
    expect(asked()).toBe(1)
  })
})
