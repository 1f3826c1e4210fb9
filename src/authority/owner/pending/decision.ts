/**
 * The one decision on a waiting item, by the owner (`decideAsOwner`) or by an administrator of her
 * organization (authority/organization/administrator-decision.ts): the first one decides, and
 * rules/organization/may-decide.ts says what each may decide.
 * Contract: "Permission ticket" (awaiting-owner), "Owner API" (`/owner/pending/{family}/decision`).
 */
import { thumbprintIn } from '../../../wire/agents/handles.ts'
import { makesFirstParty, reachWithAccount, type ConnectionReach } from '../../../rules/connection.ts'
import { mayDecide } from '../../../rules/organization/may-decide.ts'
import {
  admitConnection,
  lockOperator,
  readConnection,
  recordApproval,
} from '../../../storage/authority/connections/connections.ts'
import type { Tx } from '../../../storage/authority/database.ts'
import { appendEvent } from '../../../storage/authority/ledger/events.ts'
import { appendLedger } from '../../../storage/authority/ledger/ledger.ts'
import { isAnyBlocked, isOwn, nameOperator } from '../../../storage/authority/connections/operators.ts'
import {
  decideFamily,
  readUndecided,
  type FormerItem,
  type UndecidedItem,
} from '../../../storage/authority/negotiations/pending.ts'
import { takesSignedOnly } from '../../../storage/authority/registry/resources.ts'
import { REMOTE_MS_MAX } from '../../../surface/agents/identity.ts'
import type { Actor, DecidedBy } from '../../../wire/owner/actor.ts'
import type { Family, Owner } from '../../../wire/identifiers.ts'
import type { Admits } from '../../../wire/owner/decision-statement.ts'
import type { DecisionRecord } from '../../../wire/owner/owner-api.ts'
import { Refusal, refuse } from '../../../wire/refusal.ts'
import type { OwnerApi } from '../api.ts'
import { boundTo, refuseReplayed, type DecisionBinding, type DecisionSubmission } from './decision-item.ts'
import { changeAs, type OwnerCredential } from '../credentials/guard.ts'

export const NO_SUCH_ITEM = 'Nothing of yours waits under this family.'

/** The decision, its item, and her note to it. */
type FamilySubmission = DecisionSubmission & { family: Family }

/**
 * Decides a waiting item of the owner's, once: under the queue lock it still waits, its operator is not
 * blocked, and if it is approved and the agent has no connection, one is admitted. Everything is told in
 * the same transaction. 404 if the owner never had such an item, 409 if it was decided, ended or has
 * expired.
 */
export async function decideAsOwner(
  api: OwnerApi,
  credential: OwnerCredential,
  deciding: FamilySubmission,
): Promise<DecisionRecord> {
  const isListed = await wouldBeListed(api, credential.owner, deciding)
  return changeAs(api, credential, tx => decideIn(api, tx, credential, { ...deciding, isListed }))
}

/**
 * Decides several, all of them or none: one that is refused refuses them all, and its refusal names the
 * `family`.
 */
export async function decideAllAsOwner(
  api: OwnerApi,
  credential: OwnerCredential,
  all: readonly FamilySubmission[],
): Promise<DecisionRecord[]> {
  const prepared: (FamilySubmission & { isListed: boolean })[] = []
  for (const one of all) prepared.push({ ...one, isListed: await wouldBeListed(api, credential.owner, one) })
  return changeAs(api, credential, async tx => {
    const decided: DecisionRecord[] = []
    for (const one of prepared)
      decided.push(await decideIn(api, tx, credential, one).catch(error => refuseFor(one.family, error)))
    return decided
  })
}

function refuseFor(family: Family, error: unknown): never {
  if (!(error instanceof Refusal)) throw error
  const { code, detail, status, extra = {}, headers = {} } = error
  return refuse(code, detail, { status, extra: { ...extra, family }, headers, cause: error })
}

/** For an approval, this is read before the transaction, because it may need a request to another server. */
async function wouldBeListed(
  api: OwnerApi,
  owner: Owner,
  { decision, family }: FamilySubmission,
): Promise<boolean> {
  return decision === 'approved' && (await isListedByHers(api, owner, family))
}

