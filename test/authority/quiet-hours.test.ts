/**
 * When an owner is told outside of her page, over real receivers: contract, "Events" (row 1), "Owner API".
 * The clock is moved by the rows that stand against it.
 */
import { describe, expect, it } from 'vitest'
import type { JsonObject } from '../../src/wire/json.ts'
import { startTestAuthority } from '../support/authority.ts'
import { verifiedWebhook } from '../support/notifications.ts'
import { notificationStand, type Hook } from '../support/notification-stand.ts'
import { decide, testAgent } from '../support/test-agent.ts'
import { until } from '../support/until.ts'

const stand = notificationStand()
const { authority, receiver, rows, asks, familyOf, hurry, outbox, nothingIsDue, webhook, list, change } =
  stand

/** Hours that began and end so many hours from now. */
function around(before: number, after: number): object {
  const time = (hours: number) => new Date(Date.now() + hours * 3_600_000).toISOString().slice(11, 16)
  return { from: time(-before), until: time(after), time_zone: 'UTC' }
}
const NIGHT = { quiet_hours: around(1, 2) }
const HOURLY = { digest_minutes: 60 }
const told = ({ came, secret }: Hook) =>
  came().map(one => verifiedWebhook(secret, one) as { type: string; data: JsonObject })
const idsOf = ({ came }: Hook) => came().map(({ headers }) => headers['webhook-id'])

/** So many messages are held back, and nothing is due before they are. */
async function held(count: number): Promise<void> {
  await until(async () => {
    const [one] = await rows<{ count: number; due: number }>(`
      SELECT (SELECT count(*) FROM notifications WHERE at = held_until AND at > now())::int AS count,
        (SELECT count(*) FROM due WHERE kind = 'notify' AND at IN (SELECT held_until FROM notifications))::int AS due`)
    return one!.count === count && one!.due > 0
  })
}

/** So many hours pass, for everything that was written. */
async function pass(hours: number): Promise<void> {
  const by = `interval '${hours} hours'`
  await rows(`WITH a AS (UPDATE subscriptions SET retry_at = retry_at - ${by}),
    b AS (UPDATE notifications SET since = since - ${by}, at = at - ${by}, held_until = held_until - ${by})
    UPDATE due SET at = at - ${by} WHERE kind = 'notify'`)
}

/** Her quiet hours are over. */
const morning = async (): Promise<void> => {
  await rows(`UPDATE subscriptions SET quiet_hours = '${JSON.stringify(around(3, -1))}'`)
  await hurry()
}

async function asksToTrade(): Promise<string> {
  const agent = testAgent(authority)
  const operation = { tool: 'place_trade', params: {} }
  expect((await agent.ask('place_trade', { operation })).body.error).toBe('request_submitted')
  return familyOf(agent)
}

