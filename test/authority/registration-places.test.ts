/**
 * An owner's places for resource servers that ask to serve her: nobody fills them for good, and she says
 * whose software may not ask. Contract: "Resource server registration", "Owner API"
 * (`/owner/resource-servers`), "Events".
 */
import { describe, expect, it } from 'vitest'
import { sweepLapsed } from '../../src/authority/registry/lapsed-registrations.ts'
import type { LedgerKind } from '../../src/storage/authority/ledger/ledger.ts'
import { ISSUER, type Reply, type TestOwner } from '../support/authority.ts'
import {
  ageDecision,
  ageRegistration,
  decideServer,
  startResourceServer,
  type TestResourceServer,
} from '../support/resource-server.ts'
import { authorityStand } from '../support/stands.ts'
import { callWithPat } from '../support/test-agent.ts'

const authority = authorityStand({ owners: ['alice', 'bea'], environment: { UMA_DEV_LOOPBACK: 'true' } })
const bea = (): TestOwner => authority.owners['bea']!
const own = (method: 'GET' | 'POST', target: string, json?: unknown, owner = authority.alice) =>
  authority.call(owner, { method, target, ...(json === undefined ? {} : { json }) })
const answers = ({ status, body }: Reply) => [status, body.error ?? body.status]
const refused = ({ status, body }: Reply) => [status, body.error, body.reason]

const decide = (client_ids: string[], decision: string, owner = authority.alice) =>
  own('POST', '/owner/resource-servers/decision', { client_ids, decision }, owner)
const ban = (origin: unknown, owner = authority.alice) =>
  own('POST', '/owner/resource-servers/ban', { origin }, owner)
const unban = (origin: unknown, owner = authority.alice) =>
  own('POST', '/owner/resource-servers/unban', { origin }, owner)
const banned = async (owner = authority.alice) =>
  (await own('GET', '/owner/resource-servers/banned', undefined, owner)).body as { origin: string }[]
const statusOf = async (client_id: string) =>
  (
    (await own('GET', '/owner/resource-servers?limit=1000')).body as { client_id: string; status: string }[]
  ).find(one => one.client_id === client_id)?.status
const byHer = () => ({
  by: 'owner',
  actor: { kind: 'owner', credential: 'device_key', kid: authority.alice.key.thumbprint },
})
const told = async (kind: LedgerKind, client_id?: string) => {
  const { body } = await own('GET', `/owner/ledger?kind=${kind}&limit=1000`)
  const entries = body.entries as (Record<string, unknown> & { client_id?: string })[]
  return entries.filter(entry => client_id === undefined || entry.client_id === client_id)
}
const events = async (client_id: string) => {
  const { rows } = await authority.database.pool.query<{ event: string; data: Record<string, unknown> }>(
    `SELECT event, data FROM events WHERE owner = 'alice' AND data->>'client_id' = $1 ORDER BY id`,
    [client_id],
  )
  return rows
}

/** Software at its own origin. */
async function strange(): Promise<TestResourceServer & AsyncDisposable> {
  const server = await startResourceServer(ISSUER)
  return { ...server, [Symbol.asyncDispose]: () => server.close() }
}

describe('Of an origin of which she has approved nothing two may wait', () => {
  it('a third is 429 request_denied, with the reason and when to ask again; what waits may ask again', async () => {
    await using one = await strange()
    await using another = await strange()
    const replies = []
    for (const name of ['a', 'b', 'c']) replies.push(await one.register(authority, name))
    expect(replies.map(({ status }) => status)).toEqual([202, 202, 429])
    expect(refused(replies[2]!)).toEqual([429, 'request_denied', 'origin_waits'])
    expect(replies[2]!.headers.get('retry-after')).toBe('60')
    expect((await one.register(authority, 'a')).status).toBe(202)
    // Others have their places, and another owner hers.
    expect((await another.register(authority, 'a')).status).toBe(202)
    expect((await one.register(authority, 'd', { claim: { owner: 'bea' } })).status).toBe(202)
  })

  it('more may once she has approved one of them, and not any more once she has withdrawn it', async () => {
    await using server = await strange()
    for (const name of ['a', 'b']) await server.register(authority, name)
    await decideServer(authority, server.resource('a'), 'approved')
    for (const name of ['c', 'd']) expect((await server.register(authority, name)).status).toBe(202)
    await decideServer(authority, server.resource('a'), 'revoked')
    expect(refused(await server.register(authority, 'e'))).toEqual([429, 'request_denied', 'origin_waits'])
    await decide(
      ['b', 'c', 'd'].map(name => server.resource(name)),
      'revoked',
    )
  })

  it('two of 32 that register at once wait, and she is told of two', async () => {
    await using server = await strange()
    const names = Array.from({ length: 32 }, (_, n) => `many-${n}`)
    // Read once, so that concurrent requests compete for the place and not for the documents.
    for (const name of names) await server.register(authority, name, { sign: false })
    const replies = await Promise.all(names.map(name => server.register(authority, name)))
    expect(replies.filter(({ status }) => status === 202)).toHaveLength(2)
    const others = replies.filter(({ status }) => status !== 202)
    expect(new Set(others.map(({ status }) => status)).has(429)).toBe(true)
    const shown = await Promise.all(names.map(name => events(server.resource(name))))
    expect(shown.flat()).toHaveLength(2)
  })
})