// oxlint-disable-next-line eslint/max-params -- where, in what transaction, by whom, and what
async function decideIn(
  api: OwnerApi,
  tx: Tx,
  { owner, actor }: OwnerCredential,
  { family, isListed, ...submission }: FamilySubmission & { isListed: boolean },
): Promise<DecisionRecord> {
  const { decision } = submission
  const item = await undecided(tx, owner, family, outcome => noLongerWaits(outcome, submission))
  const blocked = decision === 'approved' && (await isAnyBlockedNow(tx, owner, item))
  if (!mayDecide('owner', decision, blocked !== false && 'blocked'))
    refuse(
      'conflict',
      blocked === 'agent'
        ? 'You blocked this agent: unblock it first.'
        : 'You blocked the operator of this agent: unblock it first.',
    )
  const bound = await boundTo(api, tx, item, submission)
  if (decision === 'approved' && bound.binding !== 'signed') await refuseUnsigned(tx, item)
  const deciding = { tx, owner, by: { by: 'owner', actor }, bound, noLongerWaits }
  return decideItem(deciding, item, decision, { reach: null, isListed, only: submission.only === true })
}

/**
 * Refuses 409 `signature_required` if she did not sign an approval and the resource accepts only signed ones.
 */
export async function refuseUnsigned(
  tx: Tx,
  { owner, resource_id }: Pick<UndecidedItem, 'owner' | 'resource_id'>,
): Promise<void> {
  if (await takesSignedOnly(tx, owner, resource_id))
    refuse(
      'signature_required',
      'Have the owner approve it by a key of hers, over what she was shown (her page, or `usher owner approve` at a terminal): this resource takes nothing else.',
    )
}

const UNBOUND: DecisionBinding = { binding: 'unbound' }

/** Who decides, and the answer to the one who decides second. */
export interface Decider {
  tx: Tx
  owner: Owner
  by: DecidedBy
  /** How her decision is bound to what she was shown; if left out, it is bound to nothing. */
  bound?: DecisionBinding | undefined
  noLongerWaits: (outcome?: FormerItem) => Refusal
}

/**
 * The item, if it still waits. Refuses 404 if there never was such an item, and otherwise as `noLongerWaits`
 * says.
 */
export async function undecided(
  tx: Tx,
  owner: Owner,
  family: Family,
  conflict: Decider['noLongerWaits'],
): Promise<UndecidedItem> {
  const read = await readUndecided(tx, owner, family)
  if (read === 'unknown') refuse('not_found', NO_SUCH_ITEM)
  if ('gone' in read) throw conflict(read.gone)
  return read.item
}

/** How an agent is let in: for everything by the owner herself (null), otherwise within a reach. */
interface Admitting {
  reach: ConnectionReach | null
  /** The directory of an operator that is the owner's own lists its key now. */
  isListed: boolean
  /** A first contact is let in for its tier alone; an operation is approved, and nothing at its tier. */
  only?: boolean
}

/** Writes the decision on a waiting item, and records it for her; the caller holds the queue's lock. */
// oxlint-disable-next-line eslint/max-params -- who decides, about what, how, and what that admits
export async function decideItem(
  decider: Decider,
  item: UndecidedItem,
  decision: DecisionRecord['decision'],
  admitting: Admitting,
): Promise<DecisionRecord & { actor: Actor }> {
  const { tx, owner, by: decidedBy, bound = UNBOUND } = decider
  const { by, actor } = decidedBy
  const generation = decision === 'approved' ? await admit(decider, item, admitting) : null
  const { family, handle, kind: of, resource_id, tier_id } = item
  if (!(await decideFamily(tx, { owner, family, decision, by: decidedBy, generation, note: bound })))
    throw decider.noLongerWaits()
  const { binding, statement_s256, reason } = bound
  const data = {
    of,
    tier: tier_id,
    resource_id,
    by,
    actor,
    binding,
    ...(decision === 'approved' && of === 'operation' && admitting.only === true && { only: true }),
    ...(statement_s256 !== undefined && { statement_s256 }),
    ...(reason !== undefined && { reason }),
  }
  await appendLedger(tx, owner, { kind: decision, family, handle, about: resource_id, data })
  await appendEvent(tx, owner, 'decided', { family, decision, by, actor })
  return { family, decision, by, actor }
}

/**
 * Whether she blocked the agent of an item, or its operator. This is read under the queue's lock, which a
 * block takes too.
 */
export async function isAnyBlockedNow(
  tx: Tx,
  owner: Owner,
  { handle, operator, held: { jkt } }: Pick<UndecidedItem, 'handle' | 'operator' | 'held'>,
): ReturnType<typeof isAnyBlocked> {
  if (operator !== null) await lockOperator(tx, owner, operator)
  return isAnyBlocked(tx, owner, { handle, jkt, operator })
}

/**
 * Makes sure that the approved agent has an active connection, with the key and the operator it was approved
 * with, and records what the owner herself approved at this tier; nobody else's approval counts as hers.
 * @returns the connection's generation, which the grant will carry.
 */
