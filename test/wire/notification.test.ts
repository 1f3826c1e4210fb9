/**
 * What an owner is told outside of her page, and in which form: contract, "Events" (row 1), "Permission
 * ticket"; the examples are those of the formats themselves.
 */
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { asFamily, asHandle } from '../../src/wire/identifiers.ts'
import { notificationBody, pushBody, type RequestSummary } from '../../src/wire/owner/notification.ts'
import {
  generateNotificationJwk,
  importNotificationKey,
  webhookSecret,
} from '../../src/wire/owner/notification-key.ts'
import { browserKeys, encryptPush, pushHeaders } from '../../src/wire/owner/push-message.ts'
import { webhookHeaders } from '../../src/wire/owner/webhook.ts'
import { testBrowser } from '../support/notifications.ts'

const decoded = (text: string) => Buffer.from(text, 'base64url')

describe('A webhook', () => {
  it('is signed as the published example of Standard Webhooks', () => {
    const headers = webhookHeaders('whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw', {
      id: 'msg_p5jXN8AQM9LWM0D4loKWxJek',
      at: 1_614_265_330,
      body: '{"test": 2432232314}',
    })
    expect(headers).toEqual({
      'content-type': 'application/json',
      'webhook-id': 'msg_p5jXN8AQM9LWM0D4loKWxJek',
      'webhook-timestamp': '1614265330',
      'webhook-signature': 'v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=',
    })
  })

  it('has a secret of its own, the same at every replica, and another one under another key', () => {
    const [jwk, other] = [generateNotificationJwk(), generateNotificationJwk()]
    const made = (from: object, owner: string, id: string) =>
      webhookSecret(importNotificationKey(from), owner, id)
    const secret = made(jwk, 'alice', 'sub_1')
    expect(secret).toMatch(/^whsec_[A-Za-z0-9+/]{43}=$/)
    expect(made({ ...jwk }, 'alice', 'sub_1')).toBe(secret)
    const others = [made(jwk, 'bea', 'sub_1'), made(jwk, 'alice', 'sub_2'), made(other, 'alice', 'sub_1')]
    expect(new Set([secret, ...others]).size).toBe(4)
  })
})

describe('A push message', () => {
  it('is encrypted as the example of RFC 8291, Appendix A', () => {
    const keys = browserKeys({
      p256dh: 'BCVxsr7N_eNgVRqvHtD0zTZsEc6-VV-JvLexhqUzORcxaOzi6-AYWXvTBHm4bjyPjs7Vd8pZGH6SRpkNtoIAiw4',
      auth: 'BTBZMqHH6r4Tts7J_aSIgg',
    })!
    const fresh = {
      salt: decoded('DGv6ra1nlYgDCS1FRnbzlw'),
      privateKey: decoded('yfWPiYE-n46HLnH0KqZOF1fJJU3MYrct3AELtAQ-oRw'),
    }
    const body = encryptPush('When I grow up, I want to be a watermelon', keys, fresh)
    expect(body.toString('base64url')).toBe(
      'DGv6ra1nlYgDCS1FRnbzlwAAEABBBP4z9KsN6nGRTbVYI_c7VJSPQTBtkgcy27mlmlMoZIIgDll6e3vCYLocInmYWAmS6Tlz' +
        'AC8wEqKK6PBru3jl7A_yl95bQpu6cVPTpK4Mqgkf1CXztLVBSt2Ks3oZwbuwXPXLWyouBWLVWGNWQexSgSxsj_Qulcy4a-fN',
    )
  })

  it('is encrypted anew each time, for its browser alone', () => {
    const [browser, other] = [testBrowser(), testBrowser()]
    const [one, same] = [0, 1].map(() => encryptPush('{"a":1}', browserKeys(browser.keys)!))
    expect(one!.equals(same!)).toBe(false)
    expect(browser.read({ body: one! })).toEqual({ a: 1 })
    expect(() => other.read({ body: one! })).toThrow()
  })

  it('is made for no keys that are no point of the curve, or of another length', () => {
    const { keys } = testBrowser()
    expect(browserKeys(keys)).toBeDefined()
    const off = Buffer.from(keys.p256dh, 'base64url')
    off[64]! ^= 1
    const hostile = [
      { ...keys, p256dh: off.toString('base64url') },
      { ...keys, p256dh: '' },
      { ...keys, p256dh: keys.p256dh.slice(4) },
      { ...keys, auth: 'AA' },
    ]
    for (const one of hostile) expect(browserKeys(one)).toBeUndefined()
  })

  it('names its sender to the origin of the endpoint alone, for less than a day', () => {
    const key = importNotificationKey(generateNotificationJwk())
    const of = { endpoint: 'https://push.example/send/x?y=1', contact: 'https://as.example', at: 1_000 }
    const { authorization, topic } = pushHeaders(key, { ...of, topic: 'fam_1' })
    const claims = JSON.parse(decoded(authorization!.split('.')[1]!).toString()) as object
    expect(claims).toEqual({ aud: 'https://push.example', exp: 44_200, sub: 'https://as.example' })
    expect(topic).toMatch(/^[\w-]{32}$/)
    expect(pushHeaders(key, { ...of, topic: 'fam_2' })['topic']).not.toBe(topic)
  })
})

