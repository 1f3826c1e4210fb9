/**
 * Where an owner is told that something waits: contract, "Owner API", "Authentication".
 */
import { sql } from 'kysely'
import { describe, expect, it } from 'vitest'
import { startTestAuthority } from '../support/authority.ts'
import { testBrowser, verifiedWebhook } from '../support/notifications.ts'
import { notificationStand } from '../support/notification-stand.ts'
import { quotaRefusals } from '../support/quota-refusals.ts'
import { testAgent } from '../support/test-agent.ts'

const stand = notificationStand()
const { authority, receiver, rows, asks, outbox, webhook, browserOf, post, remove, tryOut, list } = stand

describe('Her subscriptions', () => {
  it('are hers: another owner neither sees, removes nor tries them, and is told of nothing', async () => {
    const { alice } = authority
    const bea = stand.bea()
    const hook = await webhook(alice)
    expect(await list(bea)).toEqual([])
    expect((await remove(bea, hook.id)).status).toBe(404)
    expect((await tryOut(bea, hook.id)).status).toBe(404)
    await asks('bea')
    expect(await outbox()).toEqual([])
    expect(hook.came()).toEqual([])
  })

  it('are added and removed by her, which her ledger says, and nothing is sent there then', async () => {
    const { alice } = authority
    const hook = await webhook(alice)
    expect((await remove(alice, hook.id)).body).toEqual({ deleted: hook.id })
    const { body } = await authority.call(alice, { target: '/owner/ledger?first=newest&limit=2' })
    const said = { subscription: hook.id, to: 'webhook', name: 'my relay', by: 'owner' }
    expect(body.entries).toMatchObject([
      { kind: 'subscription_removed', ...said, actor: { kid: alice.key.thumbprint } },
      { kind: 'subscription_added', ...said },
    ])
    await asks()
    expect(await rows("SELECT 1 FROM due WHERE kind = 'notify'")).toEqual([])
    expect(hook.came()).toEqual([])
  })

  it('are exported without what lets anybody send there', async () => {
    const hook = await webhook(authority.alice)
    const browser = await browserOf(authority.alice)
    const { body } = await authority.call(authority.alice, { target: '/owner/export?limit=1000' })
    const lines = (body.lines as { part: string; row: object }[]).filter(one => one.part === 'subscriptions')
    expect(lines).toHaveLength(2)
    const text = JSON.stringify(lines)
    for (const secret of [hook.secret, hook.path, browser.path, browser.keys.auth, browser.keys.p256dh])
      expect(text).not.toContain(secret)
    expect(text).toContain(receiver.origin)
  })

  it('lead to public https addresses alone', async () => {
    const { alice } = authority
    const add = (url: string) => post(alice, { kind: 'webhook', name: 'x', url })
    const refused = [
      'http://hooks.example/x',
      'https://10.0.0.1/x',
      'https://[fd00::1]/x',
      'https://169.254.169.254/latest',
      'https://user@hooks.example/x',
      'https://hooks.example/#x',
      'ftp://hooks.example/x',
      'nothing',
    ]
    for (const url of refused) expect([url, (await add(url)).status]).toEqual([url, 400])
    // A name is judged when it is sent to, by what it resolves to then.
    const { body } = await add('https://localhost/x')
    expect((await tryOut(alice, body.id as string)).body).toMatchObject({ delivered: false, status: null })
    const { keys } = testBrowser()
    const subscription = { endpoint: 'https://push.example/x', keys: { ...keys, p256dh: `${keys.p256dh}A` } }
    expect((await post(alice, { kind: 'push', name: 'x', subscription })).status).toBe(400)
  })

  it('are at most 20, and one for each webhook', async () => {
    const { alice } = authority
    const url = (n: number) => ({ kind: 'webhook', name: 'x', url: `https://hooks.example/${n}` })
    for (let n = 0; n < 20; n++) expect((await post(alice, url(n))).status).toBe(201)
    expect((await post(alice, url(20))).status).toBe(409)
    expect(await quotaRefusals(authority, 'subscriptions')).toBe(1)
    await remove(alice, (await list(alice))[0]!['id'] as string)
    const there = (await rows<{ endpoint: string }>('SELECT endpoint FROM subscriptions LIMIT 1'))[0]!
      .endpoint
    expect((await post(alice, { kind: 'webhook', name: 'x', url: there })).status).toBe(409)
  })

  it('are tried a few times a minute', async () => {
    const bea = stand.bea()
    const hook = await webhook(bea)
    const first = await tryOut(bea, hook.id)
    expect(first.body).toEqual({ id: hook.id, delivered: true, status: 204, why: null })
    expect(verifiedWebhook(hook.secret, hook.came()[0]!)).toMatchObject({
      type: 'test',
      data: { link: `${authority.ownerUrl}/#/waiting` },
    })
    const statuses: number[] = []
    while (!statuses.includes(429)) statuses.push((await tryOut(bea, hook.id)).status)
    expect(statuses.length).toBeLessThanOrEqual(8)
    expect(hook.came().length).toBe(statuses.length)
  })
})

describe('An authority without a key for notifications', () => {
  it('says so, adds none and writes nothing', async () => {
    const quiet = await startTestAuthority()
    try {
      const json = { kind: 'webhook', name: 'x', url: 'https://hooks.example/x' }
      const refused = await quiet.call(quiet.alice, { method: 'POST', target: '/owner/notifications', json })
      expect([refused.status, refused.body.error]).toEqual([409, 'conflict'])
      const key = await quiet.call(quiet.alice, { target: '/owner/notifications/push-key' })
      expect(key.status).toBe(409)
      const listed = await quiet.call(quiet.alice, { target: '/owner/notifications' })
      expect([listed.status, listed.body]).toEqual([200, []])
      await testAgent(quiet).ask()
      for (const table of ['subscriptions', 'notifications'])
        expect((await sql.raw(`SELECT 1 FROM ${table}`).execute(quiet.database.db)).rows).toEqual([])
      const due = await sql`SELECT 1 FROM due WHERE kind = 'notify'`.execute(quiet.database.db)
      expect(due.rows).toEqual([])
    } finally {
      await quiet.close()
    }
  })
})
