/**
 * What waits for the owner and what happened: contract, "Permission ticket" (awaiting-owner), "Owner API",
 * "Events".
 */
import { sql } from 'kysely'
import { describe, expect, it, vi } from 'vitest'
import { readConnection } from '../../src/storage/authority/connections/connections.ts'
import { inTransaction } from '../../src/storage/core/database.ts'
import { appendLedger, type NewLedgerEntry } from '../../src/storage/authority/ledger/ledger.ts'
import { decideFamily } from '../../src/storage/authority/negotiations/pending.ts'
import { presentTicket } from '../../src/storage/authority/negotiations/tickets.ts'
import type { OwnerCall, Reply } from '../support/authority.ts'
import { s256Json } from '../../src/wire/encoding.ts'
import * as seed from '../support/seed.ts'
import {
  asFamily,
  asHandle,
  asOwner,
  type Family,
  type Handle,
  type Owner,
} from '../../src/wire/identifiers.ts'
import { authorityStand } from '../support/stands.ts'

const authority = authorityStand({ owners: ['alice', 'bea', 'cleo', 'dora'] })

const db = () => authority.database.db
const alicesKey = () => ({ kind: 'owner', credential: 'device_key', kid: authority.alice.key.thumbprint })
const thumbprint = () => asHandle(`jkt:${seed.bytes().toString('base64url')}`)
const wait = (handle: Handle, more: Parameters<typeof seed.seedWaiting>[3] = {}) =>
  seed.seedWaiting(db(), asOwner('alice'), handle, more)
const decision = (family: Family, word = 'approved'): OwnerCall => ({
  method: 'POST',
  target: `/owner/pending/${family}/decision`,
  json: { decision: word },
})
const decide = (family: Family, word?: string) => authority.call(authority.alice, decision(family, word))
const get = (target: string, owner = authority.alice) => authority.call(owner, { target })
const poll = ({ ticketHash }: { ticketHash: Buffer }) =>
  presentTicket(db(), {
    owner: asOwner('alice'),
    hash: ticketHash,
    nextHash: seed.bytes(),
    awaitingSeconds: 60,
    pollSeconds: 0,
  })
/**
 * Ledger readers stop before the oldest transaction in flight, be it of another test: what was written comes
 * soon.
 */
const ledger = (query: string, entries: number, owner = authority.alice) =>
  vi.waitFor(
    async () => {
      const reply = await get(`/owner/ledger?${query}`, owner)
      expect(reply.body.entries).toHaveLength(entries)
      return reply
    },
    { timeout: 60_000, interval: 20 },
  )
/** What two answers may differ in without telling anything. */
const told = ({ status, text, headers }: Reply) => ({
  status,
  text,
  headers: [...headers].filter(([name]) => name !== 'date'),
})

describe('GET /owner/pending', () => {
  it('names the tiers that a first contact opens without asking again; an operation opens none', async () => {
    const first = await seed.seedWaiting(db(), asOwner('dora'), thumbprint())
    const operation = await seed.seedWaiting(db(), asOwner('dora'), thumbprint(), { kind: 'operation' })
    const { body } = await get('/owner/pending', authority.owners['dora'])
    const opens = (body as { family: string; opens: string[] }[]).map(one => [one.family, one.opens])
    expect(Object.fromEntries(opens)).toEqual({
      [first.family]: ['reading', 'statements'],
      [operation.family]: [],
    })
  })

  it('lists what waits, oldest first, as the row and the item say it, a page at a time', async () => {
    const families: string[] = []
    for (let n = 0; n < 5; n++) {
      const { family } = await seed.seedWaiting(db(), asOwner('bea'), thumbprint())
      families.push(family)
    }
    const bea = authority.owners['bea']!
    const first = await get('/owner/pending?limit=2', bea)
    expect(first.body.map((item: { family: Family }) => item.family)).toEqual(families.slice(0, 2))
    expect(first.body[0]).toEqual({
      family: families[0],
      kind: 'connection',
      opens: ['reading', 'statements'],
      handle: expect.stringMatching(/^jkt:/),
      requested_at: expect.stringMatching(/^\d{4}-\d\d-\d\dT/),
      item: expect.objectContaining({ v: 1, family: families[0] }),
      item_s256: s256Json(first.body[0].item),
      ...seed.waitingItem(asOwner('bea')),
    })
    expect(first.headers.get('link')).toBe(`</owner/pending?after=${families[1]}&limit=2>; rel="next"`)
    const all: string[] = []
    for await (const item of bea.client.pending()) all.push(item.family)
    expect(all).toEqual(families)
    const last = await get(`/owner/pending?limit=2&after=${families[3]}`, bea)
    expect(last.body.map((item: { family: Family }) => item.family)).toEqual(families.slice(4))
    expect(last.headers.get('link')).toBeNull()
  })

  it('goes on after an item decided meanwhile, and says so if there never was one, hers or not', async () => {
    const { family } = await seed.seedWaiting(db(), asOwner('alice'), seed.name('jkt:'))
    const { family: foreign } = await seed.seedWaiting(db(), asOwner('bea'), seed.name('jkt:'))
    await authority.alice.client.decide(family, 'denied')
    expect((await get(`/owner/pending?after=${family}`)).status).toBe(200)
    for (const after of ['fam_never', foreign])
      expect(await get(`/owner/pending?after=${after}`)).toMatchObject({
        status: 400,
        body: { error: 'invalid_request' },
      })
  })

  it('does not list an item whose ticket expired', async () => {
    const { family } = await wait(thumbprint())
    await sql`UPDATE families SET ticket_expires_at = now() WHERE family = ${family}`.execute(db())
    const { body } = await get('/owner/pending?limit=1000')
    expect(body.map((item: { family: Family }) => item.family)).not.toContain(family)
  })
})

