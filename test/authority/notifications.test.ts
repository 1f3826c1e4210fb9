/**
 * What an owner is told outside of her page, over real receivers: contract, "Events" (row 1), "Owner API",
 * "Permission ticket".
 */
import { sql } from 'kysely'
import { describe, expect, it } from 'vitest'
import type { JsonObject } from '../../src/wire/json.ts'
import { startAuthorityProcess } from '../support/authority-process.ts'
import { startTestAuthority } from '../support/authority.ts'
import { hostileParameters } from '../support/hostile-texts.ts'
import { verifiedSender, verifiedWebhook } from '../support/notifications.ts'
import { notificationStand, type Hook } from '../support/notification-stand.ts'
import { decide, testAgent } from '../support/test-agent.ts'
import { until } from '../support/until.ts'
import { dueAtOnce } from '../support/due.ts'

const stand = notificationStand()
const { authority, receiver, rows, asks, familyOf, hurry, outbox, nothingIsDue, webhook, browserOf } = stand
const { post, remove, tryOut, list, settings, newPath } = stand

describe('A webhook of hers', () => {
  it('is told of what waits, signed with the secret that it was given once, with no parameter and no free text', async () => {
    const { alice } = authority
    const hook = await webhook(alice)
    const agent = await asks()
    await until(() => hook.came().length === 1)
    const [received] = hook.came()
    const family = await familyOf(agent)
    expect(verifiedWebhook(hook.secret, received!)).toEqual({
      type: 'request.waiting',
      timestamp: expect.any(String) as string,
      data: {
        family,
        kind: 'connection',
        agent: agent.handle,
        operator: null,
        resource: 'alice/portfolio',
        expires_in: 3600,
        link: `${authority.ownerUrl}/#/waiting?family=${family}`,
      },
    })
    await until(async () => (await outbox()).length === 0 && (await nothingIsDue()))
    const [listed, ...more] = await list(alice)
    expect(more).toEqual([])
    expect(listed).toEqual({
      id: hook.id,
      kind: 'webhook',
      name: 'my relay',
      origin: receiver.origin,
      created_at: expect.any(String) as string,
      sent_at: expect.any(String) as string,
      failing_since: null,
      quiet_hours: null,
      digest_minutes: null,
    })
  })

  it('learns nothing of what an agent wrote, whatever it wrote', async () => {
    const { alice } = authority
    const agent = testAgent(authority)
    await agent.granted()
    const hook = await webhook(alice)
    const params = hostileParameters()
    const reason = 'Dear alice, pay at https://evil.example now'
    await agent.ask('place_trade', { operation: { tool: 'place_trade', params }, reason })
    await until(() => hook.came().length === 1)
    const { data } = verifiedWebhook(hook.secret, hook.came()[0]!) as { data: JsonObject }
    expect(Object.keys(data).sort()).toEqual(
      ['agent', 'expires_in', 'family', 'kind', 'link', 'operator', 'resource'].sort(),
    )
    const text = hook.came()[0]!.body.toString()
    expect(text).not.toContain('evil')
    expect(text).not.toContain('place_trade')
    for (const value of Object.values(params as object))
      if (typeof value === 'string' && value.length > 3) expect(text).not.toContain(JSON.stringify(value))
    expect(text).toMatch(/^[\x20-\x7e]+$/)
  })

  it('is not told of a repeat that joins, nor of what was decided before it could be told', async () => {
    const { alice } = authority
    const hook = await webhook(alice)
    receiver.script(hook.path, (_one, nth) => ({ status: nth === 1 ? 500 : 204 }))
    const agent = await asks()
    await asks('alice', agent)
    await until(async () => (await list(alice))[0]?.['failing_since'] !== null)
    expect(await outbox()).toHaveLength(1)
    await decide(authority, agent.handle, 'denied')
    await hurry()
    await until(async () => (await outbox()).length === 0 && (await nothingIsDue()))
    expect(hook.came()).toHaveLength(1)
  })

  it('that fails is left alone for longer and longer, and then told the same message under the same id', async () => {
    const { alice } = authority
    const hook = await webhook(alice)
    receiver.script(hook.path, (_one, nth) => ({ status: nth <= 2 ? 503 : 200 }))
    const first = await asks()
    const waitOf = async () =>
      (
        await rows<{ failures: number; seconds: number }>(
          'SELECT failures, extract(epoch FROM retry_at - clock_timestamp())::float8 AS seconds FROM subscriptions WHERE failures > 0',
        )
      )[0]
    await until(async () => (await waitOf())?.failures === 1)
    const before = await waitOf()
    // What waits meanwhile goes with it, and does not begin before.
    const second = await asks()
    expect(
      (
        await rows<{ early: boolean }>(
          "SELECT at < clock_timestamp() AS early FROM due WHERE kind = 'notify'",
        )
      )[0]?.early,
    ).toBe(false)
    await hurry()
    await until(async () => (await waitOf())?.failures === 2)
    expect((await waitOf())!.seconds).toBeGreaterThan(before!.seconds)
    await hurry()
    await until(async () => (await outbox()).length === 0)
    const told = hook.came().map(one => {
      const { data } = verifiedWebhook(hook.secret, one) as { data: { agent: string } }
      return { agent: data.agent, id: one.headers['webhook-id'] }
    })
    expect(told.map(({ agent }) => agent)).toEqual([first.handle, first.handle, first.handle, second.handle])
    expect(new Set(told.slice(0, 3).map(({ id }) => id)).size).toBe(1)
    expect(told[3]!.id).not.toBe(told[0]!.id)
    expect((await list(alice))[0]).toMatchObject({ failing_since: null })
  })

  it('is told of an operator only if it lists the key of the agent as its own', async () => {
    const hook = await webhook(authority.alice)
    receiver.script(hook.path, (_one, nth) => ({ status: nth === 1 ? 500 : 204 }))
    const [named, attested] = [await asks(), await asks()]
    await until(async () => (await list(authority.alice))[0]?.['failing_since'] !== null)
    for (const { handle } of [named, attested])
      await rows(`UPDATE families SET operator = 'https://agents.example', attested = ${handle === attested.handle}
        WHERE handle = '${handle}'`)
    await hurry()
    await until(async () => (await outbox()).length === 0)
    const told = hook.came().slice(1)
    const operators = told.map(one => {
      const { data } = verifiedWebhook(hook.secret, one) as { data: { agent: string; operator: unknown } }
      return [data.agent, data.operator]
    })
    expect(operators).toEqual([
      [named.handle, null],
      [attested.handle, 'https://agents.example'],
    ])
  })

  it('is left alone for as long as it asks', async () => {
    const hook = await webhook(authority.alice)
    receiver.script(hook.path, { status: 429, headers: { 'retry-after': '1800' } })
    await asks()
    const seconds = async () =>
      (
        await rows<{ seconds: number | null }>(
          'SELECT extract(epoch FROM retry_at - clock_timestamp())::float8 AS seconds FROM subscriptions',
        )
      )[0]?.seconds ?? 0
    await until(async () => (await seconds()) > 1_700)
    expect(await seconds()).toBeLessThanOrEqual(1_800)
  })

  it('that takes nothing for a day is told of that request no more', async () => {
    const hook = await webhook(authority.alice)
    receiver.script(hook.path, { status: 500 })
    await asks()
    await until(() => hook.came().length === 1)
    await until(async () => (await list(authority.alice))[0]?.['failing_since'] !== null)
    await rows("UPDATE notifications SET since = since - interval '25 hours'")
    await hurry()
    await until(async () => (await outbox()).length === 0)
    expect(hook.came()).toHaveLength(1)
    const text = await (await fetch(`${authority.metricsUrl}/metrics`)).text()
    expect(text).toMatch(/usher_notifications_total\{kind="webhook",outcome="given_up"[^}]*\} 1/)
  })

  it('is sent nowhere else by a redirect', async () => {
    const hook = await webhook(authority.alice)
    receiver.script(hook.path, { status: 307, headers: { location: '/elsewhere' } })
    expect((await tryOut(authority.alice, hook.id)).body).toEqual({
      id: hook.id,
      delivered: false,
      status: 307,
      why: null,
    })
    expect(receiver.to('/elsewhere')).toEqual([])
  })
})

