/**
 * Sends one message to one subscription of an owner, by requests that reach only public addresses, and judges
 * the answer. Contract: "Owner API"; what is said is wire/owner/notification.ts.
 */
import { OutboundFault, plainWords, type Outbound } from '../../http/outbound/outbound.ts'
import type { SubscriptionTarget } from '../../storage/authority/notifications/subscriptions.ts'
import {
  notificationBody,
  pushBody,
  type RequestSummary,
  type Several,
} from '../../wire/owner/notification.ts'
import { webhookSecret, type NotificationKey } from '../../wire/owner/notification-key.ts'
import { browserKeys, encryptPush, pushHeaders } from '../../wire/owner/push-message.ts'
import { webhookHeaders } from '../../wire/owner/webhook.ts'

/** What sending needs; an installation that sends no notifications has none. */
export interface Notifier {
  readonly key: NotificationKey
  readonly outbound: Outbound
  /** The sender, as push services are told. */
  readonly issuer: string
  /** The address of her page. */
  readonly page: () => string
  /** Seconds since the epoch. */
  readonly now: () => number
}

/**
 * `gone`: the endpoint says that it accepts no more messages. `status` null: there was no answer, for the
 * reason `why`.
 */
export interface SentTo {
  outcome: 'sent' | 'gone' | 'failed'
  status: number | null
  why: string | null
  /** How long the endpoint asks us to wait. */
  afterSeconds: number
}

/** The answer of a push service for a browser that unsubscribed (RFC 8030 §7.3); a webhook may say 410. */
const GONE = { webhook: [410], push: [404, 410] } as const
const AFTER_SECONDS_MAX = 3_600

/**
 * Sends a message about one request or several, or a test without `about`; `id` is the same at each attempt.
 * Failures on the way are returned, not thrown.
 */
export async function send(
  notifier: Notifier,
  to: SubscriptionTarget,
  { id, about }: { id: string; about: RequestSummary | Several | undefined },
): Promise<SentTo> {
  const at = notifier.now()
  const body = notificationBody(about, notifier.page(), at)
  // A push service replaces a message that the browser has not fetched by the next about the same.
  const topic = about !== undefined && 'family' in about ? about.family : id
  const request =
    to.kind === 'webhook'
      ? webhookRequest(notifier, to, { id, at, body: JSON.stringify(body) })
      : pushRequest(notifier, to, { at, topic, body: JSON.stringify(pushBody(body)) })
  try {
    const { status, headers } = await notifier.outbound.request({
      method: 'POST',
      url: to.endpoint,
      ...request,
    })
    const endStatuses: readonly number[] = GONE[to.kind]
    const outcome = status >= 200 && status < 300 ? 'sent' : endStatuses.includes(status) ? 'gone' : 'failed'
    return { outcome, status, why: null, afterSeconds: retryAfter(headers['retry-after']) }
  } catch (error) {
    if (!(error instanceof OutboundFault)) throw error
    return { outcome: 'failed', status: null, why: plainWords(error), afterSeconds: 0 }
  }
}

function webhookRequest(
  { key }: Notifier,
  { owner, id }: SubscriptionTarget,
  message: { id: string; at: number; body: string },
): { headers: Record<string, string>; body: string } {
  return { headers: webhookHeaders(webhookSecret(key, owner, id), message), body: message.body }
}

function pushRequest(
  { key, issuer: contact }: Notifier,
  { endpoint, p256dh, auth }: SubscriptionTarget,
  { at, topic, body }: { at: number; topic: string; body: string },
): { headers: Record<string, string>; body: Buffer } {
  const keys = browserKeys({ p256dh: p256dh ?? '', auth: auth ?? '' })
  if (keys === undefined) throw new Error('a browser without keys was subscribed')
  const headers = pushHeaders(key, { endpoint, contact, at, topic })
  return { headers, body: encryptPush(body, keys) }
}

/** Seconds of a `Retry-After`. A date is ignored, and our own delay applies. */
function retryAfter(value: string | string[] | undefined): number {
  const seconds = typeof value === 'string' && /^\d{1,9}$/.test(value) ? Number(value) : 0
  return Math.min(seconds, AFTER_SECONDS_MAX)
}
