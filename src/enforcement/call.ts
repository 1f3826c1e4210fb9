/**
 * Owns what the enforcement point knows of a call and what it answers, whichever door it came through.
 * Contract: "Resource server enforcement point" and "Authentication" ("Authorization inputs never come from
 * the transport"): a Call has no host and no scheme, so nobody can read them; the route's configured values
 * are used instead.
 */

/** One call as it was received at the proxy. */
export interface Call {
  /** As sent, case kept. */
  method: string
  /**
   * The raw path of the target, undecoded, without its query. Begins with a slash; no reader would normalize
   * it.
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
   * What the proxy's operator set for the route (ext_authz `context_extensions`); empty where there is none.
   */
  context: Readonly<Record<string, string>>
  /**
   * The address of the downstream that called the proxy, without its port; `unknown` where the proxy does not
   * say.
   */
  peer: string
  /** When the proxy stops waiting, in milliseconds since the epoch; left out when it waits for ever. */
  deadlineAt?: number
  /** Whether the proxy has stopped waiting. */
  isCancelled: () => boolean
  /** `x-request-id` and `traceparent` as received, for logs. */
  requestId?: string
  traceparent?: string
}

/**
 * The body as far as the proxy showed it. `lossyText`: it came as text in which `!` or U+FFFD may stand for a
 * byte that the proxy could not decode. `setting`: a sentence naming what to change in the proxy so that the
 * whole body arrives.
 */
export type CallBody =
  | { state: 'complete'; bytes: Buffer; lossyText: boolean }
  | { state: 'absent' }
  | { state: 'truncated'; setting: string }

/** Of the time that judging the call took, what went by waiting for the authority, in milliseconds. */
interface Waited {
  waitedMs?: number
}

/**
 * Let through: header fields to put on and to take off the request, and what access logs may know. Never the
 * token.
 */
export interface Allowed extends Waited {
  kind: 'allow'
  headers: Record<string, string>
  remove: string[]
  metadata: Record<string, string>
}

/** Refused: what the caller of the tool is answered. `status` is 400 to 599, `body` becomes JSON. */
export interface Denied extends Waited {
  kind: 'deny'
  status: number
  headers: [name: string, value: string][]
  body: object
  /**
   * Set where the caller is shown the body as a JSON-RPC error, as the answer to the request of this id; null
   * where it has none.
   */
  rpc?: { id: string | number | null }
  metadata: Record<string, string>
}

export type Outcome = Allowed | Denied
