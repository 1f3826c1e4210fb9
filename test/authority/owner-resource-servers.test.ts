/**
 * Contract, "Owner API" (`/owner/resource-servers`) and "Resource server registration": what she withdraws
 * ends at once.
 */
import { describe, expect, it } from 'vitest'
import { watchEvents, type OwnerEvent } from '../../src/owner/index.ts'
import { inTransaction } from '../../src/storage/core/database.ts'
import { recordGrant } from '../../src/storage/authority/grants/issue.ts'
import { sha256 } from '../../src/wire/encoding.ts'
import { CLIENT_ID, ISSUER, startTestAuthority } from '../support/authority.ts'
import { ageDecision, decideServer, startResourceServer } from '../support/resource-server.ts'
import * as seed from '../support/seed.ts'
import { callWithPat } from '../support/test-agent.ts'
import { until } from '../support/until.ts'
import { asClientId, asOwner } from '../../src/wire/identifiers.ts'
import { authorityStand } from '../support/stands.ts'
import { startedOnce } from '../support/started.ts'

const authority = authorityStand({ owners: ['alice', 'bea'], environment: { UMA_DEV_LOOPBACK: 'true' } })
const tools = startedOnce(() => startResourceServer(ISSUER))

let count = 0
const registered = async (): Promise<string> => {
  const name = `server-${count++}`
  await tools.register(authority, name)
  return name
}
/** Once it may again. */
const registeredAgain = async (name: string): Promise<void> => {
  await ageDecision(authority, tools.resource(name))
  await tools.register(authority, name)
}
const approved = async (): Promise<string> => {
  const name = await registered()
  await decideServer(authority, tools.resource(name), 'approved')
  return name
}
const list = async (query = '?limit=1000', owner = authority.alice) =>
  (await authority.call(owner, { target: `/owner/resource-servers${query}` })).body as {
    client_id: string
    status: string
  }[]
const status = async (client_id: string) => (await list()).find(one => one.client_id === client_id)?.status
const decide = (client_id: string, decision: string, owner = authority.alice) =>
  authority.call(owner, {
    method: 'POST',
    target: '/owner/resource-servers/decision',
    json: { client_id, decision },
  })
const protect = (pat: string, path: string, body: unknown) => callWithPat(authority, pat, path, body)

describe('GET /owner/resource-servers', () => {
  it('owner-resource-servers: lists those with protection access, each pending, active or revoked', async () => {
    const [pending, active, revoked] = [await registered(), await approved(), await approved()]
    await decideServer(authority, tools.resource(revoked), 'revoked')
    expect(await status(tools.resource(pending))).toBe('pending')
    expect(await status(tools.resource(active))).toBe('active')
    expect(await status(tools.resource(revoked))).toBe('revoked')
    expect((await list()).find(one => one.client_id === CLIENT_ID)).toEqual({
      client_id: CLIENT_ID,
      name: 'Demo tools',
      resource_uri: authority.alice.resourceUri,
      status: 'active',
      auth: 'secret',
      registered_at: expect.any(String),
      decided_at: expect.any(String),
      last_pat_issued: null,
      registry: null,
    })
  })

  it('pages by client_id, and names the next page', async () => {
    const all = (await list()).map(one => one.client_id)
    const reply = await authority.call(authority.alice, { target: '/owner/resource-servers?limit=2' })
    expect(reply.headers.get('link')).toContain('rel="next"')
    const read = []
    for await (const one of authority.alice.client.resourceServers()) read.push(one.client_id)
    expect(read).toEqual(all)
    expect((await list(`?after=${encodeURIComponent(all[1]!)}&limit=1`))[0]?.client_id).toBe(all[2])
  })

  it("shows nobody another owner's", async () => {
    await approved()
    const hers = await list('?limit=1000', authority.owners['bea'])
    expect(hers.map(one => one.client_id)).toEqual([CLIENT_ID])
  })

  it('tells when a PAT was last issued', async () => {
    const name = await approved()
    await tools.pat(authority, name)
    const record = (await list()).find(one => one.client_id === tools.resource(name))
    expect(record).toMatchObject({ last_pat_issued: expect.any(String) })
  })
})