describe('In quiet hours', () => {
  it('nothing is sent about what can be undone, and when they end one message is sent like any other', async () => {
    const hook = await webhook(authority.alice, NIGHT)
    const family = await familyOf(await asks())
    await held(1)
    expect(hook.came()).toEqual([])
    await morning()
    await until(async () => (await outbox()).length === 0 && (await nothingIsDue()))
    expect(told(hook)).toMatchObject([{ type: 'request.waiting', data: { family } }])
  })

  it('she is told at once of what cannot be undone, though other messages wait', async () => {
    const hook = await webhook(authority.alice, { ...NIGHT, ...HOURLY })
    await asks()
    await held(1)
    const family = await asksToTrade()
    await until(async () => (await outbox()).length === 1)
    await held(1)
    expect(told(hook)).toMatchObject([{ type: 'request.waiting', data: { family } }])
  })

  it('she is told at once of what nobody gave a class', async () => {
    const declared = "consequence = 'reversible' WHERE resource_id = 'alice/portfolio'"
    await rows(`UPDATE resources SET ${declared.replace("'reversible'", 'NULL')}`)
    try {
      const hook = await webhook(authority.alice, NIGHT)
      await asks()
      await until(() => hook.came().length === 1)
    } finally {
      await rows(`UPDATE resources SET ${declared}`)
    }
  })

  it('of 23 hours a message is not given up: time for which it was held back does not count', async () => {
    const hook = await webhook(authority.alice, { quiet_hours: around(0, 23), digest_minutes: 1_440 })
    await asks()
    await held(1)
    await pass(47)
    await morning()
    await until(async () => (await outbox()).length === 0)
    expect(told(hook)).toHaveLength(1)
  })

  it('or before them, what was taken nowhere for a day besides is given up', async () => {
    const hook = await webhook(authority.alice, NIGHT)
    receiver.script(hook.path, { status: 500 })
    await asks()
    await held(1)
    await pass(2)
    await morning()
    await until(async () => (await list(authority.alice))[0]?.['failing_since'] !== null)
    await pass(25)
    await until(async () => (await outbox()).length === 0)
    expect(hook.came()).toHaveLength(1)
  })

  it('another attempt waits, too', async () => {
    const hook = await webhook(authority.alice, { quiet_hours: around(3, -1) })
    receiver.script(hook.path, (_one, nth) => ({ status: nth === 1 ? 500 : 204 }))
    await asks()
    await until(async () => (await list(authority.alice))[0]?.['failing_since'] !== null)
    await rows(`UPDATE subscriptions SET quiet_hours = '${JSON.stringify(around(1, 2))}'`)
    await hurry()
    await held(1)
    expect(hook.came()).toHaveLength(1)
    await morning()
    await until(() => hook.came().length === 2)
    expect(new Set(idsOf(hook)).size).toBe(1)
  })

  it('alone messages wait: outside of them each is sent by itself', async () => {
    const hook = await webhook(authority.alice, { quiet_hours: around(3, -1) })
    receiver.script(hook.path, (_one, nth) => ({ status: nth === 1 ? 500 : 204 }))
    await asks()
    await until(async () => (await list(authority.alice))[0]?.['failing_since'] !== null)
    await asks()
    await hurry()
    await until(async () => (await outbox()).length === 0)
    const types = told(hook).map(({ type }) => type)
    expect(types).toEqual(['request.waiting', 'request.waiting', 'request.waiting'])
  })

  it('several replicas hold back, and send once when they end', async () => {
    const second = await startTestAuthority({ beside: authority })
    try {
      const hooks = await Promise.all([1, 2, 3].map(() => webhook(authority.alice, NIGHT)))
      for (let n = 0; n < 3; n++) await asks()
      await held(9)
      await morning()
      await until(async () => (await outbox()).length === 0)
      for (const hook of hooks)
        expect(told(hook)).toMatchObject([{ type: 'requests.waiting', data: { count: 3 } }])
    } finally {
      await second.close()
    }
  })
})

describe('A digest', () => {
  it('says how many requests wait and where, of those that still do, and nothing else', async () => {
    const hook = await webhook(authority.alice, HOURLY)
    const agents = [await asks(), await asks(), await asks()]
    await held(3)
    await decide(authority, agents[1]!.handle, 'denied')
    await pass(1)
    await until(async () => (await outbox()).length === 0 && (await nothingIsDue()))
    expect(told(hook)).toEqual([
      {
        type: 'requests.waiting',
        timestamp: expect.any(String) as string,
        data: { count: 2, link: `${authority.ownerUrl}/#/waiting` },
      },
    ])
  })

  it('comes so long after the oldest message, with which later ones go', async () => {
    const hook = await webhook(authority.alice, HOURLY)
    await asks()
    await held(1)
    await pass(0.5)
    await asks()
    await held(2)
    const waits = await rows<{ minutes: number }>(
      'SELECT round(extract(epoch FROM held_until - since) / 60)::int AS minutes FROM notifications ORDER BY since',
    )
    expect(waits).toEqual([{ minutes: 60 }, { minutes: 30 }])
    await pass(0.5)
    await until(() => hook.came().length === 1)
    // What begins to wait after it waits as long again.
    await asks()
    await held(1)
    expect(told(hook)).toMatchObject([{ data: { count: 2 } }])
  })

  it('of one request is the message about it, and of none is not sent', async () => {
    const hook = await webhook(authority.alice, HOURLY)
    const [first, second] = [await asks(), await asks()]
    await held(2)
    const family = await familyOf(second)
    await decide(authority, first.handle, 'denied')
    await pass(1)
    await until(() => hook.came().length === 1)
    expect(told(hook)).toMatchObject([{ type: 'request.waiting', data: { family } }])
    const third = await asks()
    await held(1)
    await decide(authority, third.handle, 'denied')
    await pass(1)
    await until(async () => (await outbox()).length === 0 && (await nothingIsDue()))
    expect(hook.came()).toHaveLength(1)
  })

  it('that is not taken is sent again under its id, and under another with what came since', async () => {
    const hook = await webhook(authority.alice, HOURLY)
    receiver.script(hook.path, (_one, nth) => ({ status: nth <= 2 ? 503 : 204 }))
    const failures = async () => (await rows<{ failures: number }>('SELECT failures FROM subscriptions'))[0]!
    await asks()
    await asks()
    await held(2)
    await pass(1)
    await until(async () => (await failures()).failures === 1)
    await hurry()
    await until(async () => (await failures()).failures === 2)
    await asks()
    await hurry()
    await until(async () => (await outbox()).length === 0)
    expect(told(hook).map(({ data }) => data['count'])).toEqual([2, 2, 3])
    const [first, again, more] = idsOf(hook)
    expect(again).toBe(first)
    expect(more).not.toBe(first)
    expect(first).toMatch(/^msg_[0-9a-f]{32}$/)
  })

  it('reaches a browser as a message that it shows by itself', async () => {
    const browser = await stand.browserOf(authority.alice)
    await change(authority.alice, browser.id, HOURLY)
    await asks()
    await asks()
    await held(2)
    await pass(1)
    await until(() => browser.came().length === 1)
    expect(browser.read(browser.came()[0]!)).toMatchObject({
      web_push: 8030,
      notification: { title: '2 requests wait for you', navigate: `${authority.ownerUrl}/#/waiting` },
    })
  })
})

