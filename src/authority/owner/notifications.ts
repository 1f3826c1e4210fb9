/**
 * Where she is told outside her page that something waits: her webhooks and browsers. She lists, removes and
 * tests each. Contract: "Owner API", "Events" (row 1).
 */
import { randomBytes } from 'node:crypto'
import { z } from 'zod'
import { endpoint, type Endpoint } from '../../http/servers/endpoint.ts'
import { OutboundFault } from '../../http/outbound/outbound.ts'
import { checkUrl } from '../../http/outbound/outbound-reach.ts'
import { plainText } from '../../http/servers/pages.ts'
import { isTimeZone, TIME_OF_DAY } from '../../rules/quiet-hours.ts'
import {
  deleteSubscription,
  insertSubscription,
  listSubscriptions,
  readSubscription,
  setTiming,
  type ListedSubscription,
  type NewSubscription,
} from '../../storage/authority/notifications/subscriptions.ts'
import { webhookSecret } from '../../wire/owner/notification-key.ts'
import type {
  MessageTiming,
  NewWebhook,
  NotificationTest,
  QuietHours,
  Subscription,
} from '../../wire/owner/owner-api.ts'
import { browserKeys } from '../../wire/owner/push-message.ts'
import { askLater, refuse } from '../../wire/refusal.ts'
import { send, type Notifier } from '../notifications/sending.ts'
import { tellSubscription } from '../notifications/delivery.ts'
import type { OwnerApi } from './api.ts'
import { CREDENTIAL_NAME } from './credentials/credentials.ts'
import { changeAs, OWNER, type OwnerCredential } from './credentials/guard.ts'
import { ownerList } from './lists.ts'

const rows = { addedUnder: 'Owner API' } as const
const NO_SUCH = 'You have no subscription of this id.'

const text = z.string()

const TIME = plainText(5).regex(TIME_OF_DAY, 'give a time of day from 00:00 to 23:59, such as 22:00')
const QUIET_HOURS: z.ZodType<QuietHours> = z
  .strictObject({
    from: TIME,
    until: TIME,
    time_zone: plainText(64).refine(isTimeZone, 'give the name of a time zone, such as Europe/Zurich'),
  })
  .refine(({ from, until }) => from !== until, 'give an end that differs from the beginning')
  .meta({ id: 'QuietHours' })
const MINUTES = 'give a whole number of minutes from 1 to 1440'
const TIMING = {
  quiet_hours: QUIET_HOURS.nullable().default(null),
  digest_minutes: z.int(MINUTES).min(1, MINUTES).max(1_440, MINUTES).nullable().default(null),
}

const MEMBERS = z.strictObject({
  id: text,
  kind: z.enum(['webhook', 'push']),
  name: text,
  origin: text,
  created_at: text,
  sent_at: text.nullable(),
  failing_since: text.nullable(),
  quiet_hours: QUIET_HOURS.nullable(),
  digest_minutes: z.int().nullable(),
})
const SUBSCRIPTION: z.ZodType<Subscription> = MEMBERS.meta({ id: 'Subscription' })
const ADDED: z.ZodType<Subscription | NewWebhook> = MEMBERS.extend({ secret: text.optional() })
const TESTED: z.ZodType<NotificationTest> = z.strictObject({
  id: text,
  delivered: z.boolean(),
  status: z.int().nullable(),
  why: text.nullable(),
})

const URL_TEXT = plainText(2_048)
const WEBHOOK = z.strictObject({
  kind: z.literal('webhook'),
  name: CREDENTIAL_NAME,
  url: URL_TEXT,
  ...TIMING,
})
const PUSH = z.strictObject({
  kind: z.literal('push'),
  name: CREDENTIAL_NAME,
  subscription: z.strictObject({
    endpoint: URL_TEXT,
    keys: z.strictObject({ p256dh: plainText(100), auth: plainText(50) }),
  }),
  ...TIMING,
})
type SubscriptionRequest = z.output<typeof WEBHOOK> | z.output<typeof PUSH>

