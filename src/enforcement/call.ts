/**
 * Owns what the enforcement point knows about a call and what it answers, whichever door the call came
 * through. Contract: "Resource server enforcement point" and "Authentication" ("Authorization inputs never
 * come from the transport"): a Call has no host and no scheme, so nobody can read them; the route's
 * configured values are used instead.
 */
import type { CheckDeadline } from './deadline.ts'

/** One call as it was received at the proxy. */
export interface Call {
  /** The method as it was sent, in its own case. */
  method: string
  /**
   * The raw path of the target, undecoded, without its query. It begins with a slash, and no reader would
   * normalize it.
   */
  path: string
  /** The raw query without its `?`; left out when the target has none. */
  query?: string
  /**
   * Received lines by lower-case name, in order of receipt. No pseudo header, no control character, one
   * `authorization` at most.
   */
  headers: ReadonlyMap<string, readonly string[]>
  body: CallBody
  /**
   * The proxy operator's settings for the route (ext_authz `context_extensions`); empty if there are none.
   */
  context: Readonly<Record<string, string>>
  /**
   * The address of the downstream that called the proxy, without its port; `unknown` if the proxy does not
   * say.
   */
  peer: string
  /** When the proxy stops waiting; left out if it waits for ever. */
  deadline?: CheckDeadline
  /** Whether the proxy has stopped waiting. */
  isCancelled: () => boolean
  /** `x-request-id` and `traceparent` as received, for logs. */
  requestId?: string
  traceparent?: string
}

/**
 * The part of the body that the proxy sent. `lossyText`: the body came as text in which `!` or U+FFFD may
 * stand for a byte that the proxy could not decode. `setting`: a sentence naming what to change in the proxy
 * so that the whole body arrives.
 */
export type CallBody =
  | { state: 'complete'; bytes: Buffer; lossyText: boolean }
  | { state: 'absent' }
  | { state: 'truncated'; setting: string }

/** How many milliseconds of judging the call were spent waiting for the authority. */
interface Waited {
  waitedMs?: number
}

/**
 * The call is let through: the header fields to set on the request and to remove from it, and what access
 * logs may contain. Never the token.
 */
export interface Allowed extends Waited {
  kind: 'allow'
  headers: Record<string, string>
  remove: string[]
  metadata: Record<string, string>
  /**
   * Present if the answer is a stream that stays open under a grant: asks the authority whether the grant
   * still lives. Rejects if nobody can tell now. Only a door that carries the stream itself can end it.
   */
  isStillLive?: () => Promise<boolean>
}

/** The call is refused: the answer to the caller of the tool. `status` is 400 to 599, `body` becomes JSON. */
export interface Denied extends Waited {
  kind: 'deny'
  status: number
  headers: [name: string, value: string][]
  body: object
  /**
   * Set if the caller gets the body as a JSON-RPC error, as the answer to the request of this id; null if it
   * has none. `status` is its HTTP status wherever that says nothing to a gateway; `status` of the denial if
   * it is left out.
   */
  rpc?: { id: string | number | null; status?: number }
  metadata: Record<string, string>
}

export type Outcome = Allowed | Denied