describe('POST /owner/pending/{family}/decision', () => {
  it('approving a first contact also records the standing connection', async () => {
    const handle = thumbprint()
    const waiting = await wait(handle)
    expect(await decide(waiting.family)).toMatchObject({
      status: 200,
      body: { family: waiting.family, decision: 'approved', by: 'owner' },
    })
    expect(await readConnection(db(), asOwner('alice'), handle)).toMatchObject({
      status: 'active',
      generation: 1,
      identity: 'pseudonymous',
    })
    expect(await poll(waiting)).toMatchObject({
      decision: 'approved',
      decided_by: 'owner',
      decided_actor: alicesKey(),
      generation: 1,
    })
    const { body } = await get('/owner/connections?limit=1000')
    const listed = body.find((connection: { handle: Handle }) => connection.handle === handle)
    expect(listed.tiers_approved).toEqual(['reading'])
    const { body: told } = await ledger(`handle=${encodeURIComponent(handle)}`, 2)
    expect(told.entries.map((entry: NewLedgerEntry) => [entry.kind, entry.family])).toEqual([
      ['connected', waiting.family],
      ['approved', waiting.family],
    ])
    for (const entry of told.entries) expect(entry).toMatchObject({ by: 'owner', actor: alicesKey() })
  })

  it('denying one records no connection', async () => {
    const handle = thumbprint()
    const waiting = await wait(handle)
    expect((await decide(waiting.family, 'denied')).body).toEqual({
      family: waiting.family,
      decision: 'denied',
      by: 'owner',
      actor: alicesKey(),
    })
    expect(await readConnection(db(), asOwner('alice'), handle)).toBeUndefined()
    expect(await poll(waiting)).toMatchObject({ decision: 'denied' })
  })

  it('names an identified agent’s connection by its issuer-qualified subject', async () => {
    const handle = asHandle(`assistant-${seed.name('')}@agents.example/acme`)
    await decide((await wait(handle)).family)
    expect(await readConnection(db(), asOwner('alice'), handle)).toMatchObject({ identity: 'identified' })
  })

  it('approving an operation on an active connection keeps its generation', async () => {
    const handle = thumbprint()
    await seed.seedConnection(db(), asOwner('alice'), handle)
    const waiting = await wait(handle, { kind: 'operation' })
    expect((await decide(waiting.family)).status).toBe(200)
    expect(await poll(waiting)).toMatchObject({ decision: 'approved', generation: 1 })
  })

  it('re-admits an agent that was revoked before it asked, at a generation that revives no grant', async () => {
    const handle = thumbprint()
    await seed.seedConnection(db(), asOwner('alice'), handle)
    await authority.alice.client.revoke(handle)
    const waiting = await wait(handle)
    expect((await decide(waiting.family)).status).toBe(200)
    expect(await poll(waiting)).toMatchObject({ generation: 2 })
  })

  it('an item decided already is 409, whichever way, and says who decided it and how', async () => {
    const { family } = await wait(thumbprint())
    await decide(family)
    for (const word of ['approved', 'denied'])
      expect(await decide(family, word)).toMatchObject({
        status: 409,
        body: {
          error: 'conflict',
          error_description: `This was approved already, by you, with the device key ${alicesKey().kid}.`,
          decision: 'approved',
          by: 'owner',
          actor: alicesKey(),
        },
      })
  })

  it('an item that an administrator of her organization decided is 409 that names them and not her', async () => {
    const { family } = await wait(thumbprint())
    const admin = { kind: 'organization', org: 'https://org.example', name: 'Acme', admin: 'dora' } as const
    const by = { by: 'administrator', actor: admin }
    const owner = asOwner('alice')
    await inTransaction(db(), tx =>
      decideFamily(tx, { owner, family, decision: 'denied', by, generation: null }),
    )
    expect((await decide(family)).body).toEqual({
      error: 'conflict',
      error_description: 'This was denied already, by dora, an administrator of Acme.',
      decision: 'denied',
      ...by,
    })
  })

  it('an item whose ticket expired is 409', async () => {
    const { family } = await wait(thumbprint())
    await sql`UPDATE families SET ticket_expires_at = now() WHERE family = ${family}`.execute(db())
    const { status, body } = await decide(family)
    expect([status, Object.keys(body)]).toEqual([409, ['error', 'error_description']])
  })

  it('an item that asked on a connection revoked meanwhile is gone: 409, and no approval survives', async () => {
    const handle = thumbprint()
    await seed.seedConnection(db(), asOwner('alice'), handle)
    const waiting = await wait(handle, { kind: 'operation' })
    await authority.alice.client.revoke(handle)
    expect(await decide(waiting.family)).toMatchObject({
      status: 409,
      body: {
        error_description: expect.stringMatching(/^This was denied already \(revocation\), by you, with /),
        actor: alicesKey(),
      },
    })
    expect(await poll(waiting)).toMatchObject({
      decision: 'denied',
      decided_by: 'revocation',
      decided_actor: alicesKey(),
    })
    expect(await readConnection(db(), asOwner('alice'), handle)).toMatchObject({ status: 'revoked' })
  })

  it('an operation is never approved into a connection that has ended', async () => {
    const handle = thumbprint()
    const { family } = await wait(handle, { kind: 'operation' })
    expect((await decide(family)).status).toBe(409)
    expect(await readConnection(db(), asOwner('alice'), handle)).toBeUndefined()
    expect((await decide(family, 'denied')).status).toBe(200)
  })

  it('an agent of a blocked operator cannot be approved: 409 says to unblock it', async () => {
    const operator = `https://${seed.name('op')}.example`
    await authority.call(authority.alice, {
      method: 'POST',
      target: '/owner/operators/block',
      json: { origin: operator },
    })
    const handle = thumbprint()
    const { family } = await wait(handle, { operator })
    const reply = await decide(family)
    expect(reply).toMatchObject({ status: 409, body: { error: 'conflict' } })
    expect(reply.body.error_description).toMatch(/unblock/)
    expect(await readConnection(db(), asOwner('alice'), handle)).toBeUndefined()
  })

  it('unknown and foreign answer alike: 404, same body, same headers', async () => {
    const { family } = await wait(thumbprint())
    const foreign = await authority.call(authority.owners['bea']!, decision(family))
    const unknown = await authority.call(authority.owners['bea']!, decision(asFamily('fam_AAAAAAAAAAA')))
    expect(foreign.status).toBe(404)
    expect(told(foreign)).toEqual(told(unknown))
    expect((await decide(family)).status).toBe(200)
  })

  it('a negotiation that was never held is as unknown as none', async () => {
    const family = await seed.seedFamily(db(), asOwner('alice'), seed.bytes())
    expect((await decide(family)).status).toBe(404)
  })

  it('approve against deny: of many signed at once exactly one stands', async () => {
    for (let round = 0; round < 20; round++) {
      const waiting = await wait(thumbprint())
      const words = Array.from({ length: 8 }, (_, n) => (n % 2 === 0 ? 'approved' : 'denied'))
      const replies = await Promise.all(words.map(word => decide(waiting.family, word)))
      const won = replies.filter(reply => reply.status === 200)
      expect(won).toHaveLength(1)
      expect(replies.filter(reply => reply.status === 409)).toHaveLength(7)
      expect(await poll(waiting)).toMatchObject({ decision: won[0]!.body.decision })
    }
  })
})

