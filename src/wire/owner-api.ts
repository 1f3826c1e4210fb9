/**
 * The records that the owner API answers with: one type each, for who serves them, who reads them and who
 * describes them. Contract: "Owner API"; the members are settled in docs/choices.md. A reader keeps what else
 * it is sent. Times are ISO 8601.
 */
import type { Actor } from './actor.ts'
import type { ClientId, Family, Handle } from './identifiers.ts'

/** Who asks, as far as it is known. `operator` is an origin, which attests it; `introduced_by` a handle. */
export interface PendingIdentity {
  kind: 'pseudonymous' | 'identified'
  client_id: string | null
  signature_agent: string | null
  operator: string | null
  operator_name: string | null
  introduced_by: Handle | null
}

/** A request that waits for the owner: a first contact (`connection`) or one operation. */
export interface PendingItem {
  family: Family
  kind: 'connection' | 'operation'
  tier: string
  tier_name: string
  resource_id: string
  purpose: string
  operation: { tool: string; params: unknown } | null
  reason: string | null
  mission: { approver: string; s256: string } | null
  prohibited: string[]
  /**
   * What a grant would be held to, and as `prohibited` what keeps each prohibition (wire/terms.ts,
   * `EnforcedProhibition`).
   */
  enforced: Record<string, unknown>
  /** Seconds that a grant would live. */
  expires_in: number
  identity: PendingIdentity
  handle: Handle
  assurance: { binding: number; provenance: number; accountability: number }
  assurance_notes: string[]
  because: string[]
  organization: null
  requested_at: string
}

/** The owner's answer to one pending item. */
export interface Decided {
  family: Family
  decision: 'approved' | 'denied'
  by: string
  /** Who decided; always answered, and absent from what was answered before there was one. */
  actor?: Actor | undefined
}

/** A standing relationship with one agent. */
export interface Connection {
  handle: Handle
  identity: 'pseudonymous' | 'identified'
  /** What the owner calls it; never a name that the agent gave itself. */
  label: string | null
  status: 'active' | 'revoked'
  first_seen: string
  last_access: string | null
  tiers_granted: string[]
  tiers_approved: string[]
  revocations: number
  introduced_by: Handle | null
  /** Origins of the operators that stand behind it. */
  operators: string[]
}

/** What the owner calls one of her connections from now on; null: nothing. */
export interface Labelled {
  handle: Handle
  label: string | null
}

/** How many grants ended; `rpts_deactivated_more` where there were more than were counted. */
export interface Deactivated {
  rpts_deactivated: number
  rpts_deactivated_more?: true | undefined
}

/** What a revocation ended. */
export interface Revoked extends Deactivated {
  handle: Handle
  status: 'revoked'
  /** With those that it introduced. */
  connections_revoked: number
}

/** An operator behind her connections: `agents` ever, `active` now. */
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
export type Effect = 'grant' | 'ask' | 'refuse'

/** A request of the ledger, as it was answered and as a changed tier would have. */
export interface TriedRequest {
  seq: number
  ts: string
  family: Family | null
  handle: Handle | null
  resource_id: string
  was: Effect
  would: Effect
  because: string[]
}

/** What a changed tier would have answered; `next` is the `after` of the following page. */
export interface TierPreview {
  requests: TriedRequest[]
  changed: number
  warnings: string[]
  next: number | null
}

/** A word that rules are written with. */
export interface VocabularyWord {
  condition: string
  takes: 'duration' | 'count' | 'level' | 'class' | null
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
  source: 'provisioned' | 'pulled'
}

/**
 * A resource server with protection access, or one that asks for it. `registry` is null where nothing is
 * pulled from it.
 */
export interface ResourceServer {
  client_id: ClientId
  name: string
  resource_uri: string
  status: 'pending' | 'active' | 'revoked'
  auth: 'secret' | 'signature'
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

/** An origin whose resource servers may not register with her. */
export interface BannedOrigin {
  origin: string
  banned_at: string
}

/** What a ban did: `withdrawn` are the client_ids of those that waited there. */
export interface Banned {
  origin: string
  banned: true
  withdrawn: ClientId[]
}

/** A device key of hers, as it is enrolled. */
export interface EnrolledKey {
  kid: string
  name: string
  enrolled_at: string
}

/** A device key of hers; a revoked one stays listed. */
export interface DeviceKey extends EnrolledKey {
  revoked_at: string | null
}

/** A login of hers at her realm. */
export interface Login {
  id: string
  name: string
  issuer: string
  subject: string
  bound_at: string
}

/** One line of the ledger; other members depend on its kind. */
export interface LedgerEntry {
  seq: number
  ts: string
  kind: string
  family?: Family
  handle?: Handle
  [member: string]: unknown
}

/** A receipt as it is listed: `jti` is the grant's, `receipt` a signed document with the agreement in it. */
export interface ReceiptRecord {
  seq: number
  family: Family
  jti: string
  handle: Handle
  issued_at: string
  receipt: string
}