describe('A registration waits for seven days', () => {
  it('then it is not listed, holds no place, cannot be decided and gets no PAT, swept or not', async () => {
    await using server = await strange()
    const [a, b] = [server.resource('a'), server.resource('b')]
    for (const name of ['a', 'b']) await server.register(authority, name)
    await ageRegistration(authority, a)
    await ageRegistration(authority, b, '7 days -1 minute')
    expect([await statusOf(a), await statusOf(b)]).toEqual([undefined, 'pending'])
    expect(
      answers(await own('POST', '/owner/resource-servers/decision', { client_id: a, decision: 'approved' })),
    ).toEqual([404, 'not_found'])
    expect(answers(await decide([b, a], 'approved'))).toEqual([404, 'not_found'])
    expect(await statusOf(b)).toBe('pending')
    expect(answers(await server.token(authority, 'a'))).toEqual([401, 'invalid_client'])
    expect((await server.register(authority, 'c')).status).toBe(202)
  })

  it('she is told once that it is over, in her ledger and on her stream, by whoever sees it first', async () => {
    await using server = await strange()
    const client_id = server.resource('a')
    await server.register(authority, 'a')
    await ageRegistration(authority, client_id)
    const { db } = authority.database
    const { owner } = authority.alice
    await Promise.all([
      ...Array.from({ length: 4 }, () => sweepLapsed(db, owner)),
      server.register(authority, 'b'),
      ban('https://elsewhere.example'),
    ])
    expect((await events(client_id)).map(({ event, data }) => [event, data])).toEqual([
      ['resource_server_pending', { client_id, status: 'pending' }],
      ['resource_server_decided', { client_id, status: 'revoked', by: 'expiry' }],
    ])
    expect(await told('server_withdrawn', client_id)).toMatchObject([{ by: 'expiry' }])
  })

  it('it may register again at once, and is shown to her again', async () => {
    await using server = await strange()
    await server.register(authority, 'a')
    await ageRegistration(authority, server.resource('a'))
    expect(answers(await server.register(authority, 'a'))).toEqual([202, 'pending'])
    expect((await events(server.resource('a'))).map(({ data }) => data['status'])).toEqual([
      'pending',
      'revoked',
      'pending',
    ])
    expect(await statusOf(server.resource('a'))).toBe('pending')
  })

  it('approved in time or lapsed, never both: an approval at the end of it either stands or is 404', async () => {
    for (let round = 0; round < 6; round++) {
      await using server = await strange()
      const client_id = server.resource('a')
      await server.register(authority, 'a')
      await ageRegistration(authority, client_id, '7 days -60 milliseconds')
      const { owner } = authority.alice
      const sweeping = (async () => {
        for (let n = 0; n < 12; n++) await sweepLapsed(authority.database.db, owner)
      })()
      const [reply] = await Promise.all([
        own('POST', '/owner/resource-servers/decision', { client_id, decision: 'approved' }),
        sweeping,
      ])
      const approved = reply.status === 200
      expect(approved || reply.status === 404).toBe(true)
      expect(await statusOf(client_id)).toBe(approved ? 'active' : undefined)
      expect(await told('server_approved', client_id)).toHaveLength(approved ? 1 : 0)
      if (approved) expect(await told('server_withdrawn', client_id)).toEqual([])
    }
  })
})