describe('The key of notifications', () => {
  it('is a private P-256 key whose halves belong together, and nothing else', () => {
    const jwk = generateNotificationJwk()
    expect(importNotificationKey(jwk).publicBytes).toHaveLength(65)
    const { x, y } = generateNotificationJwk()
    const { d: _, ...open } = jwk
    const hostile = [null, {}, open, { ...jwk, x, y }, { ...jwk, kty: 'OKP' }, { ...jwk, d: `${jwk.d}=` }]
    for (const one of hostile) expect(() => importNotificationKey(one)).toThrow(/Give/)
  })
})

const ASKING: RequestSummary = {
  family: asFamily('fam_1'),
  kind: 'operation',
  handle: asHandle('jkt:abcdefghijklmnop'),
  operator: 'https://agents.example',
  resource_id: 'alice/trades',
  expires_in: 3_600,
}

describe('What is told of a request', () => {
  it('is who asks, for which resource, how long, and the link that opens it', () => {
    const body = notificationBody(ASKING, 'https://as.example/', 0)
    expect(body).toEqual({
      type: 'request.waiting',
      timestamp: '1970-01-01T00:00:00.000Z',
      data: {
        family: 'fam_1',
        kind: 'operation',
        agent: 'jkt:abcdefghijklmnop',
        operator: 'https://agents.example',
        resource: 'alice/trades',
        expires_in: 3_600,
        link: 'https://as.example/#/waiting?family=fam_1',
      },
    })
    expect(pushBody(body)).toEqual({
      web_push: 8030,
      notification: {
        title: 'A request waits for you',
        body: 'The agent jkt:abcdefgh… of https://agents.example asks for alice/trades, for 1 hour.',
        lang: 'en',
        dir: 'ltr',
        navigate: 'https://as.example/#/waiting?family=fam_1',
        tag: 'fam_1',
      },
    })
  })

  it('of several together is how many they are, and the link to what waits', () => {
    const body = notificationBody({ count: 3 }, 'https://as.example/', 0)
    const link = 'https://as.example/#/waiting'
    expect(body).toEqual({
      type: 'requests.waiting',
      timestamp: '1970-01-01T00:00:00.000Z',
      data: { count: 3, link },
    })
    expect(pushBody(body)).toEqual({
      web_push: 8030,
      notification: {
        title: '3 requests wait for you',
        body: 'The page shows who asks, and for what.',
        lang: 'en',
        dir: 'ltr',
        navigate: link,
      },
    })
  })

  it.each([
    [1, '1 second'],
    [90, '90 seconds'],
    [120, '2 minutes'],
    [86_400, '1 day'],
    [90_000, '25 hours'],
  ])('says %d seconds as %s', (expires_in, words) => {
    const { notification } = pushBody(
      notificationBody({ ...ASKING, expires_in }, 'https://as.example', 0),
    ) as { notification: { body: string } }
    expect(notification.body).toContain(`, for ${words}.`)
  })

  it('is plain names, whatever anybody called himself: no space, no markup, no sign that nobody sees', () => {
    const hostile = fc.oneof(fc.string({ unit: 'binary' }), fc.string(), fc.constant('Dear alice, <b>pay'))
    fc.assert(
      fc.property(hostile, hostile, hostile, (handle, operator, resource_id) => {
        const asking = { ...ASKING, handle: asHandle(handle), operator, resource_id }
        const { data } = notificationBody(asking, 'https://as.example', 0)
        for (const told of [data.agent, data.operator, data.resource])
          expect(told ?? 'none').toMatch(/^[A-Za-z0-9._~:@/[\]-]{1,200}$/)
        const { notification } = pushBody(notificationBody(asking, 'https://as.example', 0)) as {
          notification: { body: string }
        }
        expect(notification.body).toMatch(/^[A-Za-z0-9._~:@/[\], …-]+$/)
      }),
    )
  })
})