describe('POST /owner/resource-servers/decision', () => {
  it('rs-approved: pending, the owner approves -> active; the answer is the record', async () => {
    const name = await registered()
    const reply = await decide(tools.resource(name), 'approved')
    expect(reply.status).toBe(200)
    expect(reply.body).toMatchObject({
      client_id: tools.resource(name),
      status: 'active',
      decided_at: expect.any(String),
    })
    expect((await tools.token(authority, name)).status).toBe(200)
  })

  it('rs-withdrawn: pending, the owner withdraws -> revoked', async () => {
    const name = await registered()
    expect((await decide(tools.resource(name), 'revoked')).body.status).toBe('revoked')
    expect((await tools.token(authority, name)).body.error).toBe('access_denied')
  })

  it('deciding the same again changes nothing, and is no error', async () => {
    const name = await approved()
    const [first, again] = [
      await decide(tools.resource(name), 'approved'),
      await decide(tools.resource(name), 'approved'),
    ]
    expect(again.status).toBe(200)
    expect(again.body.decided_at).toBe(first.body.decided_at)
    await decide(tools.resource(name), 'revoked')
    expect((await decide(tools.resource(name), 'revoked')).body.status).toBe('revoked')
  })

  it('one that was withdrawn has to register again: 409', async () => {
    const name = await approved()
    await decide(tools.resource(name), 'revoked')
    const reply = await decide(tools.resource(name), 'approved')
    expect([reply.status, reply.body.error]).toEqual([409, 'conflict'])
    await registeredAgain(name)
    expect((await decide(tools.resource(name), 'approved')).status).toBe(200)
  })

  it('but one with a secret cannot register, so the owner lets it back in herself', async () => {
    await decide(CLIENT_ID, 'revoked')
    expect((await decide(CLIENT_ID, 'approved')).body.status).toBe('active')
    expect(await authority.pat()).toBeTruthy()
  })

  it("an unknown client_id is 404, and another owner's is answered alike", async () => {
    const name = await registered()
    const bea = authority.owners['bea']!
    const unknown = await decide('https://nowhere.example/mcp/x', 'approved', bea)
    const foreign = await decide(tools.resource(name), 'approved', bea)
    expect([unknown.status, unknown.body.error]).toEqual([404, 'not_found'])
    expect([foreign.status, foreign.text]).toEqual([unknown.status, unknown.text])
    expect(await status(tools.resource(name))).toBe('pending')
  })

  it.each<[string, unknown]>([
    ['no client_id', { decision: 'approved' }],
    ['no decision', { client_id: 'x' }],
    ['a decision of another kind', { client_id: 'x', decision: 'denied' }],
    ['an unknown member', { client_id: 'x', decision: 'approved', tier: 'y' }],
    ['a NUL', { client_id: 'x\0', decision: 'approved' }],
    ['no object', ['x']],
  ])('%s is 400', async (_what, json) => {
    const reply = await authority.call(authority.alice, {
      method: 'POST',
      target: '/owner/resource-servers/decision',
      json,
    })
    expect([reply.status, reply.body.error]).toEqual([400, 'invalid_request'])
  })

  it('a signed decision is accepted once: the second presentation changes nothing', async () => {
    const name = await registered()
    const prepared = authority.prepare(authority.alice, {
      method: 'POST',
      target: '/owner/resource-servers/decision',
      json: { client_id: tools.resource(name), decision: 'approved' },
    })
    expect((await authority.send(prepared)).status).toBe(200)
    await decide(tools.resource(name), 'revoked')
    await registeredAgain(name)
    expect((await authority.send(prepared)).status).toBe(401)
    expect(await status(tools.resource(name))).toBe('pending')
  })

  it('tells her stream and her ledger', async () => {
    const gone = new AbortController()
    const seen: OwnerEvent[] = []
    const opened = Promise.withResolvers<void>()
    const watching = (async () => {
      const onState = () => opened.resolve()
      for await (const event of watchEvents(authority.alice.client.access, { signal: gone.signal, onState }))
        seen.push(event)
    })()
    await opened.promise
    const name = await registered()
    const client_id = tools.resource(name)
    await decide(client_id, 'approved')
    await decide(client_id, 'revoked')
    const mine = () => seen.filter(({ data }) => (data as { client_id?: string }).client_id === client_id)
    await until(() => mine().length === 3)
    expect(mine().map(({ event, data }) => [event, (data as { status: string }).status])).toEqual([
      ['resource_server_pending', 'pending'],
      ['resource_server_decided', 'active'],
      ['resource_server_decided', 'revoked'],
    ])
    gone.abort()
    await watching
    const { body } = await authority.call(authority.alice, { target: '/owner/ledger?limit=1000' })
    const entries = (body.entries as { kind: string; client_id?: string }[]).filter(
      one => one.client_id === client_id,
    )
    expect(entries.map(({ kind }) => kind)).toEqual(['server_approved', 'server_withdrawn'])
  })
})

