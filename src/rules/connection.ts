/**
 * Owns the states of a standing connection, the answer to a request by connection and tier, introductions and
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

/**
 * The reach of a connection that was not admitted to everything: to what her organization governs, if an
 * administrator let the agent in, or to joint accounts (`joint:` and their names, with commas between them),
 * if she let it in only for these.
 */
export type ConnectionReach = 'organization' | `joint:${string}`

/**
 * The state of a connection for a request: outside its reach the agent is a stranger. `governed`: an
 * organization governs the requested resource; `joint`: the account that holds it. SQL reads standing in the
 * same way (storage/authority/negotiations/standing.ts).
 */
export function stateWithin(
  { status, reach }: { status: 'active' | 'revoked'; reach: ConnectionReach | null },
  governed: boolean,
  joint?: string,
): ConnectionState {
  const isWithin =
    reach === null ||
    (reach === 'organization' ? governed : joint !== undefined && jointAccountsOf(reach).includes(joint))
  return isWithin ? status : 'none'
}

function jointAccountsOf(reach: ConnectionReach): string[] {
  return reach.slice('joint:'.length).split(',')
}

/**
 * The reach of a connection after the owner let its agent in for a joint account, and how much that widens
 * it. It keeps its present reach, and nothing else of hers opens.
 */
export function reachWithAccount(
  known: { status: 'active' | 'revoked'; reach: ConnectionReach | null } | undefined,
  account: string,
): { reach: ConnectionReach | null; widens: boolean } {
  if (known?.status !== 'active') return { reach: `joint:${account}`, widens: false }
  if (known.reach === null || known.reach === 'organization') return { reach: null, widens: false }
  const accounts = new Set([...jointAccountsOf(known.reach), account])
  return { reach: `joint:${[...accounts].join(',')}`, widens: true }
}

const MOVES: Record<ConnectionState, Partial<Record<ConnectionTrigger, ConnectionState>>> = {
  none: { admitted: 'active', introduced: 'active' },
  active: { owner_revokes: 'revoked', operator_blocked: 'revoked', introducer_ended: 'revoked' },
  revoked: { admitted: 'active' },
}

/**
 * The state after `trigger`, or undefined if nothing changes. Only the owner's own admission leads out of
 * `revoked`: an unblock restores the right to negotiate but no access, and an agent whose access was ended
 * cannot be introduced again. SQL makes these moves, and test/storage/rules.test.ts compares it with this
 * function.
 * @internal
 */
export function nextConnectionState(
  from: ConnectionState,
  trigger: ConnectionTrigger,
): ConnectionState | undefined {
  return MOVES[from][trigger]
}

/** The question of a waiting item to the owner: admit the agent, or let one operation pass. */
export type PendingKind = 'connection' | 'operation'

/**
 * The answer to a verified request. `singleUse` says whether the grant, now or when it is approved, is
 * spendable only once.
 */
export type RequestAnswer =
  | { kind: 'grant'; singleUse: boolean }
  | { kind: 'ask'; of: PendingKind; singleUse: boolean }
  | { kind: 'deny'; because: string[] }

/**
 * The answer by connection and tier. A refusing rule always denies. While there is no active connection,
 * everything else is a first contact, whatever the tier says; at an active one `ask` pends as an operation
 * and `auto` is granted. The owner is asked once: approving a first contact also approves the operation
 * carried by the same agreement.
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
 * Whether a grant of this tier carries `single_use` and `operation`: every grant of an ask-me tier does, even
 * one that a rule let through; no other grant does, even if a rule made the owner be asked.
 */
export function isSingleUse(tier: { readonly ask_me: boolean }): boolean {
  return tier.ask_me
}

/**
 * How many operators later agreements may add to one connection, so that an agent cannot fill the owner's
 * list of operators.
 */
export const OPERATORS_PER_CONNECTION_MAX = 16

/** How many live agents one introducer may have brought in. */
export const LIVE_INTRODUCED_MAX = 3

/**
 * The owner's record at an introduction. undefined means that a fact could not be established, which never
 * helps the newcomer.
 */
export interface IntroductionFacts {
  /** The source that names the introducer: its signed introduction, or the agent token's `parent_agent`. */
  readonly namedBy: 'introduction' | 'parent_agent' | undefined
  readonly newcomer: ConnectionState | undefined
  readonly introducer: ConnectionState | undefined
  /** The introducer holds a tier that the owner herself approved in its current generation. */
  readonly introducerApprovedInPerson: boolean | undefined
  readonly introducerWasIntroduced: boolean | undefined
  /** One operator's directory publishes both keys. */
  readonly oneOperatorPublishedBoth: boolean | undefined
  /** The number of live agents that this introducer brought in. */
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
 * Whether a well-formed introduction lets the newcomer skip first contact. If anything is missing, the
 * newcomer silently falls back to first contact, and the reason is kept for the owner: an introduction never
 * makes an answer worse.
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
 * it, it belongs to an operator that she marked as her own, and that operator's directory listed its key at
 * that time. Nothing that a request says about itself counts.
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
   * Approvals by the owner herself; decisions of administrators are not listed here. `generation` is that of
   * the connection at the time.
   */
  readonly approvals: readonly { readonly tier_id: string; readonly generation: number }[]
}

/**
 * Whether the owner personally approved this tier for a live member of the lineage: approvals count for the
 * whole lineage in both directions, but only approvals of a connection that is active now, given in its
 * current generation. SQL reads this (storage/authority/negotiations/standing.ts), and
 * test/storage/rules.test.ts compares it with this function.
 * @internal
 */
export function approvedAtTier(lineage: readonly LineageMember[], tier_id: string): boolean {
  return lineage.some(
    member =>
      member.state === 'active' &&
      member.approvals.some(
        approval => approval.tier_id === tier_id && approval.generation === member.generation,
      ),
  )
}
