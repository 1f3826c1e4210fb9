/**
 * Standing connections and operators: contract, "Connection" (states), "Owner API", "What the service does"
 * (row 9).
 */
import { describe, expect, it, vi } from 'vitest'
import { consumeGrant } from '../../src/storage/authority/grants/consume.ts'
import { readGrant } from '../../src/storage/authority/grants/read.ts'
import { readEvents } from '../../src/storage/authority/ledger/events.ts'
import { presentTicket } from '../../src/storage/authority/negotiations/tickets.ts'
import type { Reply } from '../support/authority.ts'
import * as seed from '../support/seed.ts'
import { asHandle, asOwner, type Handle } from '../../src/wire/identifiers.ts'
import { authorityStand } from '../support/stands.ts'

const authority = authorityStand({ owners: ['alice', 'bea', 'cleo'] })

const db = () => authority.database.db
const post = (target: string, json: unknown, owner = authority.alice) =>
  authority.call(owner, { method: 'POST', target, json })
const revoke = (handle: string, owner = authority.alice) =>
  post('/owner/connections/revoke', { handle }, owner)
const get = (target: string, owner = authority.alice) => authority.call(owner, { target })
const newOperator = () => `https://${seed.name('op')}.example`
/** In an order in which each of them finds the operator as it needs it. */
const OPERATOR_ACTS = ['block', 'unblock', 'claim', 'disclaim']
const told = ({ status, text, headers }: Reply) => ({
  status,
  text,
  headers: [...headers].filter(([name]) => name !== 'date'),
})

async function connected(more: Parameters<typeof seed.seedConnection>[3] = {}) {
  const handle = seed.name('jkt:')
  const generation = await seed.seedConnection(db(), asOwner('alice'), handle, more)
  const rpt = await seed.seedGrant(db(), asOwner('alice'), handle, generation)
  return { handle, rpt }
}

describe('GET /owner/connections', () => {
  it('lists each standing relationship by handle, a page at a time', async () => {
    const handles = ['jkt:a', 'jkt:b', 'jkt:c'].map(asHandle)
    for (const handle of handles) await seed.seedConnection(db(), asOwner('cleo'), handle)
    const cleo = authority.owners['cleo']!
    const first = await get('/owner/connections?limit=2', cleo)
    expect(first.body[0]).toEqual({
      handle: 'jkt:a',
      admits: 'all',
      identity: 'pseudonymous',
      label: null,
      status: 'active',
      first_seen: expect.stringMatching(/^\d{4}-/),
      last_access: null,
      tiers_granted: [],
      tiers_approved: [],
      revocations: 0,
      introduced_by: null,
      reach: null,
      operators: [],
      blocked_at: null,
    })
    expect(first.headers.get('link')).toBe('</owner/connections?after=jkt%3Ab&limit=2>; rel="next"')
    const all: string[] = []
    for await (const connection of cleo.client.connections()) all.push(connection.handle)
    expect(all).toEqual(handles)
  })
})