async function admit(
  { tx, owner, by: { by, actor }, noLongerWaits: conflict }: Decider,
  item: UndecidedItem,
  { reach, isListed, only = false }: Admitting,
): Promise<number> {
  const { family, handle, operator, tier_id, attested } = item
  const connection = await readConnection(tx, owner, handle)
  const isActive = connection?.status === 'active'
  // A request about an operation needs a connection. If that has ended, no approval may bring it back.
  if (!isActive && item.kind === 'operation') throw conflict()
  const { jkt, operatorName } = claimedBy(item)
  const byOwner = reach === null
  const { account } = item.item
  const within =
    account === undefined || item.kind === 'operation'
      ? { reach, widens: byOwner && item.kind === 'connection' }
      : reachWithAccount(connection, account)
  const operatorIsHers = operator !== null && (await isOwn(tx, owner, operator))
  const generation = await admitConnection(tx, {
    owner,
    handle,
    identity: thumbprintIn(handle) !== undefined ? 'pseudonymous' : 'identified',
    label: null,
    operator,
    introduced_by: null,
    jkt,
    first_party: makesFirstParty({ byOwner, operatorIsHers, directoryListsKey: isListed }),
    // Approving an operation approves what the connection reaches; approving a first contact approves the
    // agent; at a joint account, the agent at that account.
    ...within,
    admits: admitsNow(item, { byOwner, isActive, only }),
  })
  if (!isActive)
    await appendLedger(tx, owner, { kind: 'connected', family, handle, data: { tier: tier_id, by, actor } })
  if (operator !== null) await nameOperator(tx, owner, operator, { name: operatorName, attested })
  if (only && item.kind === 'operation') return generation
  if (byOwner) await recordApproval(tx, { owner, handle, tier_id, generation })
  return generation
}

/**
 * What her approval admits the agent for: everything, or one tier. Undefined (what she admitted stays) for an
 * operation, and for a joint account if the agent's connection stands.
 */
function admitsNow(
  { kind, item }: UndecidedItem,
  { byOwner, isActive, only }: { byOwner: boolean; isActive: boolean; only: boolean },
): Admits | undefined {
  if (!byOwner || kind === 'operation' || (isActive && item.account !== undefined)) return undefined
  return only ? 'tier' : 'all'
}

/** The key that signed what waits, and what the operator it named calls itself. */
function claimedBy({ held, item }: UndecidedItem): {
  jkt: string
  operatorName: string | undefined
} {
  return { jkt: held.jkt, operatorName: item.identity.operator_name ?? undefined }
}

/**
 * Whether the directory of an operator that the owner marked as her own lists, now, the key of what she is
 * about to approve. It is read before the transaction. For any other operator nothing is read, because
 * nothing depends on it.
 */
async function isListedByHers(api: OwnerApi, owner: Owner, family: Family): Promise<boolean> {
  const db = api.database.of(owner)
  const read = await readUndecided(db, owner, family)
  if (read === 'unknown' || 'gone' in read) return false
  const { item } = read
  if (item.operator === null || !item.attested) return false
  if (!(await isOwn(db, owner, item.operator))) return false
  const { client_id, signature_agent } = item.item.identity
  const { jkt } = claimedBy(item)
  if (client_id === null) return false
  const named = { client_id, signature_agent: signature_agent ?? undefined, jkts: [jkt] as const }
  const patience = { deadline: Date.now() + REMOTE_MS_MAX, favoured: true }
  return (await api.operators.lookUp(named, patience)).listed.has(jkt)
}

/**
 * Refuses 409. If it was decided, the refusal says by whom, because the second one must not mistake the
 * decision for their own; if it was decided by the very statement of `submission`, it says that.
 */
export function noLongerWaits(
  outcome?: FormerItem,
  submission: Pick<DecisionSubmission, 'statement'> = {},
): Refusal {
  const { decision = null, decided_by: by = null, decided_actor: actor = null } = outcome ?? {}
  if (decision === null || by === null || actor === null)
    return new Refusal('conflict', 'This no longer waits for you: it was decided, withdrawn or has expired.')
  refuseReplayed(submission, outcome?.owner_decision, { decision, by, actor })
  const how = by === 'owner' || by === 'administrator' ? '' : ` (${by})`
  const detail = `This was ${decision} already${how}, by ${named(actor)}.`
  return new Refusal('conflict', detail, { extra: { decision, by, actor } })
}

function named(actor: Actor): string {
  if (actor.kind === 'organization') return `${actor.admin}, an administrator of ${actor.name}`
  if (actor.kind === 'authority') return 'the operator of this authority'
  if (actor.credential === 'device_key') return `you, with the device key ${actor.kid}`
  if (actor.credential === 'passkey') return `you, with the passkey ${actor.id}`
  return actor.credential === 'login' ? `you, with the login ${actor.id}` : 'you, with an enrolment code'
}
