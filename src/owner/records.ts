/**
 * Owns the shapes of what the owner API answers, as its client relies on them. contract, "Owner API": fields keep their wire
 * names; what a server adds is kept and shown, never needed.
 */

/** A request that waits for the owner: a first contact (`connection`) or one operation. */
export interface PendingItem {
  family: string
  kind: 'connection' | 'operation'
  tier: string
  tier_name: string
  resource_id: string
  purpose: string
  operation?: { tool: string; params?: unknown } | string | null
  reason?: string | null
  mission?: unknown
  prohibited: string[]
  enforced?: unknown
  expires_in: number
  identity?: unknown
  handle: string
  assurance?: { binding: number; provenance: number; accountability: number }
  assurance_notes?: string[]
  because?: string[]
  requested_at: string | number
}

/** The owner's answer to one pending item. */
export interface Decided {
  family: string
  decision: 'approved' | 'denied'
  by: string
}

/** A standing relationship with one agent. */
export interface Connection {
  handle: string
  label?: string | null
  status: string
  first_seen?: string | number | null
  last_access?: string | number | null
  tiers_granted?: string[]
  tiers_approved?: string[]
  revocations?: number
  introduced_by?: string | null
  /** Origins of the operators that stand behind it. */
  operators?: string[]
}

/** What a revocation ended; `rpts_deactivated_more` where there were more grants than were counted. */
export interface Revoked {
  handle: string
  status: string
  rpts_deactivated: number
  rpts_deactivated_more?: boolean
  connections_revoked?: number
}

/** A tier of the owner's policy. */
export interface Tier {
  id: string
  name: string
  resources: string[]
  ask_me: boolean
  rules: { when: string[]; then: string }[]
  clearance?: unknown
  terms: {
    template_id: string
    purpose: string
    scope: string[]
    expires_in: number
    prohibited: string[]
    per_operation?: boolean
  }
}

/** A registered resource, and the tier that governs it, if any. */
export interface Resource {
  _id: string
  name?: string
  type?: string
  resource_scopes: string[]
  consequence?: string | null
  tier?: string | null
  tier_name?: string | null
  ask_me?: boolean | null
  source?: string
}

/** A resource server with protection access, or one that asks for it. `registry` is null where nothing is pulled from it. */
export interface ResourceServer {
  client_id: string
  name: string
  resource_uri: string
  status: 'pending' | 'active' | 'revoked'
  auth: string
  registered_at?: string | number | null
  decided_at?: string | number | null
  last_pat_issued?: string | number | null
  registry?: {
    landed_at?: string | number | null
    failed_at?: string | number | null
    fault?: string | null
    conflicts?: number
  } | null
}

/** A device key of hers; a revoked one stays listed. */
export interface DeviceKey {
  kid: string
  name: string
  enrolled_at: string | number
  revoked_at?: string | number | null
}

/** A login of hers at her realm. */
export interface Login {
  id: string
  name: string
  issuer: string
  subject: string
  bound_at: string | number
}

/** One line of the ledger; other members depend on its kind. */
export interface LedgerEntry {
  seq: number
  ts: string | number
  kind: string
  family?: string
  handle?: string
  [member: string]: unknown
}

/** A receipt as the authority lists it: `jti` is the grant's, `receipt` a signed document with the agreement in it. */
export interface ReceiptRecord {
  seq: number
  family: string
  jti: string
  handle: string
  issued_at: string
  receipt: string
}