describe('POST /owner/resource-servers/{id}/revoke', () => {
  it('owner-resource-servers-revoke: is the same withdrawal, for ids that are plain names', async () => {
    const pat = await authority.pat('bea')
    const reply = await authority.call(authority.owners['bea']!, {
      method: 'POST',
      target: `/owner/resource-servers/${CLIENT_ID}/revoke`,
    })
    expect(reply.body).toMatchObject({ client_id: CLIENT_ID, status: 'revoked' })
    expect((await protect(pat, '/introspect', { token: 'x' })).status).toBe(401)
    await decide(CLIENT_ID, 'approved', authority.owners['bea'])
  })

  it('takes a URL too, if it is encoded; an unknown id is 404', async () => {
    const name = await approved()
    const revoke = (id: string) =>
      authority.call(authority.alice, {
        method: 'POST',
        target: `/owner/resource-servers/${encodeURIComponent(id)}/revoke`,
      })
    expect((await revoke(tools.resource(name))).body.status).toBe('revoked')
    expect((await revoke('nobody')).status).toBe(404)
    expect((await revoke('no\0body')).status).toBe(404)
  })
})

describe('rs-withdrawn: issuance and verification stop at once', () => {
  const bodies = {
    '/perm': { resource_id: 'alice/x', resource_scopes: ['read'] },
    '/introspect': { token: 'x' },
    '/consume': { token: 'x' },
    '/audit/access': { id: '1', family: 'f', jti: 'j', tool: 't', at: 1 },
  }

  it.each(Object.entries(bodies))('%s: its PAT is 401 with the next request', async (path, body) => {
    const name = await approved()
    const pat = await tools.pat(authority, name)
    expect((await protect(pat, path, body)).status).not.toBe(401)
    await decide(tools.resource(name), 'revoked')
    const reply = await protect(pat, path, body)
    expect([reply.status, reply.body.error]).toEqual([401, 'invalid_token'])
  })

  it.each(Object.entries(bodies))('%s: approving it again revives no PAT of before', async (path, body) => {
    const name = await approved()
    const pat = await tools.pat(authority, name)
    await decide(tools.resource(name), 'revoked')
    await registeredAgain(name)
    await decide(tools.resource(name), 'approved')
    expect((await protect(pat, path, body)).status).toBe(401)
    expect((await protect(await tools.pat(authority, name), path, body)).status).not.toBe(401)
  })

  it("another replica's next answer knows it too", async () => {
    const replica = await startTestAuthority({ beside: authority })
    const name = await approved()
    const pat = await tools.pat(replica, name)
    await decide(tools.resource(name), 'revoked')
    const reply = await callWithPat(replica, pat, '/introspect', { token: 'x' })
    expect(reply.status).toBe(401)
    await replica.close()
  })
})