const ID_PARAMETER = { schema: z.strictObject({ id: plainText(100) }), unknown: NO_SUCH }

/** Hers to list, add, remove and try. */
export const NOTIFICATIONS: readonly Endpoint<OwnerApi>[] = [
  ownerList({
    path: '/owner/notifications',
    rows,
    summary: 'Addresses that get a message when something waits',
    says: 'By id. Only the origin of an address is shown; `failing_since` is null if the last message was accepted.',
    item: SUBSCRIPTION,
    list: listSubscriptions,
    key: 'id',
    show: shown,
  }),
  endpoint({
    method: 'post',
    path: '/owner/notifications',
    rows,
    summary: 'Has her told at a webhook, or in a browser that subscribed by Web Push',
    credential: OWNER,
    refuses: { 409: ['conflict'] },
    first: (api: OwnerApi) => void notifierOf(api),
    body: { schema: z.discriminatedUnion('kind', [WEBHOOK, PUSH]) },
    answers: {
      201: {
        says: 'Added. `secret` is what a webhook verifies messages with (Standard Webhooks); it is shown only this once.',
        schema: ADDED,
      },
    },
    handle: async (api: OwnerApi, { caller, body, answer }) =>
      answer(201, await add(api, caller, newSubscription(api, caller, body))),
  }),
  endpoint({
    method: 'put',
    path: '/owner/notifications/{id}',
    rows,
    summary: 'Says when she is told there of what can be undone; what is left out is null',
    credential: OWNER,
    parameters: ID_PARAMETER,
    body: { schema: z.strictObject(TIMING) },
    answers: { 200: { says: 'The address with what it has from now on.', schema: SUBSCRIPTION } },
    refuses: { 404: ['not_found'] },
    handle: async (api: OwnerApi, { caller, parameters: { id }, body, answer }) =>
      answer(200, await setWhen(api, caller, { id, timing: body })),
  }),
  endpoint({
    method: 'delete',
    path: '/owner/notifications/{id}',
    rows,
    summary: 'Has her told there no more',
    credential: OWNER,
    parameters: ID_PARAMETER,
    answers: { 200: { says: 'Removed.', schema: z.strictObject({ deleted: text }) } },
    refuses: { 404: ['not_found'] },
    handle: async (api: OwnerApi, { caller, parameters: { id }, answer }) => {
      await changeAs(api, caller, async tx => {
        const what = await deleteSubscription(tx, caller.owner, id)
        if (what === undefined) refuse('not_found', NO_SUCH)
        await tellSubscription(tx, caller.owner, 'removed', { what, by: byOwner(caller) })
      })
      return answer(200, { deleted: id })
    },
  }),
  endpoint({
    method: 'post',
    path: '/owner/notifications/{id}/test',
    rows,
    summary: 'Sends a test there, once and at once',
    credential: OWNER,
    parameters: ID_PARAMETER,
    answers: {
      200: {
        says: 'Whether it was accepted; `status` is that of the answer, or null if there was none, for the reason `why`.',
        schema: TESTED,
      },
    },
    refuses: { 404: ['not_found'], 409: ['conflict'], 429: ['temporarily_unavailable'] },
    first: (api: OwnerApi) => void notifierOf(api),
    handle: async (api: OwnerApi, { caller, parameters: { id }, answer }) =>
      answer(200, await test(api, caller, id)),
  }),
  endpoint({
    method: 'get',
    path: '/owner/notifications/push-key',
    rows,
    summary: 'The key that a browser subscribes with (`applicationServerKey`, RFC 8292)',
    credential: OWNER,
    answers: { 200: { says: 'In base64url.', schema: z.strictObject({ key: text }) } },
    refuses: { 409: ['conflict'] },
    handle: async (api: OwnerApi, { answer }) =>
      answer(200, { key: notifierOf(api).key.publicBytes.toString('base64url') }),
  }),
]