describe('One that she withdrew may register again after 24 hours', () => {
  it('before that it is 429, which says how long it takes, and she is not asked', async () => {
    await using server = await strange()
    const client_id = server.resource('a')
    await server.register(authority, 'a')
    await decideServer(authority, client_id, 'revoked')
    await ageDecision(authority, client_id, '23 hours')
    const early = await server.register(authority, 'a')
    expect(refused(early)).toEqual([429, 'request_denied', 'withdrawn_lately'])
    const left = Number(early.headers.get('retry-after'))
    expect(left).toBeGreaterThan(3_500)
    expect(left).toBeLessThanOrEqual(3_600)
    expect(await statusOf(client_id)).toBe('revoked')
    expect(await events(client_id)).toHaveLength(2)
    await ageDecision(authority, client_id, '1 hour')
    expect(answers(await server.register(authority, 'a'))).toEqual([202, 'pending'])
  })

  it('left unanswered then, it is withdrawn again, and a PAT of before stays dead', async () => {
    await using server = await strange()
    const client_id = server.resource('a')
    await server.register(authority, 'a')
    await decideServer(authority, client_id, 'approved')
    const pat = await server.pat(authority, 'a')
    await decideServer(authority, client_id, 'revoked')
    await ageDecision(authority, client_id)
    await server.register(authority, 'a')
    await ageRegistration(authority, client_id)
    expect(await statusOf(client_id)).toBe('revoked')
    expect(answers(await server.token(authority, 'a'))).toEqual([403, 'access_denied'])
    await sweepLapsed(authority.database.db, authority.alice.owner)
    expect(await statusOf(client_id)).toBe('revoked')
    const conflict = await own('POST', '/owner/resource-servers/decision', {
      client_id,
      decision: 'approved',
    })
    expect(answers(conflict)).toEqual([409, 'conflict'])
    const reply = await callWithPat(authority, pat, '/introspect', { token: 'x' })
    expect(reply.status).toBe(401)
  })
})

describe('POST /owner/resource-servers/ban and unban', () => {
  it('withdraws what waits at the origin, leaves what she approved there, and lets none of it register', async () => {
    await using server = await strange()
    const [active, waits] = [server.resource('active'), server.resource('waits')]
    await server.register(authority, 'active')
    await decideServer(authority, active, 'approved')
    await server.register(authority, 'waits')
    const reply = await ban(server.origin)
    expect([reply.status, reply.body]).toEqual([
      200,
      { origin: server.origin, banned: true, withdrawn: [waits] },
    ])
    expect([await statusOf(active), await statusOf(waits)]).toEqual(['active', 'revoked'])
    expect((await server.token(authority, 'active')).status).toBe(200)
    for (const name of ['waits', 'another'])
      expect(refused(await server.register(authority, name))).toEqual([403, 'access_denied', 'origin_banned'])
    // Who asks each minute, as a sidecar does that was told nothing, asks in vain.
    expect((await server.register(authority, 'waits')).headers.get('retry-after')).toBe('3600')
    expect(answers(await server.register(authority, 'active'))).toEqual([200, 'active'])
    expect((await events(waits)).at(-1)).toMatchObject({
      event: 'resource_server_decided',
      data: { client_id: waits, status: 'revoked', actor: byHer().actor },
    })
    expect(await told('server_withdrawn', waits)).toMatchObject([{ origin: server.origin, ...byHer() }])
  })

  it('only somebody who proved that the origin is his is told of it: others see the usual refusal', async () => {
    await using server = await strange()
    await ban(server.origin)
    expect((await server.register(authority, 'a', { sign: false })).status).toBe(401)
  })

  it("is hers alone: another owner's ban changes nothing for her, nor hers for another", async () => {
    await using server = await strange()
    await server.register(authority, 'a')
    expect((await ban(server.origin, bea())).body).toMatchObject({ withdrawn: [] })
    expect(await statusOf(server.resource('a'))).toBe('pending')
    expect((await server.register(authority, 'b')).status).toBe(202)
    const hers = await server.register(authority, 'c', { claim: { owner: 'bea' } })
    expect(refused(hers)).toEqual([403, 'access_denied', 'origin_banned'])
    expect((await banned()).map(({ origin }) => origin)).not.toContain(server.origin)
    expect(answers(await unban(server.origin))).toEqual([404, 'not_found'])
  })

  it('is told once, listed, and undone: then what was withdrawn may ask again after its pause', async () => {
    await using server = await strange()
    const client_id = server.resource('a')
    await server.register(authority, 'a')
    for (let n = 0; n < 2; n++) expect((await ban(server.origin)).status).toBe(200)
    expect(await banned()).toContainEqual({ origin: server.origin, banned_at: expect.any(String) })
    const reply = await unban(server.origin)
    expect([reply.status, reply.body]).toEqual([200, { origin: server.origin, banned: false }])
    const entries = async (kind: LedgerKind) =>
      (await told(kind)).filter(entry => entry['origin'] === server.origin)
    expect(await entries('origin_banned')).toMatchObject([byHer()])
    expect(await entries('origin_unbanned')).toMatchObject([byHer()])
    expect(answers(await unban(server.origin))).toEqual([404, 'not_found'])
    expect(refused(await server.register(authority, 'a'))).toEqual([
      429,
      'request_denied',
      'withdrawn_lately',
    ])
    expect((await server.register(authority, 'b')).status).toBe(202)
    await ageDecision(authority, client_id)
    expect((await server.register(authority, 'a')).status).toBe(202)
  })

  it('of an origin that nobody has heard of keeps it from ever asking', async () => {
    await using server = await strange()
    await ban(server.origin)
    expect((await server.register(authority, 'a')).status).toBe(403)
    expect(await statusOf(server.resource('a'))).toBeUndefined()
  })

  it('racing with registrations leaves none waiting', async () => {
    for (let round = 0; round < 6; round++) {
      await using server = await strange()
      const names = Array.from({ length: 4 }, (_, n) => `race-${n}`)
      for (const name of names) await server.register(authority, name, { sign: false })
      const [banning, ...replies] = await Promise.all([
        ban(server.origin),
        ...names.map(name => server.register(authority, name)),
      ])
      const waited = names.filter((_, n) => replies[n]!.status === 202)
      expect(banning.body.withdrawn).toEqual(waited.map(name => server.resource(name)).toSorted())
      for (const name of names) expect(await statusOf(server.resource(name))).not.toBe('pending')
    }
  })

  it.each([
    ['upper case', 'https://Tools.example'],
    ['the default port', 'https://tools.example:443'],
    ['the dot of the root', 'https://tools.example.'],
    ['a name in another script', 'https://bücher.example'],
    ['a path', 'https://tools.example/mcp'],
    ['a slash', 'https://tools.example/'],
    ['no scheme', 'tools.example'],
    ['http', 'http://tools.example'],
    ['user information', 'https://a@tools.example'],
    ['an address written otherwise', 'https://0x8.8.8.8'],
    ['a NUL', 'https://tools.example\0'],
    ['nothing', ''],
    ['no text', ['https://tools.example']],
    ['too much', `https://${'x'.repeat(300)}.example`],
  ])('takes an origin in its one spelling, and not with %s: 400', async (_what, origin) => {
    for (const reply of [await ban(origin), await unban(origin)]) {
      expect(answers(reply)).toEqual([400, 'invalid_request'])
      expect(reply.body.error_description).toContain('origin')
    }
  })

  it.each(['https://xn--bcher-kva.example', 'https://tools.example:8443', 'https://[2001:db8::1]'])(
    'takes %s',
    async origin => {
      expect((await ban(origin)).status).toBe(200)
      expect((await unban(origin)).status).toBe(200)
    },
  )
})

