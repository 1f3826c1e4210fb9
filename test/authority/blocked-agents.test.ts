/**
 * Blocking one agent, which a revocation does not: contract, "Connection" (states), "Owner API"
 * (`/owner/connections`), and docs/choices.md.
 */
import { describe, expect, it } from 'vitest'
import { consumeGrant } from '../../src/storage/authority/grants/consume.ts'
import { readGrant } from '../../src/storage/authority/grants/read.ts'
import { readEvents } from '../../src/storage/authority/ledger/events.ts'
import { admitConnection } from '../../src/storage/authority/connections/connections.ts'
import { lockQueue } from '../../src/storage/authority/owners/owners.ts'
import { inTransaction } from '../../src/storage/core/database.ts'
import { sha256 } from '../../src/wire/encoding.ts'
import { asHandle, asOwner } from '../../src/wire/identifiers.ts'
import type { Connection } from '../../src/wire/owner/owner-api.ts'
import * as seed from '../support/seed.ts'
import { authorityStand } from '../support/stands.ts'
import { decide, pendingAt, testAgent } from '../support/test-agent.ts'

const authority = authorityStand({ owners: ['alice', 'bea'] })
const alice = asOwner('alice')

const act = (verb: 'block' | 'unblock' | 'revoke', handle: string, owner = authority.alice) =>
  authority.call(owner, { method: 'POST', target: `/owner/connections/${verb}`, json: { handle } })
const block = (handle: string) => act('block', handle)
const unblock = (handle: string) => act('unblock', handle)
const listed = async (handle: string): Promise<Connection | undefined> => {
  const { body } = await authority.call(authority.alice, { target: '/owner/connections?limit=1000' })
  return (body as Connection[]).find(one => one.handle === handle)
}

