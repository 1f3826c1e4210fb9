/**
 * Contract, "Registry materialization", "Protection API" (`/perm`) and "Health": when the registry is pulled,
 * and by which replica.
 */
import { describe, expect, it } from 'vitest'
import { ISSUER, startTestAuthority, type Reply, type TestAuthority } from '../support/authority.ts'
import { agePulls, pulled, registryOf } from '../support/registry.ts'
import { decideServer, startResourceServer } from '../support/resource-server.ts'
import { until } from '../support/until.ts'
import { authorityStand } from '../support/stands.ts'
import { startedOnce } from '../support/started.ts'

const authority = authorityStand({ environment: { UMA_DEV_LOOPBACK: 'true' } })
const replica = authorityStand({ beside: authority })
const tools = startedOnce(() => startResourceServer(ISSUER))

let count = 0
const listing = (...ids: string[]) =>
  ids.map(id => ({ _id: `alice/${id}`, name: id, resource_scopes: ['read'] }))
async function published(...ids: string[]): Promise<string> {
  const name = `source-${count++}`
  tools.listings[name] = listing(...ids)
  await tools.register(authority, name)
  await decideServer(authority, tools.resource(name), 'approved')
  await pulled(authority, tools.resource(name))
  return name
}
const queries = (name: string) => tools.server.to(`/owner-resources/${name}`).length
const perm = async (name: string, id: string, at = authority, pat?: string): Promise<Reply> =>
  at.request('POST', '/perm', {
    headers: {
      authorization: `Bearer ${pat ?? (await tools.pat(at, name))}`,
      'content-type': 'application/json',
    },
    body: JSON.stringify({ resource_id: `alice/${id}`, resource_scopes: ['read'] }),
  })

describe('/perm', () => {
  it('post-perm: an unknown resource_id makes the registry be pulled again, and what came is known at once', async () => {
    const name = await published('old')
    tools.listings[name] = listing('old', 'new')
    await agePulls(authority, tools.resource(name))
    expect((await perm(name, 'new')).status).toBe(201)
    expect(queries(name)).toBe(2)
  })

  it('one that is known makes nothing be pulled', async () => {
    const name = await published('known')
    await agePulls(authority, tools.resource(name))
    expect((await perm(name, 'known')).status).toBe(201)
    expect(queries(name)).toBe(1)
  })

  it('error-invalid-resource-id: one that nobody lists is invalid_resource_id, after one pull in 10 s at most', async () => {
    const name = await published('some')
    await agePulls(authority, tools.resource(name))
    for (const _again of [1, 2, 3]) {
      const reply = await perm(name, 'none')
      expect([reply.status, reply.body.error]).toEqual([400, 'invalid_resource_id'])
    }
    expect(queries(name)).toBe(2)
  })

  it('many ask at once on two replicas: one pulls, and all get what it brings', async () => {
    const name = await published('before')
    tools.listings[name] = listing('before', 'after')
    const pat = await tools.pat(authority, name)
    await agePulls(authority, tools.resource(name))
    const replies = await Promise.all(
      Array.from({ length: 12 }, (_, nth) => perm(name, 'after', nth % 2 ? authority : replica, pat)),
    )
    expect(replies.map(({ status }) => status)).toEqual(Array(12).fill(201))
    expect(queries(name)).toBe(2)
  })

  it('waits a second at most: a listing that never comes is as good as none', async () => {
    const name = await published('slow')
    await agePulls(authority, tools.resource(name))
    let isGivenUp = false
    tools.server.script(`/owner-resources/${name}`, {
      write: response => void response.once('close', () => (isGivenUp = true)),
    })
    const pat = await tools.pat(authority, name)
    const began = performance.now()
    const replies = await Promise.all([perm(name, 'late', authority, pat), perm(name, 'late', replica, pat)])
    expect(replies.map(({ body }) => body.error)).toEqual(['invalid_resource_id', 'invalid_resource_id'])
    // The pull goes on for nine seconds. That a second of them is waited for, registry-times.test.ts shows.
    expect(isGivenUp).toBe(false)
    expect(performance.now() - began).toBeGreaterThan(900)
  })

  it('waits once: what comes half a second later is there for a later call', async () => {
    // If this machine stood still for half a second, another one is asked.
    for (let nth = 0; ; nth++) {
      const name = await published(`punctual-${nth}`)
      tools.listings[name] = listing(`late-${nth}`)
      // This timer begins after that of /perm. In one process they end in their order, on a busy machine too.
      tools.server.script(`/owner-resources/${name}`, async () => {
        await new Promise(resolve => setTimeout(resolve, 1_500))
        return undefined
      })
      const pat = await tools.pat(authority, name)
      await agePulls(authority, tools.resource(name))
      const began = performance.now()
      const reply = await perm(name, `late-${nth}`, authority, pat)
      if (performance.now() - began >= 1_500 && nth < 1) continue
      expect([reply.status, reply.body.error]).toEqual([400, 'invalid_resource_id'])
      await expect.poll(async () => (await perm(name, `late-${nth}`, authority, pat)).status).toBe(201)
      return
    }
  })

  it('a resource server that she withdraws while it waits is 401, not told anything', async () => {
    // It waits a second; if this machine stood still for most of it, another one is withdrawn.
    for (let nth = 0; ; nth++) {
      const name = await published(`held-${nth}`)
      await agePulls(authority, tools.resource(name))
      const pat = await tools.pat(authority, name)
      const asked = Promise.withResolvers<void>()
      tools.server.script(`/owner-resources/${name}`, { write: () => asked.resolve() })
      const began = performance.now()
      const waiting = perm(name, 'unknown', authority, pat)
      await asked.promise
      await decideServer(authority, tools.resource(name), 'revoked')
      const inTime = performance.now() - began < 800
      const { status } = await waiting
      if (!inTime && nth < 5) continue
      expect(status).toBe(401)
      return
    }
  })
})

