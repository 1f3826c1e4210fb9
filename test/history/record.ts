/**
 * Owns what a history is made of: operations, each with the time at which it was sent and the time at which
 * its answer came. What has no answer may have had its effect, and may have it at any later time.
 */

/**
 * `done`: answered yes. `refused`: answered no, with a word. `outage`: answered 503, so that it may have had
 * its effect. `unknown`: no answer came. `away`: nobody took the request, so that it had no effect.
 */
export type Outcome = 'done' | 'refused' | 'outage' | 'unknown' | 'away'

interface Common {
  /** Its place in the history. */
  n: number
  /** Milliseconds; `until` is infinite if no answer came. */
  at: number
  until: number
  outcome: Outcome
  /** The code of a refusal, or what came in place of an answer. */
  code?: string | undefined
  /** The process that was asked. */
  via: string
  owner: string
  /** Asked while nothing was disturbed any more, and asked again until an answer came. */
  quiet?: boolean | undefined
}

/** A grant, as the token tells of it. */
export interface Grant {
  jti: string
  family: string
  handle: string
  tier: string
  /** Of the terms that it was given under. */
  version: number
  single: boolean
  /** Seconds since the epoch. */
  iat: number
  exp: number
  /** Seconds that the agent agreed to. */
  agreed: number
}

/** What an agreement would take of its owner's allowance, if it were let through unasked. */
export interface Share {
  allowance: string
  /** Of the amount `price`, in whole units. */
  price: number
  /** Seconds that the agent agrees to. */
  agreed: number
  /** Whether the allowance lets none such through, however little was used. */
  beyond: boolean
}

/** A ticket is presented: to learn terms, with an agreement, or to ask for the decision. */
export interface Present extends Common {
  op: 'present'
  handle: string
  ticket: string
  answer?: 'need_info' | 'submitted' | 'granted' | undefined
  family?: string | undefined
  /** What a repeat of it has in common with it, so that it joins what waits or takes its place. */
  same?: string | undefined
  kind?: string | undefined
  grant?: Grant | undefined
  /** Of an agreement at a tier that names an allowance. */
  share?: Share | undefined
}

/** A call is shown to a sidecar; `exact` says that it is what its grant is for, signed by its key. */
export interface Call extends Common {
  op: 'call'
  jti: string
  exact: boolean
}

/** The owner decides what waits under a family. */
export interface Decide extends Common {
  op: 'decide'
  family: string
  handle: string
  kind: string
  decision: 'approved' | 'denied'
  request: string
}

/** The owner ends a connection, or all of an operator. */
export interface End extends Common {
  op: 'revoke' | 'block' | 'unblock'
  /** A handle; of an operator its origin. */
  whom: string
  /** How many connections were ended, by the answer. */
  ended?: number | undefined
  request: string
}

/** The owner edits a tier; `version` is that of its terms from then on. */
export interface Edit extends Common {
  op: 'edit'
  tier: string
  version?: number | undefined
  request: string
}

/** The owner makes an allowance, or edits it. */
export interface Allow extends Common {
  op: 'allow'
  allowance: string
  /** Its version from then on. */
  makes: number
  among: 'all' | 'lineage'
  /** Whether it lets anything through: one that has ended does not. */
  open: boolean
  windows: { of: string; per: Period; max: number }[]
  request: string
}

export type Period = 'hour' | 'all'

/** The owner reads how much of an allowance is used, in the windows that have begun and not ended. */
export interface Uses extends Common {
  op: 'uses'
  allowance: string
  windows: WindowUse[]
}

/** One of its windows; `whose` is empty, or the agent that it is of. */
export interface WindowUse {
  of: string
  per: Period
  whose: string
  /** Milliseconds since the epoch. */
  starts: number
  used: number
}

export interface Entry {
  seq: number
  kind: string
  family?: string | undefined
  handle?: string | undefined
  by?: string | undefined
  operator?: string | undefined
  template_id?: string | undefined
  /** That was edited, by its id; or that a grant took a share of. */
  allowance?: string | { id: string; version: number; amounts: Record<string, string> } | undefined
  version?: number | undefined
}

/** The ledger is read to its end, from behind the entry `after`. */
export interface Read extends Common {
  op: 'read'
  after: number
  entries: Entry[]
}

/** What waits for her is listed; each item by what a repeat of it must join. */
export interface Waiting extends Common {
  op: 'waiting'
  items: string[]
}

/** Something is done to a process. */
export interface Fault extends Common {
  op: 'fault'
  what: string
}

export type Op = Present | Call | Decide | End | Edit | Allow | Uses | Read | Waiting | Fault

/** The agents, and the operator that each names. */
export interface Cast {
  agents: { owner: string; handle: string; operator: string }[]
  /** How far the clocks of the database's servers are apart, each of which may take over; 0 if left out. */
  clocksApartMs?: number
}

/** What is wrong, with the operations that show it. */
export interface Violation {
  rule: string
  says: string
  ops: number[]
}

/** Whether it had its effect, or may have had it. */
export const may = ({ outcome }: Common): boolean => outcome !== 'refused' && outcome !== 'away'
export const done = ({ outcome }: Common): boolean => outcome === 'done'
/** The last moment at which its effect may have come about. */
export const end = (op: Common): number => (op.outcome === 'done' ? op.until : Infinity)
