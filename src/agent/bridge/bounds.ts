/**
 * Owns the bounds of the bridge that several of its files keep: how much of a list is read, how often a
 * server is asked, how long a request may be waited for. Contract: "What the service does". A bound that one
 * file alone keeps stands there.
 */

/** Tools, resources, templates or prompts of one server; what is beyond them is left out. */
export const LIST_ENTRIES_MAX = 2000
/** Pages of one list; a server whose list never ends is asked for no more. */
export const LIST_PAGES_MAX = 100
/** How long a list is kept whose server does not say how long. */
export const LIST_TTL_MILLISECONDS = 60_000
/** What could not be read from a server is asked for again after this time, and then more and more rarely. */
export const RETRY_MILLISECONDS = 5000
export const RETRY_MILLISECONDS_MAX = 300_000
/** The questions that a server may ask about one call. */
export const QUESTIONS_OF_CALL_MAX = 16
/**
 * The lifetime of a negotiation; holding and lingering decide who waits for it, and how long. Asking for a
 * task prolongs it up to this age: a client that never stops asking keeps no request with an owner for ever.
 */
export const NEGOTIATION_SECONDS_MAX = 7 * 86_400
/** A timer that is set for longer is set again after this time: Node takes none of more than 24 days. */
export const TIMER_SECONDS_MAX = 86_400