describe('An agent that she blocks', () => {
  it('is revoked at once, and its next request is refused without asking her', async () => {
    const agent = testAgent(authority)
    const { rpt } = await agent.granted()
    expect((await block(agent.handle)).body).toEqual({
      handle: agent.handle,
      blocked: true,
      connections_revoked: 1,
      rpts_deactivated: 1,
    })
    expect(await listed(agent.handle)).toMatchObject({
      status: 'revoked',
      blocked_at: expect.stringMatching(/^\d{4}-/) as string,
    })
    const { grant } = (await readGrant(authority.database.calls, alice, seed.CLIENT_ID, sha256(rpt))) ?? {}
    expect(grant?.connected).toBe(false)
    const { status, body } = await agent.ask()
    expect({ status, body }).toMatchObject({
      status: 403,
      body: { error: 'request_denied', error_description: 'The owner has blocked this agent.' },
    })
    expect((await pendingAt(authority)).filter(({ handle }) => handle === agent.handle)).toEqual([])
  })

  it('asks again after she only revoked it, which is why there is a block', async () => {
    const agent = testAgent(authority)
    await agent.granted()
    await act('revoke', agent.handle)
    expect((await agent.ask()).body).toMatchObject({ error: 'request_submitted' })
  })

  it('may ask again once she unblocks it, and has no access by that', async () => {
    const agent = testAgent(authority)
    await agent.granted()
    await block(agent.handle)
    expect((await unblock(agent.handle)).body).toEqual({
      handle: agent.handle,
      blocked: false,
      connections_revoked: 0,
      rpts_deactivated: 0,
    })
    expect(await listed(agent.handle)).toMatchObject({ status: 'revoked', blocked_at: null })
    expect((await agent.ask()).body).toMatchObject({ error: 'request_submitted', kind: 'connection' })
  })

  it('and that only waits for her is denied, and does not ask again', async () => {
    const agent = testAgent(authority)
    const { ticket } = (await agent.ask()).body as { ticket: string }
    expect((await block(agent.handle)).body).toMatchObject({ blocked: true, connections_revoked: 0 })
    expect((await agent.present(ticket)).body).toMatchObject({
      error: 'request_denied',
      error_description: 'The owner blocked this agent or its operator while the request waited.',
    })
    expect((await agent.ask()).body).toMatchObject({ error: 'request_denied' })
    // She never let it in, so it is none that she revoked.
    expect(await listed(agent.handle)).toMatchObject({ status: 'revoked', revocations: 0 })
  })

  it('is blocked by its key, under whatever handle it comes', async () => {
    const agent = testAgent(authority)
    await agent.granted()
    // The same key, as an issuer names it.
    const [other, child] = [asHandle(`${seed.name('s')}@issuer.example`), seed.name('jkt:')]
    const generation = await inTransaction(authority.database.db, async tx => {
      await lockQueue(tx, alice)
      const { thumbprint: jkt } = agent.key
      const given = { owner: alice, label: null, operator: null, introduced_by: null } as const
      return admitConnection(tx, { ...given, handle: other, identity: 'identified', jkt })
    })
    const rpt = await seed.seedGrant(authority.database.db, alice, other, generation)
    await seed.seedConnection(authority.database.db, alice, child, { introduced_by: other })
    expect((await block(other)).body).toMatchObject({ connections_revoked: 3, rpts_deactivated: 2 })
    expect(
      await consumeGrant(authority.database.calls, alice, { client_id: seed.CLIENT_ID }, rpt),
    ).toBeUndefined()
    expect((await agent.ask()).body).toMatchObject({ error: 'request_denied' })
    await unblock(other)
    expect((await agent.ask()).body).toMatchObject({ error: 'request_submitted' })
  })

  it('is let in by no approval of what it asked under another handle', async () => {
    const agent = testAgent(authority)
    await agent.ask()
    const other = asHandle(`${seed.name('s')}@issuer.example`)
    await inTransaction(authority.database.db, async tx => {
      await lockQueue(tx, alice)
      const { thumbprint: jkt } = agent.key
      const given = { owner: alice, label: null, operator: null, introduced_by: null } as const
      return admitConnection(tx, { ...given, handle: other, identity: 'identified', jkt })
    })
    await block(other)
    expect(await decide(authority, agent.handle, 'approved')).toMatchObject({
      status: 409,
      body: { error: 'conflict', error_description: 'You blocked this agent: unblock it first.' },
    })
    expect((await decide(authority, agent.handle, 'denied')).status).toBe(200)
  })

  it('is told to her ledger and her other portals, once', async () => {
    const agent = testAgent(authority)
    await agent.granted()
    for (const verb of ['block', 'block', 'unblock', 'unblock'] as const) await act(verb, agent.handle)
    const { kid } = { kid: authority.alice.key.thumbprint }
    const by = { by: 'owner', actor: { kind: 'owner', credential: 'device_key', kid } }
    const { body } = await authority.call(authority.alice, {
      target: `/owner/ledger?limit=1000&handle=${encodeURIComponent(agent.handle)}`,
    })
    const entries = body.entries as { kind: string }[]
    expect(entries.filter(({ kind }) => kind.endsWith('blocked'))).toMatchObject([
      { kind: 'blocked', ...by },
      { kind: 'unblocked', ...by },
    ])
    const events = await readEvents(authority.database.db, alice, { after: 0, limit: 1_000 })
    expect(
      events
        .filter(({ data }) => data['handle'] === agent.handle)
        .map(({ event }) => event)
        .filter(event => event.startsWith('connection_')),
    ).toEqual(['connection_blocked', 'connection_revoked', 'connection_unblocked'])
  })

  it('is hers alone to block: 404 for one that she does not know', async () => {
    const agent = testAgent(authority)
    await agent.granted()
    for (const verb of ['block', 'unblock'] as const) {
      expect((await act(verb, agent.handle, authority.owners['bea'])).status).toBe(404)
      expect((await act(verb, 'jkt:nobody')).status).toBe(404)
    }
    expect((await agent.ask()).status).toBe(200)
  })
})
