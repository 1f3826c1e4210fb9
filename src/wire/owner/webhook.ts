/**
 * Owns the headers of a signed webhook (Standard Webhooks, symmetric signatures `v1`). Contract: "Owner API";
 * the receiver is not one of its parties.
 */
import { createHmac } from 'node:crypto'

const SECRET_PREFIX = 'whsec_'

/** One message as it is sent; `at` in seconds since the epoch. */
export interface WebhookMessage {
  /** The same at each attempt, so that a receiver recognizes a message that comes twice. */
  id: string
  at: number
  body: string
}

/** The headers under which its receiver verifies it with this secret. */
export function webhookHeaders(secret: string, { id, at, body }: WebhookMessage): Record<string, string> {
  const key = Buffer.from(secret.slice(SECRET_PREFIX.length), 'base64')
  const signature = createHmac('sha256', key).update(`${id}.${at}.${body}`).digest('base64')
  return {
    'content-type': 'application/json',
    'webhook-id': id,
    'webhook-timestamp': String(at),
    'webhook-signature': `v1,${signature}`,
  }
}
