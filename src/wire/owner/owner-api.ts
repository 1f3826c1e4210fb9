/**
 * The records that the owner API answers with: one type each, for the code that serves, reads and describes
 * them. Contract: "Owner API"; the members are settled in docs/choices.md. A reader keeps unknown members.
 * Times are ISO 8601.
 */
import type { Actor } from './actor.ts'
import type { ClientId, Family, Handle } from '../identifiers.ts'

export type { ApprovedBefore, PendingItem, WholePendingItem } from '../documents/pending-item.ts'

/** The owner's answer to one pending item. */
export interface DecisionRecord {
  family: Family
  decision: 'approved' | 'denied'
  by: string
  /** Who decided. It is always there, except in answers from before it existed. */
  actor?: Actor | undefined
}

/** A standing relationship with one agent. */
export interface Connection {
  handle: Handle
  identity: 'pseudonymous' | 'identified'
  /** The owner's own name for it; never a name that the agent gave itself. */
  label: string | null
  status: 'active' | 'revoked'
  first_seen: string
  last_access: string | null
  tiers_granted: string[]
  tiers_approved: string[]
  revocations: number
  introduced_by: Handle | null
  /**
   * How far it reaches, if an administrator or co-holders, and not she, let the agent in: `organization`, or
   * `joint:` and the account. Null means everything.
   */
  reach?: string | null | undefined
  /**
   * How far her approval let it in: to everything that her tiers allow, or only to the tier at which it
   * asked.
   */
  admits?: 'all' | 'tier' | undefined
  /** Origins of the operators behind it. */
  operators: string[]
  /** Since when she has blocked the agent; null if she has not. */
  blocked_at?: string | null | undefined
}

/** The owner's new name for one of her connections; null means none. */
export interface Labelled {
  handle: Handle
  label: string | null
}

/** How many grants ended; `rpts_deactivated_more` if there were more than were counted. */
export interface Deactivated extends StillWaiting {
  rpts_deactivated: number
  rpts_deactivated_more?: true | undefined
}

/**
 * Withdrawals from joint accounts that the tallies have not acknowledged yet; they are told until they have.
 * And the sidecars that could still have let a call through for a moment, which none can any more.
 */
export interface StillWaiting {
  joint_withdrawals_waiting?: number | undefined
  /**
   * Left out if there was none. Those that did not acknowledge were waited for; `silent` are their resource
   * servers, so that she can take back one that always makes her wait.
   */
  leases?:
    | { holders: number; acknowledged: number; waited_ms: number; silent?: ClientId[] | undefined }
    | undefined
}

/** The signed revocation of an act, as a JWT (`ext-revocation+jwt`); null until it is signed. */
export interface SignedRevocation {
  revocation_jti: string
  revocation: string | null
}

/** The things that a revocation ended; its signed revocation, if the authority has keys of the log. */
export interface Revoked extends Deactivated {
  handle: Handle
  status: 'revoked'
  /** With those that it introduced. */
  connections_revoked: number
  revocation_jti?: string | undefined
  revocation?: string | null | undefined
}

/** How an agent stands with her now, and what ended with that. */
export interface Blocked extends Deactivated {
  handle: Handle
  blocked: boolean
  /** With those of the same key, and those that it introduced. */
  connections_revoked: number
}

/** An operator behind her connections: `agents` counts all that ever were, `active` those of now. */
export interface Operator {
  origin: string
  name: string | null
  agents: number
  active: number
  blocked: boolean
  blocked_at: string | null
  mine: boolean
}

/** A tier of the owner's policy. */
export interface Tier {
  id: string
  name: string
  resources: string[]
  ask_me: boolean
  rules: { when: string[]; then: 'auto' | 'ask' | 'refuse' }[]
  clearance: Record<string, string[]>
  terms: {
    template_id: string
    purpose: string
    scope: string[]
    expires_in: number
    prohibited: string[]
    per_operation: boolean
  }
}

/** How a request is answered, in one word: let in at once, shown to the owner, or refused. */
export type AnswerEffect = 'grant' | 'ask' | 'refuse'

/** A request of the ledger, as it was answered and as a changed tier would have answered it. */
export interface TriedRequest {
  seq: number
  ts: string
  family: Family | null
  handle: Handle | null
  resource_id: string
  was: AnswerEffect
  would: AnswerEffect
  because: string[]
}

/** The answers that a changed tier would have given; `next` is the `after` of the following page. */
export interface TierPreview {
  requests: TriedRequest[]
  changed: number
  warnings: string[]
  next: number | null
}

export interface VocabularyWord {
  condition: string
  takes: 'duration' | 'count' | 'level' | 'class' | 'allowance' | null
  label: string
  may_relax: boolean
}