describe('GET /owner/ledger', () => {
  const append = (owner: Owner, entry: NewLedgerEntry) =>
    inTransaction(db(), tx => appendLedger(tx, owner, entry))

  it('is paged oldest first, `next` being the seq to go on after', async () => {
    const cleo = authority.owners['cleo']!
    for (let n = 0; n < 5; n++)
      await append(asOwner('cleo'), { kind: 'promised', family: asFamily(`fam_${n}`) })
    const families = (reply: Reply) => reply.body.entries.map((entry: { family: Family }) => entry.family)
    await ledger('', 5, cleo)
    const first = await get('/owner/ledger?limit=2', cleo)
    expect(families(first)).toEqual(['fam_0', 'fam_1'])
    const second = await get(`/owner/ledger?limit=2&after=${first.body.next}`, cleo)
    expect(families(second)).toEqual(['fam_2', 'fam_3'])
    const third = await get(`/owner/ledger?limit=2&after=${second.body.next}`, cleo)
    expect(families(third)).toEqual(['fam_4'])
    expect(third.body.next).toBeNull()
    const all: unknown[] = []
    for await (const entry of cleo.client.ledger()) all.push(entry.family)
    expect(all).toEqual(['fam_0', 'fam_1', 'fam_2', 'fam_3', 'fam_4'])
  })

  it('is read from its end, too, `next` being the seq to go on before', async () => {
    const dora = authority.owners['dora']!
    for (let n = 0; n < 5; n++) await append(asOwner('dora'), { kind: n === 3 ? 'revoked' : 'promised' })
    const seqs = (reply: Reply) => reply.body.entries.map((entry: { seq: number }) => entry.seq)
    await ledger('', 5, dora)
    const first = await get('/owner/ledger?first=newest&limit=2', dora)
    expect(seqs(first)).toEqual([5, 4])
    expect(first.body.next).toBe(4)
    const second = await get(`/owner/ledger?first=newest&limit=2&before=${first.body.next}`, dora)
    expect(seqs(second)).toEqual([3, 2])
    expect(seqs(await get('/owner/ledger?first=newest&before=2', dora))).toEqual([1])
    expect(seqs(await get('/owner/ledger?first=newest&kind=promised&after=1', dora))).toEqual([5, 3, 2])
    expect(seqs(await get('/owner/ledger?before=3', dora))).toEqual([1, 2])
    expect(await get('/owner/ledger?first=latest', dora)).toMatchObject({ status: 400 })
    expect(await get('/owner/ledger?before=-1', dora)).toMatchObject({ status: 400 })
  })

  it('is filtered by handle and by kind', async () => {
    const handle = thumbprint()
    await append(asOwner('alice'), { kind: 'touched', handle, data: { tool: 'portfolio_read' } })
    await append(asOwner('alice'), { kind: 'revoked', handle })
    const { body } = await ledger(`kind=touched&handle=${encodeURIComponent(handle)}`, 1)
    expect(body.entries).toMatchObject([{ kind: 'touched', handle, tool: 'portfolio_read' }])
    expect(body.entries[0]).not.toHaveProperty('family')
  })

  it('never lets an entry’s own data stand for its seq, time, kind, family or handle', async () => {
    const handle = thumbprint()
    await append(asOwner('alice'), {
      kind: 'refused',
      handle,
      data: { seq: 1, kind: 'approved', handle: 'other' },
    })
    const { body } = await ledger(`handle=${encodeURIComponent(handle)}`, 1)
    expect(body.entries).toMatchObject([{ kind: 'refused', handle }])
  })

  it('holds nothing of another owner', async () => {
    const handle = thumbprint()
    await append(asOwner('bea'), { kind: 'touched', handle })
    await ledger(`handle=${encodeURIComponent(handle)}`, 1, authority.owners['bea'])
    expect((await get(`/owner/ledger?handle=${encodeURIComponent(handle)}`)).body.entries).toEqual([])
  })
})