describe('Time', () => {
  it('a listing is pulled again when it is old, without anybody asking', async () => {
    const name = await published('first')
    const eager = await startTestAuthority({
      beside: authority,
      environment: { UMA_AS_REGISTRY_SECONDS: '1' },
    })
    tools.listings[name] = listing('second')
    await agePulls(authority, tools.resource(name))
    await until(async () => (await perm(name, 'second')).status === 201)
    tools.server.script(`/owner-resources/${name}`, { status: 503 })
    await agePulls(authority, tools.resource(name))
    await until(
      async () => (await registryOf(authority, tools.resource(name)))?.fault === 'listing_status',
      15_000,
    )
    await eager.close()
  })

  it('at the start whatever is due is pulled, and being ready waits for none of it', async () => {
    // If this machine stood still for half of the time that a pull may take, it is done once more.
    for (let nth = 0; ; nth++) {
      const name = await published('due')
      await agePulls(authority, tools.resource(name))
      tools.server.script(`/owner-resources/${name}`, { write: () => undefined })
      const before = queries(name)
      const late = await startTestAuthority({ beside: authority })
      expect((await late.request('GET', '/health')).status).toBe(200)
      await until(() => queries(name) > before)
      // Nor does ending: what is being fetched ends with it, which by itself takes nine seconds.
      const began = performance.now()
      await late.close()
      const tookMs = performance.now() - began
      if (tookMs >= 4_500 && nth < 5) continue
      expect(tookMs).toBeLessThan(4_500)
      return
    }
  })
})

describe('GET /health/registry', () => {
  interface Health {
    landed: boolean
    resource_servers: number
    waiting: number
    sources: { state: string; reason?: string; count: number; at?: string }[]
  }
  const health = async (at: TestAuthority): Promise<Health> =>
    (await at.request('GET', '/health/registry')).body as Health

  it('health-registry: says whether every active source has landed, how each stands, why and when, and names nobody', async () => {
    const other = await startTestAuthority({ environment: { UMA_DEV_LOOPBACK: 'true' } })
    const source = await startResourceServer(ISSUER)
    expect(await health(other)).toEqual({
      landed: true,
      resource_servers: 1,
      waiting: 0,
      sources: [{ state: 'landed', count: 1 }],
    })
    // One that waits for her is no source.
    await source.register(other, 'pending')
    source.server.script('/owner-resources/broken', { status: 500 })
    for (const name of ['alice', 'broken']) {
      await source.register(other, name)
      await decideServer(other, source.resource(name), 'approved')
      await pulled(other, source.resource(name))
    }
    await until(async () => (await health(other)).resource_servers === 3)
    const { sources, ...rest } = await health(other)
    expect(rest).toEqual({ landed: false, resource_servers: 3, waiting: 1 })
    const at = expect.stringMatching(/^\d{4}-.*Z$/)
    expect(sources).toHaveLength(2)
    expect(sources).toEqual(
      expect.arrayContaining([
        { state: 'landed', count: 2, at },
        { state: 'failed', reason: 'listing_status', count: 1, at },
      ]),
    )
    expect(JSON.stringify(sources)).not.toMatch(/alice|127\.0\.0\.1/)
    await other.close()
    await source.close()
  })

  it('one that has brought nothing yet waits, and not all has landed', async () => {
    const other = await startTestAuthority({ environment: { UMA_DEV_LOOPBACK: 'true' } })
    const source = await startResourceServer(ISSUER)
    const answer = Promise.withResolvers<void>()
    source.server.script('/owner-resources/slow', {
      write: async response => {
        await answer.promise
        response.destroy()
      },
    })
    await source.register(other, 'slow')
    await decideServer(other, source.resource('slow'), 'approved')
    await until(async () => (await health(other)).resource_servers === 2)
    expect(await health(other)).toMatchObject({ landed: false, waiting: 1 })
    answer.resolve()
    await other.close()
    await source.close()
  })

  it('one that failed after it had landed has landed, and still says that it fails', async () => {
    const other = await startTestAuthority({ environment: { UMA_DEV_LOOPBACK: 'true' } })
    const source = await startResourceServer(ISSUER)
    await source.register(other, 'alice')
    await decideServer(other, source.resource('alice'), 'approved')
    await pulled(other, source.resource('alice'))
    source.server.script('/owner-resources/alice', { status: 500 })
    await agePulls(other, source.resource('alice'))
    await other.request('POST', '/perm', {
      headers: {
        authorization: `Bearer ${await source.pat(other, 'alice')}`,
        'content-type': 'application/json',
      },
      body: '{"resource_id":"alice/none","resource_scopes":["read"]}',
    })
    await until(async () => (await health(other)).sources.some(({ state }) => state === 'failed'))
    expect(await health(other)).toMatchObject({ landed: true, waiting: 0 })
    await other.close()
    await source.close()
  })
})