describe('PUT /owner/connections/label', () => {
  const label = (handle: string, text: unknown, owner = authority.alice) =>
    authority.call(owner, {
      method: 'PUT',
      target: '/owner/connections/label',
      json: { handle, label: text },
    })
  const labelOf = async (handle: string) => {
    const { body } = await get('/owner/connections?limit=1000')
    return (body as { handle: string; label: string | null }[]).find(one => one.handle === handle)?.label
  }

  it('calls a connection by a name of her own, which her list shows, until null takes it back', async () => {
    const { handle } = await connected()
    expect(await label(handle, 'Tax assistant')).toMatchObject({
      status: 200,
      body: { handle, label: 'Tax assistant' },
    })
    expect(await labelOf(handle)).toBe('Tax assistant')
    expect((await label(handle, null)).body).toEqual({ handle, label: null })
    expect(await labelOf(handle)).toBeNull()
  })

  it('outlives a revocation and another approval, so that she knows the agent again', async () => {
    const { handle } = await connected()
    await label(handle, 'The one that sold everything')
    await revoke(handle)
    expect(await labelOf(handle)).toBe('The one that sold everything')
    const { family } = await seed.seedWaiting(db(), asOwner('alice'), handle)
    await authority.alice.client.decide(family, 'approved')
    expect(await labelOf(handle)).toBe('The one that sold everything')
  })

  it('is an event if it changed, and no entry of the ledger: nothing is decided by it', async () => {
    const handle = seed.name('jkt:')
    await seed.seedConnection(db(), asOwner('cleo'), handle)
    const cleo = authority.owners['cleo']!
    for (const text of ['Mine', 'Mine', null]) await label(handle, text, cleo)
    const events = await readEvents(db(), asOwner('cleo'), { after: 0, limit: 100 })
    const by = { by: 'owner', actor: { kind: 'owner', credential: 'device_key', kid: cleo.key.thumbprint } }
    expect(events.map(({ event, data }) => ({ event, data }))).toEqual([
      { event: 'connection_labelled', data: { handle, label: 'Mine', ...by } },
      { event: 'connection_labelled', data: { handle, label: null, ...by } },
    ])
    const { body } = await get(`/owner/ledger?handle=${encodeURIComponent(handle)}`, cleo)
    expect(body.entries).toEqual([])
  })

  it.each([
    ['of 60 characters, however many bytes they take', '\u{1f600}'.repeat(60)],
    ['of one', 'x'],
  ])('takes one %s', async (_which, text) => {
    const { handle } = await connected()
    expect((await label(handle, text)).status).toBe(200)
    expect(await labelOf(handle)).toBe(text)
  })

  it.each([
    ['is empty', ''],
    ['is blank', ' \u00a0 '],
    ['is longer than 60 characters', '\u{1f600}'.repeat(61)],
    ['has a line feed', 'Mine\nrevoked'],
    ['has an escape', '\u001b[2K'],
    ['has a NUL', 'a\u0000b'],
    ['has a mark that turns the text around it', 'a\u202eb'],
    ['has half of a character', 'a\ud83d'],
    ['is no text', 7],
    ['is left out', undefined],
  ])('refuses one that %s, and keeps what she had', async (_which, text) => {
    const { handle } = await connected()
    await label(handle, 'Mine')
    expect(await label(handle, text)).toMatchObject({ status: 400, body: { error: 'invalid_request' } })
    expect(await labelOf(handle)).toBe('Mine')
  })

  it('unknown and foreign answer alike: 404, same body, same headers, and nothing is written', async () => {
    const { handle } = await connected()
    await label(handle, 'Mine')
    const bea = authority.owners['bea']!
    const [foreign, unknown] = [await label(handle, 'Hers', bea), await label('jkt:nobody', 'Hers', bea)]
    expect(foreign.status).toBe(404)
    expect(told(foreign)).toEqual(told(unknown))
    expect(await labelOf(handle)).toBe('Mine')
  })

  it('of the same agent is each owner’s own', async () => {
    const { handle } = await connected()
    await seed.seedConnection(db(), asOwner('bea'), handle)
    await label(handle, 'Alice’s')
    await label(handle, 'Bea’s', authority.owners['bea'])
    expect(await labelOf(handle)).toBe('Alice’s')
  })
})

describe('POST /owner/connections/revoke', () => {
  it('ends the connection and its live RPTs, and says how many', async () => {
    const { handle, rpt } = await connected()
    expect(await revoke(handle)).toMatchObject({
      status: 200,
      body: { handle, status: 'revoked', rpts_deactivated: 1, connections_revoked: 1 },
    })
    expect(
      (await readGrant(authority.database.calls, asOwner('alice'), seed.CLIENT_ID, rpt))?.grant?.connected,
    ).toBe(false)
    expect(
      await consumeGrant(authority.database.calls, asOwner('alice'), { client_id: seed.CLIENT_ID }, rpt),
    ).toBeUndefined()
  })

  it('takes a handle in the body that holds an issuer and a path', async () => {
    const handle = asHandle(`assistant@agents.example/acme/${seed.name('')}`)
    await seed.seedConnection(db(), asOwner('alice'), handle)
    expect((await revoke(handle)).body).toMatchObject({ handle, status: 'revoked' })
  })

  it('revoking an introducer revokes the agents it introduced', async () => {
    const { handle } = await connected()
    const child = await connected({ introduced_by: handle })
    expect((await revoke(handle)).body).toMatchObject({ rpts_deactivated: 2, connections_revoked: 2 })
    const { body } = await get('/owner/connections?limit=1000')
    const states = new Map(body.map((c: { handle: Handle; status: string }) => [c.handle, c.status]))
    expect([states.get(handle), states.get(child.handle)]).toEqual(['revoked', 'revoked'])
  })

  it('revoking it again ends nothing more', async () => {
    const { handle } = await connected()
    await revoke(handle)
    expect((await revoke(handle)).body).toEqual({
      handle,
      status: 'revoked',
      rpts_deactivated: 0,
      connections_revoked: 0,
    })
  })

  it('counts grants to 1,000 and says that there were more', async () => {
    const handle = seed.name('jkt:')
    const generation = await seed.seedConnection(db(), asOwner('alice'), handle)
    await seed.inRounds(1001, 16, async () => {
      await seed.seedGrant(db(), asOwner('alice'), handle, generation)
    })
    expect((await revoke(handle)).body).toMatchObject({ rpts_deactivated: 1000, rpts_deactivated_more: true })
  })

  it('ends what the agent waits for, and tells ledger and poll', async () => {
    const { handle } = await connected()
    const waiting = await seed.seedWaiting(db(), asOwner('alice'), handle, { kind: 'operation' })
    await revoke(handle)
    const polled = await presentTicket(db(), {
      owner: asOwner('alice'),
      hash: waiting.ticketHash,
      nextHash: seed.bytes(),
      awaitingSeconds: 60,
      pollSeconds: 0,
    })
    expect(polled).toMatchObject({ decision: 'denied', decided_by: 'revocation' })
    await vi.waitFor(
      async () => {
        const { body } = await get('/owner/ledger?limit=1000')
        expect(body.entries).toEqual(
          expect.arrayContaining([
            expect.objectContaining({ kind: 'revoked', handle, by: 'owner' }),
            expect.objectContaining({ kind: 'denied', family: waiting.family, by: 'revocation' }),
          ]),
        )
      },
      { timeout: 60_000, interval: 20 },
    )
  })

  it('unknown and foreign answer alike: 404, same body, same headers', async () => {
    const { handle } = await connected()
    const bea = authority.owners['bea']!
    const [foreign, unknown] = [await revoke(handle, bea), await revoke(asHandle('jkt:nobody'), bea)]
    expect(foreign.status).toBe(404)
    expect(told(foreign)).toEqual(told(unknown))
  })
})