function shown(row: ListedSubscription): Subscription {
  const { id, kind, name, origin, created_at, sent_at, failing_since, quiet_hours, digest_minutes } = row
  return { id, kind, name, origin, created_at, sent_at, failing_since, quiet_hours, digest_minutes }
}

const byOwner = ({ actor }: OwnerCredential): object => ({ by: 'owner', actor })

function notifierOf({ notifier }: OwnerApi): Notifier {
  return (
    notifier ??
    refuse('conflict', 'This authority sends no notifications: its operator gave it no key for them.')
  )
}

/** Refuses `invalid_request` for an address that could never be sent to. */
function newSubscription(
  { devLoopback }: OwnerApi,
  { owner }: OwnerCredential,
  body: SubscriptionRequest,
): NewSubscription {
  const { kind, name, quiet_hours, digest_minutes } = body
  const endpoint = kind === 'webhook' ? body.url : body.subscription.endpoint
  const { p256dh = null, auth = null } = kind === 'push' ? body.subscription.keys : {}
  if (p256dh !== null && auth !== null && browserKeys({ p256dh, auth }) === undefined)
    refuse('invalid_request', 'subscription.keys: give those of the browser, as it wrote them.')
  const id = `sub_${randomBytes(12).toString('base64url')}`
  const origin = originOf(endpoint, devLoopback)
  return { owner, id, kind, name, endpoint, origin, p256dh, auth, quiet_hours, digest_minutes }
}

function originOf(endpoint: string, devLoopback: boolean): string {
  try {
    return checkUrl(endpoint, { devLoopback, publicOnly: true }).origin
  } catch (cause) {
    if (!(cause instanceof OutboundFault)) throw cause
    const sentence = 'Give a public https address, without a user, a password and a fragment.'
    return refuse('invalid_request', sentence, { cause })
  }
}

function add(
  api: OwnerApi,
  caller: OwnerCredential,
  added: NewSubscription,
): Promise<Subscription | NewWebhook> {
  const { key } = notifierOf(api)
  return changeAs(api, caller, async tx => {
    const row = await insertSubscription(tx, added)
    if (row === 'there') refuse('conflict', 'Remove it first: this address gets messages already.')
    if (row === 'full') {
      api.quotas.reached('subscriptions')
      refuse('conflict', 'Remove one first: you have the maximum number of addresses.')
    }
    await tellSubscription(tx, caller.owner, 'added', { what: row, by: byOwner(caller) })
    const { owner, id, kind } = added
    return kind === 'webhook' ? { ...shown(row), secret: webhookSecret(key, owner, id) } : shown(row)
  })
}

function setWhen(
  api: OwnerApi,
  caller: OwnerCredential,
  { id, timing }: { id: string; timing: MessageTiming },
): Promise<Subscription> {
  return changeAs(api, caller, async tx => {
    const row = await setTiming(tx, caller.owner, id, timing)
    if (row === undefined) refuse('not_found', NO_SUCH)
    await tellSubscription(tx, caller.owner, 'changed', { what: row, by: { ...timing, ...byOwner(caller) } })
    return shown(row)
  })
}

async function test(api: OwnerApi, caller: OwnerCredential, id: string): Promise<NotificationTest> {
  const notifier = notifierOf(api)
  const { owner } = caller
  const to = await readSubscription(api.database.of(owner), owner, id)
  if (to === undefined) refuse('not_found', NO_SUCH)
  const seconds = api.tests.take(owner)
  if (seconds > 0) throw askLater('Wait before you try another one.', seconds)
  // A request is accepted once: of two presentations of one signature, only one sends.
  await changeAs(api, caller, async () => undefined)
  const message = `msg_test_${randomBytes(12).toString('base64url')}`
  const { outcome, status, why } = await send(notifier, to, { id: message, about: undefined })
  return { id, delivered: outcome === 'sent', status, why }
}