describe('A browser of hers', () => {
  it('is told by a declarative message that it alone can read, from a sender that a push service can verify', async () => {
    const { alice } = authority
    const browser = await browserOf(alice)
    expect(browser.body).not.toHaveProperty('secret')
    const agent = await asks()
    await until(() => browser.came().length === 1)
    const [received] = browser.came()
    const family = await familyOf(agent)
    expect(browser.read(received!)).toEqual({
      web_push: 8030,
      notification: {
        title: 'A request waits for you',
        body: `The agent ${agent.handle.slice(0, 12)}…, of no operator that is known, asks for alice/portfolio, for 1 hour.`,
        lang: 'en',
        dir: 'ltr',
        navigate: `${authority.ownerUrl}/#/waiting?family=${family}`,
        tag: family,
      },
    })
    const { claims, key } = await verifiedSender(received!)
    expect(claims).toMatchObject({ aud: receiver.origin, sub: authority.issuer })
    const { body } = await authority.call(alice, { target: '/owner/notifications/push-key' })
    expect(body).toEqual({ key })
    expect(received!.headers).toMatchObject({ 'content-encoding': 'aes128gcm', ttl: '86400' })
  })

  it('that subscribes again takes its own place', async () => {
    const { alice } = authority
    const { subscription, id } = await browserOf(alice)
    const again = await post(alice, { kind: 'push', name: 'my phone, anew', subscription })
    expect(again.status).toBe(201)
    expect(await list(alice)).toMatchObject([{ name: 'my phone, anew' }])
    expect((await remove(alice, id)).status).toBe(404)
  })

  it.each([
    ['push', 404],
    ['push', 410],
    ['webhook', 410],
  ] as const)('or a webhook (%s) that answers %d is gone: dropped, and she is told', async (kind, status) => {
    const bea = stand.bea()
    const { id, path, came } = kind === 'push' ? await browserOf(bea) : await webhook(bea)
    receiver.script(path, { status })
    await asks('bea')
    await until(async () => (await list(bea)).length === 0)
    expect(await outbox()).toEqual([])
    expect(came()).toHaveLength(1)
    const { body } = await authority.call(bea, {
      target: '/owner/ledger?kind=subscription_removed&first=newest&limit=1',
    })
    expect(body.entries).toMatchObject([
      { kind: 'subscription_removed', subscription: id, to: kind, by: 'endpoint', origin: receiver.origin },
    ])
    await asks('bea')
    await until(nothingIsDue)
    expect(came()).toHaveLength(1)
  })

  it('alone is gone by 404: a webhook that answers it is tried again', async () => {
    const hook = await webhook(authority.alice)
    receiver.script(hook.path, { status: 404 })
    await asks()
    await until(async () => (await list(authority.alice))[0]?.['failing_since'] !== null)
    expect(await outbox()).toHaveLength(1)
  })
})