describe('Quiet hours and digests', () => {
  it('are hers to change, which her list, her ledger and her archive say', async () => {
    const { alice } = authority
    const hook = await webhook(alice)
    const timing = { ...NIGHT, digest_minutes: 30 }
    const { status, body } = await change(alice, hook.id, timing)
    expect([status, body]).toEqual([200, expect.objectContaining({ id: hook.id, ...timing })])
    expect(await list(alice)).toMatchObject([timing])
    const { body: ledger } = await authority.call(alice, { target: '/owner/ledger?first=newest&limit=1' })
    expect(ledger.entries).toMatchObject([
      { kind: 'subscription_changed', subscription: hook.id, by: 'owner', ...timing },
    ])
    const { body: archive } = await authority.call(alice, { target: '/owner/export?limit=1000' })
    const lines = archive.lines as { part: string; row: object }[]
    expect(lines.filter(({ part }) => part === 'subscriptions')).toMatchObject([{ row: timing }])
    expect((await change(stand.bea(), hook.id, timing)).status).toBe(404)
    expect((await change(alice, hook.id, {})).body).toMatchObject({ quiet_hours: null, digest_minutes: null })
  })

  it('hold for what waits already: without them it is sent at once, one by one', async () => {
    const hook = await webhook(authority.alice, { ...NIGHT, ...HOURLY })
    await asks()
    await asks()
    await held(2)
    await change(authority.alice, hook.id, { quiet_hours: around(1, 4) })
    await until(async () => {
      const [one] = await rows<{ hours: number }>(
        'SELECT round(extract(epoch FROM min(held_until) - now()) / 3600)::int AS hours FROM notifications',
      )
      return one!.hours === 4
    })
    await change(authority.alice, hook.id, {})
    await until(async () => (await outbox()).length === 0 && (await nothingIsDue()))
    expect(told(hook).map(({ type }) => type)).toEqual(['request.waiting', 'request.waiting'])
  })

  it('are given as times of day in a known zone and whole minutes: anything else is refused with what to give', async () => {
    const { alice } = authority
    const hook = await webhook(alice)
    const hours = { from: '22:00', until: '07:00', time_zone: 'Europe/Zurich' }
    const wrong: [object, RegExp][] = [
      [
        { quiet_hours: { ...hours, from: '24:00' } },
        /quiet_hours\.from.*give a time of day from 00:00 to 23:59/,
      ],
      [{ quiet_hours: { ...hours, until: '7' } }, /quiet_hours\.until.*give a time of day/],
      [{ quiet_hours: { ...hours, until: '22:00' } }, /quiet_hours.*give an end that differs/],
      [{ quiet_hours: { ...hours, time_zone: 'Mars/Olympus' } }, /time_zone.*give the name of a time zone/],
      [{ quiet_hours: { from: '22:00', until: '07:00' } }, /time_zone/],
      [{ quiet_hours: { ...hours, days: 'all' } }, /days/],
      [{ digest_minutes: 0 }, /digest_minutes.*give a whole number of minutes from 1 to 1440/],
      [{ digest_minutes: 1_441 }, /digest_minutes.*give a whole number of minutes/],
      [{ digest_minutes: 1.5 }, /digest_minutes.*give a whole number of minutes/],
      [{ digest_minutes: '30' }, /digest_minutes.*give a whole number of minutes/],
    ]
    for (const [timing, says] of wrong) {
      const url = `${receiver.origin}/never`
      const answers = [
        await change(alice, hook.id, timing),
        await stand.post(alice, { kind: 'webhook', name: 'x', url, ...timing }),
      ]
      for (const { status, body } of answers)
        expect([status, body]).toEqual([
          400,
          { error: 'invalid_request', error_description: expect.stringMatching(says) as string },
        ])
    }
    expect(await list(alice)).toMatchObject([{ quiet_hours: null, digest_minutes: null }])
  })
})
