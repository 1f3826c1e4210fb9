/**
 * Owns the states of a standing connection, what a request gets by connection and tier, introductions and
 * lineage. Contract: "Connection" (States and transitions), "Owner API" (introduction of a sibling agent).
 */

export const CONNECTION_STATES = ['none', 'active', 'revoked'] as const
export type ConnectionState = (typeof CONNECTION_STATES)[number]
/**
 * `admitted`: the owner approved a first-contact request. `introduced`: an active connection introduced the
 * agent.
 */
export const CONNECTION_TRIGGERS = [
  'admitted',
  'introduced',
  'owner_revokes',
  'operator_blocked',
  'operator_unblocked',
  'introducer_ended',
] as const
export type ConnectionTrigger = (typeof CONNECTION_TRIGGERS)[number]

const MOVES: Record<ConnectionState, Partial<Record<ConnectionTrigger, ConnectionState>>> = {
  none: { admitted: 'active', introduced: 'active' },
  active: { owner_revokes: 'revoked', operator_blocked: 'revoked', introducer_ended: 'revoked' },
  revoked: { admitted: 'active' },
}

/**
 * The state after `trigger`, or undefined where nothing moves. Only the owner's own admission leads out of
 * `revoked`: an unblock restores the right to negotiate and no access, and an agent once ended cannot be
 * introduced back in. The moves are made by SQL, which test/storage/rules.test.ts holds to this.
 * @internal
 */
export function nextConnectionState(
  from: ConnectionState,
  trigger: ConnectionTrigger,
): ConnectionState | undefined {
  return MOVES[from][trigger]
}

/** What a waiting item asks the owner: to admit the agent, or to let one operation pass. */
export type PendingKind = 'connection' | 'operation'

/**
 * What a verified request gets. `singleUse` says whether the grant, now or once approved, is spendable only
 * once.
 */
export type RequestAnswer =
  | { kind: 'grant'; singleUse: boolean }
  | { kind: 'ask'; of: PendingKind; singleUse: boolean }
  | { kind: 'deny'; because: string[] }

/**
 * The answer by connection and tier. A refusing rule always denies. While no active connection exists
 * everything else is first contact, whatever the tier; at an active one `ask` pends as an operation and
 * `auto` is granted. The owner is asked once: approving a first contact also approves the operation carried
 * by the same agreement.
 */
export function answerFor(
  connection: ConnectionState,
  tier: { readonly ask_me: boolean },
  answer: { readonly effect: 'auto' | 'ask' | 'refuse'; readonly because: string[] },
): RequestAnswer {
  if (answer.effect === 'refuse') return { kind: 'deny', because: answer.because }
  const singleUse = isSingleUse(tier)
  if (connection !== 'active') return { kind: 'ask', of: 'connection', singleUse }
  return answer.effect === 'ask' ? { kind: 'ask', of: 'operation', singleUse } : { kind: 'grant', singleUse }
}

/**
 * Whether a grant of this tier carries `single_use` and `operation`: every grant of an ask-me tier does, also
 * one that a rule let through, and no other, also not one that a rule had the owner asked about.
 */
export function isSingleUse(tier: { readonly ask_me: boolean }): boolean {
  return tier.ask_me
}

/**
 * Operators that may come to stand behind one connection by later agreements, so that an agent cannot fill
 * the owner's list of them.
 */
export const OPERATORS_PER_CONNECTION_MAX = 16

/** Live agents one introducer may have brought in. */
export const LIVE_INTRODUCED_MAX = 3

/**
 * The owner's record as an introduction meets it. undefined = could not be established, which never helps the
 * newcomer.
 */
export interface IntroductionFacts {
  /** What names the introducer: its signed introduction, or the agent token's `parent_agent`. */
  readonly namedBy: 'introduction' | 'parent_agent' | undefined
  readonly newcomer: ConnectionState | undefined
  readonly introducer: ConnectionState | undefined
  /** The introducer holds a tier that the owner herself approved in its current generation. */
  readonly introducerApprovedInPerson: boolean | undefined
  readonly introducerWasIntroduced: boolean | undefined
  /** One operator's directory publishes both keys. */
  readonly oneOperatorPublishedBoth: boolean | undefined
  /** Agents now live that this introducer brought in. */
  readonly liveIntroduced: number | undefined
}

export type IntroductionFallback =
  | 'introducer_not_named'
  | 'newcomer_already_connected'
  | 'newcomer_has_ended_connection'
  | 'introducer_not_active'
  | 'introducer_not_approved_in_person'
  | 'introducer_was_introduced'
  | 'operator_did_not_publish_both_keys'
  | 'introducer_at_its_cap'

export type IntroductionAnswer = { ok: true } | { ok: false; because: IntroductionFallback }

/**
 * Whether a well-formed introduction lets the newcomer skip first contact. Anything missing is a silent
 * fall-back to first contact, with the reason kept for the owner: an introduction never makes an answer worse
 * than it would be without.
 */
export function introductionAnswer(facts: IntroductionFacts): IntroductionAnswer {
  const because = introductionFallback(facts)
  return because === undefined ? { ok: true } : { ok: false, because }
}

function introductionFallback(facts: IntroductionFacts): IntroductionFallback | undefined {
  if (facts.namedBy === undefined) return 'introducer_not_named'
  if (facts.newcomer === 'active') return 'newcomer_already_connected'
  if (facts.newcomer !== 'none') return 'newcomer_has_ended_connection'
  if (facts.introducer !== 'active') return 'introducer_not_active'
  if (facts.introducerApprovedInPerson !== true) return 'introducer_not_approved_in_person'
  if (facts.introducerWasIntroduced !== false) return 'introducer_was_introduced'
  if (facts.oneOperatorPublishedBoth !== true) return 'operator_did_not_publish_both_keys'
  if (facts.liveIntroduced === undefined || facts.liveIntroduced >= LIVE_INTRODUCED_MAX)
    return 'introducer_at_its_cap'
  return undefined
}

/**
 * Whether an act makes an agent first-party (`standing.first_party`): the owner herself approved or claimed
 * it, it is of an operator that she marked as her own, and that operator's directory listed its key when she
 * did. Nothing that a request says of itself is among these.
 */
export function makesFirstParty(act: {
  readonly byOwner: boolean
  readonly operatorIsHers: boolean
  readonly directoryListsKey: boolean
}): boolean {
  return act.byOwner && act.operatorIsHers && act.directoryListsKey
}

/** One connection of a lineage (an introducer and those it introduced) with the owner's approvals of it. */
export interface LineageMember {
  readonly state: ConnectionState
  readonly generation: number
  /**
   * By the owner herself; an administrator's decision is not listed here. `generation` is the connection's
   * then.
   */
  readonly approvals: readonly { readonly tier_id: string; readonly generation: number }[]
}

/**
 * Whether the owner personally approved this tier for a live member of the lineage: approval pools across it
 * both ways, but only approvals of a connection that is active now, given in its current generation. It is
 * read by SQL (storage/authority/standing.ts), which test/storage/rules.test.ts holds to this.
 * @internal
 */
export function approvedAtTier(lineage: readonly LineageMember[], tier_id: string): boolean {
  return lineage.some(
    member =>
      member.state === 'active' &&
      member.approvals.some(given => given.tier_id === tier_id && given.generation === member.generation),
  )
}
