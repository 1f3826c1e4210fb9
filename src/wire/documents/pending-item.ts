/**
 * Owns a request that waits for the owner as she is shown it, for the authority that answers and describes it
 * and for her clients, and what an administrator of her organization is shown of it. Contract: "Permission
 * ticket" (awaiting-owner), "Owner API" (`/owner/pending`), "Organization membership, on the member's
 * authorization server" (`/org/admin/{owner}/pending`). A reader keeps unknown members. Times are ISO 8601.
 */
import { z } from 'zod'
import type { DecisionItem } from '../owner/decision-item.ts'
import { isJsonObject } from '../json.ts'
import { FAMILY, HANDLE } from './names.ts'

const text = z.string()
const maybe = text.nullable()
const count = z.int().min(0)
const record = z.looseObject({})
/** To the compiler, whatever the agent sends. */
const parameters: z.ZodType = record

/** In the form of src/wire/owner/decision-item.ts. What is hashed is never rebuilt from a description. */
const DECISION_ITEM = z.custom<DecisionItem>(isJsonObject).meta({ type: 'object' })

/** What both are shown of a request. */
const REQUEST = {
  family: FAMILY,
  tier: text,
  resource_id: text,
  purpose: text,
  operation: z.object({ tool: text, params: parameters }).nullable(),
  reason: maybe,
  mission: z.object({ approver: text, s256: text }).nullable(),
  prohibited: z.array(text),
  /**
   * The limits of a grant; `prohibited` says what enforces each prohibition (wire/negotiation/terms.ts,
   * `EnforcedProhibition`).
   */
  enforced: record,
  /** Seconds that a grant would live. */
  expires_in: count,
  handle: HANDLE,
  requested_at: text,
}

/** The caller, as far as it is known; `operator` is an origin, which attests it. */
const IDENTITY = z.object({
  kind: z.enum(['pseudonymous', 'identified']),
  client_id: maybe,
  signature_agent: maybe,
  operator: maybe,
  operator_name: maybe,
  introduced_by: HANDLE.nullable(),
})
const ASSURANCE = z.object({ binding: count, provenance: count, accountability: count })

/** A first contact (`connection`), one operation, or a request for something that she holds jointly. */
const PENDING = z.object({
  ...REQUEST,
  kind: z.enum(['connection', 'operation', 'joint']),
  /** Only for `joint`: the account, how many must agree, and who else is asked. */
  account: text.optional(),
  rule: z
    .object({ kind: z.enum(['all', 'any', 'threshold']), threshold: count, total_weight: count })
    .optional(),
  holders: z.array(z.object({ owner: text, issuer: text, weight: count })).optional(),
  tier_name: text,
  identity: IDENTITY,
  assurance: ASSURANCE,
  assurance_notes: z.array(text),
  because: z.array(text),
  /**
   * Tiers that could let the agent through unasked once she has approved it: for `operation` its own, if a
   * rule there goes by her approval; none for `joint`.
   */
  opens: z.array(text),
  /** The organization that governs the resource, and its answer to the request; null if none does. */
  organization: z
    .object({ issuer: text, org: text, name: text, effect: text, because: z.array(text) })
    .nullable(),
  /** The record that a decision is bound to, and its hash. */
  item: DECISION_ITEM,
  item_s256: text,
})

/** The last call of the same tool that she approved: when, and the agreement that the agent signed for it. */
const APPROVED_BEFORE = z.object({ family: FAMILY, approved_at: text, agreement_jws: text })

/** With the facts that she can compare it with. */
const WHOLE_PENDING = PENDING.extend({
  /** The agent's own words are shown from it. */
  agreement_jws: text,
  approved_before: APPROVED_BEFORE.nullable(),
  /** In its present state; null if there is none. */
  connection: z
    .object({
      label: maybe,
      status: z.enum(['active', 'revoked']),
      first_seen: text,
      last_access: maybe,
      revocations: count,
    })
    .nullable(),
})

export type PendingItem = z.output<typeof PENDING>
export type ApprovedBefore = z.output<typeof APPROVED_BEFORE>
export type WholePendingItem = z.output<typeof WHOLE_PENDING>

/** They may have members that are not named here. */
export const PENDING_ITEM: z.ZodType<PendingItem> = PENDING.loose().meta({ id: 'PendingItem' })
export const WHOLE_PENDING_ITEM: z.ZodType<WholePendingItem> = WHOLE_PENDING.loose()

/**
 * As an administrator of the organization is shown it, and nothing else: what is hers alone is left out, such
 * as her rules, what she knows about the agent, and her names for her tiers.
 */
export const ADMINISTERED_ITEM = z
  .strictObject({
    ...REQUEST,
    kind: z.enum(['connection', 'operation']),
    identity: IDENTITY.strict(),
    assurance: ASSURANCE.strict(),
    organization: z.unknown(),
  })
  .meta({ id: 'AdministeredItem' })
export type AdministeredItem = z.output<typeof ADMINISTERED_ITEM>
