/**
 * Owns the message that an owner gets outside her page: that a request waits, which agent asks, for which
 * resource and for how long, and the link that opens it; or how many requests wait. It contains no parameter
 * of a call and no text that an agent, an operator or a resource server wrote: anything but a plain name is
 * left out. Contract: "Events" (row 1), "Permission ticket".
 */
import type { Family, Handle } from '../identifiers.ts'

/** A waiting request, reduced to what the message says. */
export interface RequestSummary {
  family: Family
  kind: 'connection' | 'operation'
  handle: Handle
  /** Its origin, if it lists the agent's key as its own; null if no operator is known. */
  operator: string | null
  resource_id: string
  /** Seconds that a grant would live. */
  expires_in: number
}

/** Several waiting requests, of which one message says no more than how many they are. */
export interface Several {
  count: number
}

/** The body that is sent to a webhook. */
export interface NotificationBody {
  type: 'request.waiting' | 'requests.waiting' | 'test'
  /** ISO 8601. */
  timestamp: string
  data: {
    family?: string
    kind?: RequestSummary['kind']
    agent?: string | null
    operator?: string | null
    resource?: string | null
    expires_in?: number
    count?: number
    /** Opens the card on her page, or all that waits. */
    link: string
  }
}

/** Letters and signs of names and origins, and nothing that makes a sentence. */
const PLAIN = /^[A-Za-z0-9._~:@/[\]-]{1,200}$/
const plain = (text: string | null): string | null => (text !== null && PLAIN.test(text) ? text : null)

/** The address of a request's card, on the page below this address. */
export function linkTo(base: string, family?: Family): string {
  const at = family === undefined ? '' : `?family=${encodeURIComponent(family)}`
  return `${base.replace(/\/$/, '')}/#/waiting${at}`
}

/** The body for a webhook; `about` nothing it is a test. `at` in seconds since the epoch. */
export function notificationBody(
  about: RequestSummary | Several | undefined,
  base: string,
  at: number,
): NotificationBody {
  const timestamp = new Date(at * 1_000).toISOString()
  if (about === undefined) return { type: 'test', timestamp, data: { link: linkTo(base) } }
  if ('count' in about)
    return { type: 'requests.waiting', timestamp, data: { count: about.count, link: linkTo(base) } }
  const { family, kind, handle, operator, resource_id, expires_in } = about
  return {
    type: 'request.waiting',
    timestamp,
    data: {
      family,
      kind,
      agent: plain(handle),
      operator: plain(operator),
      resource: plain(resource_id),
      expires_in,
      link: linkTo(base, family),
    },
  }
}

/**
 * The body for a browser: a declarative push message, which a browser that knows these shows by itself; in
 * other browsers the worker of the page shows it.
 */
export function pushBody(body: NotificationBody): object {
  const { data } = body
  const text = textOf(body)
  const tag = data.family === undefined ? {} : { tag: data.family }
  return { web_push: 8030, notification: { ...text, lang: 'en', dir: 'ltr', navigate: data.link, ...tag } }
}

function textOf({ type, data }: NotificationBody): { title: string; body: string } {
  switch (type) {
    case 'test':
      return { title: 'Notifications reach this browser', body: 'This is the test that you asked for.' }
    case 'requests.waiting':
      return {
        title: `${data.count ?? 0} requests wait for you`,
        body: 'The page shows who asks, and for what.',
      }
    case 'request.waiting':
      return { title: 'A request waits for you', body: sentenceOf(data) }
  }
}

function sentenceOf({ agent, operator, resource, expires_in = 0 }: NotificationBody['data']): string {
  const known = agent == null ? '' : ` ${agent.startsWith('jkt:') ? `${agent.slice(0, 12)}…` : agent}`
  const who =
    operator == null ? `The agent${known}, of no operator that is known,` : `The agent${known} of ${operator}`
  return `${who} asks for ${resource ?? 'a resource of yours'}, for ${lasting(expires_in)}.`
}

const UNITS = [
  ['day', 86_400],
  ['hour', 3_600],
  ['minute', 60],
  ['second', 1],
] as const

/** Written in the largest unit that divides it. */
function lasting(seconds: number): string {
  const [unit, size] = UNITS.find(([, of]) => seconds >= of && seconds % of === 0) ?? UNITS[3]
  const count = seconds / size
  return `${count} ${unit}${count === 1 ? '' : 's'}`
}