describe('Several may be decided at once', () => {
  it('of one origin: the records come in the order in which they were named, each with its event and entry', async () => {
    await using server = await strange()
    const ids = ['b', 'a'].map(name => server.resource(name))
    for (const name of ['a', 'b']) await server.register(authority, name)
    const reply = await decide(ids, 'approved')
    expect(reply.status).toBe(200)
    expect(reply.body).toMatchObject(ids.map(client_id => ({ client_id, status: 'active' })))
    for (const client_id of ids) {
      expect(await told('server_approved', client_id)).toMatchObject([byHer()])
      expect(await events(client_id)).toHaveLength(2)
    }
  })

  it('not of several origins: 400, and nothing is decided', async () => {
    await using one = await strange()
    await using another = await strange()
    const ids = [one.resource('a'), another.resource('a')]
    for (const server of [one, another]) await server.register(authority, 'a')
    const reply = await decide(ids, 'approved')
    expect(answers(reply)).toEqual([400, 'invalid_request'])
    expect(reply.body.error_description).toContain('one origin')
    expect(await Promise.all(ids.map(statusOf))).toEqual(['pending', 'pending'])
  })

  it('all or none: one that is unknown is 404, one that cannot be so decided 409', async () => {
    await using server = await strange()
    const [a, b] = [server.resource('a'), server.resource('b')]
    for (const name of ['a', 'b']) await server.register(authority, name)
    const unknown = await decide([a, server.resource('nowhere')], 'approved')
    expect(answers(unknown)).toEqual([404, 'not_found'])
    expect(unknown.body.error_description).toContain(`"${server.resource('nowhere')}"`)
    await decideServer(authority, b, 'revoked')
    const conflict = await decide([a, b], 'approved')
    expect(answers(conflict)).toEqual([409, 'conflict'])
    expect(conflict.body.error_description).toContain(`"${b}"`)
    expect(await statusOf(a)).toBe('pending')
    expect(await told('server_approved', a)).toEqual([])
    // And another owner's are unknown like any other.
    expect(answers(await decide([a], 'approved', bea()))).toEqual([404, 'not_found'])
  })

  it.each<[string, object]>([
    ['none', { client_ids: [] }],
    ['one twice', { client_ids: ['x', 'x'] }],
    ['too many', { client_ids: Array.from({ length: 101 }, (_, n) => `x${n}`) }],
    ['both ways of naming', { client_ids: ['x'], client_id: 'x' }],
    ['no list', { client_ids: 'x' }],
  ])('%s is 400', async (_what, json) => {
    const reply = await own('POST', '/owner/resource-servers/decision', { ...json, decision: 'approved' })
    expect(answers(reply)).toEqual([400, 'invalid_request'])
    expect(reply.body.error_description).toContain('client_id')
  })
})