describe('Operators', () => {
  it('POST block ends every connection of one operator and theirs, and lists it as blocked', async () => {
    const origin = newOperator()
    const [one, two] = [await connected({ operator: origin }), await connected({ operator: origin })]
    await connected({ introduced_by: one.handle })
    const other = await connected()
    expect((await post('/owner/operators/block', { origin })).body).toEqual({
      origin,
      connections_revoked: 3,
      rpts_deactivated: 3,
    })
    const { body } = await get('/owner/operators?limit=1000')
    expect(body.find((operator: { origin: string }) => operator.origin === origin)).toEqual({
      origin,
      name: null,
      agents: 2,
      active: 0,
      blocked: true,
      blocked_at: expect.stringMatching(/^\d{4}-/),
      mine: false,
    })
    expect(
      await consumeGrant(authority.database.calls, asOwner('alice'), { client_id: seed.CLIENT_ID }, two.rpt),
    ).toBeUndefined()
    const { grant } = (await readGrant(
      authority.database.calls,
      asOwner('alice'),
      seed.CLIENT_ID,
      other.rpt,
    ))!
    expect(grant?.connected).toBe(true)
  })

  it('POST unblock restores only the right to negotiate', async () => {
    const origin = newOperator()
    const { rpt } = await connected({ operator: origin })
    await post('/owner/operators/block', { origin })
    expect((await post('/owner/operators/unblock', { origin })).body).toEqual({
      origin,
      connections_revoked: 0,
      rpts_deactivated: 0,
    })
    const { body } = await get('/owner/operators?limit=1000')
    const listed = body.find((operator: { origin: string }) => operator.origin === origin)
    expect(listed).toMatchObject({ blocked: false, active: 0 })
    expect(
      await consumeGrant(authority.database.calls, asOwner('alice'), { client_id: seed.CLIENT_ID }, rpt),
    ).toBeUndefined()
  })

  it('an operator may be blocked before any agent of it came; unblocking one never seen is 404', async () => {
    const origin = newOperator()
    expect((await post('/owner/operators/unblock', { origin })).status).toBe(404)
    expect((await post('/owner/operators/block', { origin })).status).toBe(200)
    expect((await post('/owner/operators/unblock', { origin })).status).toBe(200)
  })

  it.each([
    'https://op.example/',
    'https://op.example/path',
    'https://OP.example',
    'https://op.example:443',
    'http://op.example',
    'http://127.0.0.1:8443',
    'https://op.example.',
    'https://user@op.example',
    'op.example',
    'https://op.example\u0000',
    '',
  ])('origin is a bare https origin, else 400: %j', async origin => {
    for (const word of OPERATOR_ACTS)
      expect(await post(`/owner/operators/${word}`, { origin })).toMatchObject({
        status: 400,
        body: { error: 'invalid_request' },
      })
  })
})

describe('Where development admits http on loopback', () => {
  const development = authorityStand({ environment: { UMA_DEV_LOOPBACK: 'true' } })
  const act = (word: string, origin: string) =>
    development.call(development.alice, {
      method: 'POST',
      target: `/owner/operators/${word}`,
      json: { origin },
    })

  it('an operator there can be blocked, unblocked, claimed and disclaimed under the origin that the list shows', async () => {
    const origin = 'http://127.0.0.1:9'
    for (const word of OPERATOR_ACTS) expect([word, (await act(word, origin)).status]).toEqual([word, 200])
    const { body } = await development.call(development.alice, { target: '/owner/operators' })
    expect(body).toEqual([expect.objectContaining({ origin })])
  })

  it.each(['http://op.example', 'http://localhost:9', 'http://127.0.0.1:9/', 'http://127.1:9'])(
    'any other http origin is 400: %s',
    async origin => {
      for (const word of OPERATOR_ACTS)
        expect(await act(word, origin)).toMatchObject({ status: 400, body: { error: 'invalid_request' } })
    },
  )
})