describe('A withdrawal that races', () => {
  /** A live single-use grant that an approved resource server may spend, as a token. */
  async function spendable(): Promise<{ name: string; handle: string; token: string; pat: string }> {
    const name = await approved()
    const handle = seed.name('jkt:')
    const token = seed.name('token')
    const { db } = authority.database
    const generation = await seed.seedConnection(db, asOwner('alice'), handle)
    const governed = await seed.govern(db, asOwner('alice'), {
      client_id: asClientId(tools.resource(name)),
      name,
    })
    const grant = { ...seed.grantRow(asOwner('alice'), handle, generation, sha256(token)), ...governed }
    expect(await inTransaction(db, tx => recordGrant(tx, grant, []))).toBe(true)
    return { name, handle, token, pat: await tools.pat(authority, name) }
  }
  const consumed = async (token: string): Promise<boolean> => {
    const { rows } = await authority.database.pool.query<{ consumed_at: string | null }>(
      'SELECT consumed_at FROM grants WHERE owner = $1 AND rpt_sha256 = $2',
      ['alice', sha256(token)],
    )
    return rows[0]!.consumed_at !== null
  }
  const waitsForLock = (count: number) =>
    until(async () => {
      const { rows } = await authority.database.pool.query<{ n: number }>(
        `SELECT count(*)::int AS n FROM pg_stat_activity
         WHERE datname = current_database() AND wait_event_type = 'Lock' AND query LIKE '%standing%'`,
      )
      return rows[0]!.n >= count
    })

  it('without one, the grant is spent', async () => {
    const { token, pat } = await spendable()
    expect((await protect(pat, '/consume', { token })).body).toMatchObject({ consumed: true })
  })

  it('approved again, a PAT of before spends nothing, though the grant is live', async () => {
    const { name, token, pat } = await spendable()
    await decideServer(authority, tools.resource(name), 'revoked')
    await registeredAgain(name)
    await decideServer(authority, tools.resource(name), 'approved')
    expect((await protect(pat, '/consume', { token })).status).toBe(401)
    expect(await consumed(token)).toBe(false)
    const fresh = await tools.pat(authority, name)
    expect((await protect(fresh, '/consume', { token })).body).toMatchObject({ consumed: true })
  })

  it('a consume that waits for a row while she withdraws does not win afterwards', async () => {
    const { name, handle, token, pat } = await spendable()
    const holder = await authority.database.pool.connect()
    await holder.query('BEGIN')
    await holder.query('SELECT 1 FROM connections WHERE owner = $1 AND handle = $2 FOR UPDATE', [
      'alice',
      handle,
    ])
    const late = protect(pat, '/consume', { token })
    await waitsForLock(1)
    await decideServer(authority, tools.resource(name), 'revoked')
    await holder.query('COMMIT')
    holder.release()
    expect((await late).status).toBe(401)
    expect(await consumed(token)).toBe(false)
  })

  it('of consume and withdrawal together either is first, and nothing is spent after the withdrawal', async () => {
    for (let round = 0; round < 8; round++) {
      const { name, token, pat } = await spendable()
      const [consume, withdrawal] = await Promise.all([
        protect(pat, '/consume', { token }),
        decideServer(authority, tools.resource(name), 'revoked'),
      ])
      expect(withdrawal.status).toBe(200)
      const spent = consume.status === 200 && consume.body.consumed === true
      expect([200, 401]).toContain(consume.status)
      expect(await consumed(token)).toBe(spent)
      expect((await protect(pat, '/consume', { token })).status).toBe(401)
    }
  })

  it('no introspection that begins after the withdrawal returned is answered', async () => {
    const name = await approved()
    const pat = await tools.pat(authority, name)
    const token = 'x'
    expect((await protect(pat, '/introspect', { token })).status).toBe(200)
    let withdrawn = false
    const late: number[] = []
    const asking = Array.from({ length: 4 }, async () => {
      for (let n = 0; n < 10; n++) {
        const began = withdrawn
        const { status: answered } = await protect(pat, '/introspect', { token })
        if (began) late.push(answered)
      }
    })
    await decideServer(authority, tools.resource(name), 'revoked').then(() => (withdrawn = true))
    await Promise.all(asking)
    late.push((await protect(pat, '/introspect', { token })).status)
    expect(new Set(late)).toEqual(new Set([401]))
  })

  it('a PAT asked for while she withdraws is worth nothing', async () => {
    for (let round = 0; round < 5; round++) {
      const name = await approved()
      const [reply] = await Promise.all([
        tools.token(authority, name),
        decideServer(authority, tools.resource(name), 'revoked'),
      ])
      expect([200, 403]).toContain(reply.status)
      if (reply.status !== 200) continue
      expect((await protect(reply.body.access_token, '/introspect', { token: 'x' })).status).toBe(401)
    }
  })
})