describe('Several replicas', () => {
  it('tell each subscription of each request, and none of them twice if each answers', async () => {
    const second = await startTestAuthority({ beside: authority })
    try {
      const hooks = await Promise.all([1, 2, 3, 4].map(() => webhook(authority.alice)))
      const agents = await Promise.all([1, 2, 3, 4].map(() => asks()))
      // What is due may still be a look at what the other replica was sending just then.
      await until(async () => (await outbox()).length === 0)
      const handles = agents.map(({ handle }) => handle).sort()
      for (const hook of hooks) {
        const told = hook.came().map(one => {
          const { data } = verifiedWebhook(hook.secret, one) as { data: { agent: string } }
          return data.agent
        })
        expect(told.sort()).toEqual(handles)
      }
    } finally {
      await second.close()
    }
  })

  it('and one keep nobody waiting for an endpoint of another owner that does not answer', async () => {
    const { alice } = authority
    const bea = stand.bea()
    const silent: Hook[] = []
    while (silent.length < 12) silent.push(await webhook(alice))
    const held: (() => void)[] = []
    for (const { path } of silent)
      receiver.script(path, {
        write: async response => {
          await new Promise<void>(resolve => held.push(resolve))
          response.writeHead(204).end()
        },
      })
    await asks('alice')
    await until(() => held.length === silent.length)
    const hook = await webhook(bea)
    await asks('bea')
    await until(() => hook.came().length === 1)
    // None of the others was answered or given up by then.
    expect(await rows('SELECT 1 FROM subscriptions WHERE failures > 0')).toEqual([])
    held.forEach(release => release())
    await until(async () => (await outbox()).length === 0)
  })

  it('send again, under the same id, what one was killed with between sending and noting it', async () => {
    const quiet = await startTestAuthority({ owners: ['alice'], environment: { UMA_DEV_LOOPBACK: 'true' } })
    const beside = { ...quiet, environment: { ...quiet.environment, ...settings } }
    const doomed = await startAuthorityProcess(beside)
    try {
      const path = newPath()
      receiver.script(path, async (_one, nth) => {
        if (nth === 1) await doomed.kill()
        return { status: 204 }
      })
      const json = { kind: 'webhook', name: 'x', url: receiver.origin + path }
      const { body } = await doomed.own({ method: 'POST', target: '/owner/notifications', json })
      await testAgent(quiet).ask()
      await until(() => receiver.to(path).length === 1)
      const kept = await sql<{ id: string }>`SELECT id FROM notifications`.execute(quiet.database.db)
      expect(kept.rows).toHaveLength(1)
      const survivor = await startAuthorityProcess(beside)
      try {
        await sql`UPDATE notifications SET at = now()`.execute(quiet.database.db)
        await dueAtOnce(quiet.database, 'notify')
        await until(() => receiver.to(path).length === 2)
        const told = receiver.to(path)
        for (const one of told) verifiedWebhook(body.secret as string, one)
        expect(told.map(({ headers }) => headers['webhook-id'])).toEqual([kept.rows[0]!.id, kept.rows[0]!.id])
      } finally {
        await survivor.close()
      }
    } finally {
      await doomed.close()
      await quiet.close()
    }
  })
})