/** A registered resource, and the tier that governs it, if any. */
export interface Resource {
  _id: string
  name: string
  type: string | null
  resource_scopes: string[]
  consequence: string | null
  tier: string | null
  tier_name: string | null
  ask_me: boolean | null
  source: 'provisioned' | 'pulled' | 'joint'
  /** The resource server that offers it. */
  client_id?: ClientId | undefined
  /** `signed`: it accepts only approvals that she signed; null means any. */
  approval?: 'signed' | null | undefined
}

/**
 * A resource server with protection access, or one that asks for it. `keys`: it signs with keys that the
 * operator of her authority lists; `signature`: with keys that it publishes itself. `registry` is null if
 * nothing is pulled from it.
 */
export interface ResourceServerEntry {
  client_id: ClientId
  name: string
  resource_uri: string
  status: 'pending' | 'active' | 'revoked'
  auth: 'secret' | 'keys' | 'signature'
  registered_at: string
  decided_at: string | null
  last_pat_issued: string | null
  registry: {
    landed_at: string | null
    failed_at: string | null
    fault: string | null
    conflicts: number
  } | null
}

/** One that she has just decided about; `leases` if it was withdrawn and sidecars held any. */
export interface DecidedServer extends ResourceServerEntry, Pick<StillWaiting, 'leases'> {}

/** An origin whose resource servers may not register with her. */
export interface BannedOrigin {
  origin: string
  banned_at: string
}

/** The effect of a ban: `withdrawn` are the client_ids of those that waited there. */
export interface Banned extends Pick<StillWaiting, 'leases'> {
  origin: string
  banned: true
  withdrawn: ClientId[]
}

/**
 * Hours of each day, by the clock of an IANA time zone: 24-hour times, `until` after midnight if it is less.
 */
export interface QuietHours {
  from: string
  until: string
  time_zone: string
}

/** When an address gets messages about what can be undone; null means that they do not wait for that. */
export interface MessageTiming {
  quiet_hours: QuietHours | null
  /** Minutes from the oldest of the messages that wait until they are sent together. */
  digest_minutes: number | null
}

/** An address that gets a message when something waits; only the origin of the address. */
export interface Subscription extends MessageTiming {
  id: string
  kind: 'webhook' | 'push'
  name: string
  origin: string
  created_at: string
  sent_at: string | null
  /** Null if the last message was accepted, or none was sent yet. */
  failing_since: string | null
}

/** A webhook as it is added: with the secret that verifies messages, shown only this once. */
export interface NewWebhook extends Subscription {
  secret?: string | undefined
}

/** The result of a test; `status` null means that there was no answer, for the reason `why`. */
export interface NotificationTest {
  id: string
  delivered: boolean
  status: number | null
  why: string | null
}

/** A row of her archive, and the part that it belongs to. */
export interface ArchiveLine {
  part: string
  row: Record<string, unknown>
}

/** A recovery that waits: from `in_force_at` on, the holder of its code can enrol a credential for her. */
export interface Recovery {
  started_at: string
  in_force_at: string
  expires_at: string
}

/** One line of the ledger; other members depend on its kind. */
export interface LedgerEntry {
  seq: number
  ts: string
  kind: string
  family?: Family
  handle?: Handle
  /** With `bodies=true`: what its leaf in the tree is made from, as docs/choices.md says. */
  owner?: string
  prev?: number
  /** 16 bytes, base64url. */
  salt?: string
  data_text?: string
  [member: string]: unknown
}

/**
 * A receipt as it is listed: `jti` is that of the grant, `receipt` a signed document that contains the
 * agreement.
 */
export interface ReceiptRecord {
  seq: number
  family: Family
  jti: string
  handle: Handle
  issued_at: string
  receipt: string
}

/** Who counts under a mandate, and with what weight. */
export interface JointHolder {
  owner: string
  issuer: string
  weight: number
}

/** What a mandate would commit her to; `my_terms` are her terms over the resources that it covers. */
export interface JointPreview {
  mandate: {
    account: string
    tally: string
    resources: string[]
    holders: JointHolder[]
    rule: { kind: 'all' | 'any' | 'threshold'; threshold: number }
    total_weight: number
  }
  mandate_s256: string
  /** The mandate in sentences, which her own server writes. */
  summary: string[]
  my_terms: { tier: string; resources: string[]; terms: Tier['terms'] }[]
  /** Agreeing writes none. */
  writes_terms: false
}

/** An account that she holds with others; `mandate_changed`: its tally now serves another mandate. */
export interface JointShare {
  account: string
  tally: string
  mandate_s256: string
  rule: { kind: 'all' | 'any' | 'threshold'; threshold: number; total_weight: number }
  holders: JointHolder[]
  resources: string[]
  since: string
  state: 'agreed' | 'mandate_changed'
}
