/**
 * The acts of an administrator on a member's agents that touch what the organization governs. She sees each
 * under his name. He may always deny, and may do what she allows him. Contract: "Organization membership, on
 * the member's authorization server" (`/org/admin/{owner}/...`), "Policy vocabulary and tiers" (never the
 * owner's personal approval).
 */
import { z } from 'zod'
import { endpoint, type Endpoint } from '../../http/servers/endpoint.ts'
import { plainText } from '../../http/servers/pages.ts'
import { reachOf } from '../../rules/organization/membership.ts'
import { isGovernedItem } from '../../storage/authority/membership/administered.ts'
import { isEndedByOwner } from '../../storage/authority/connections/connections.ts'
import { appendEvent, appendEvents } from '../../storage/authority/ledger/events.ts'
import { readGovernedResource } from '../../storage/authority/negotiations/governance.ts'
import { appendLedger, appendLedgerAll } from '../../storage/authority/ledger/ledger.ts'
import {
  blockAgents,
  endAgent,
  restoreAgent,
  unblockAgents,
  type Acted,
} from '../../storage/authority/membership/organization-acts.ts'
import {
  readUndecided,
  type FormerItem,
  type UndecidedItem,
} from '../../storage/authority/negotiations/pending.ts'
import { readStanding } from '../../storage/authority/negotiations/standing.ts'
import { asFamily, asHandle, type Family } from '../../wire/identifiers.ts'
import { Refusal, refuse } from '../../wire/refusal.ts'
import { refusesNow, trajectoryCountTo } from '../negotiation/evaluation.ts'
import { LEASE_TIME, runAndAwaitLeases } from '../protection/lease-wait.ts'
import { decideItem, isAnyBlockedNow, refuseUnsigned } from '../owner/pending/decision.ts'
import { FAMILY, HANDLE } from '../../wire/documents/names.ts'
import { ACTOR, ADMINISTERED_ROWS, ONE_OWNER, shownActor } from './administered.ts'
import {
  actAs,
  ORGANIZATION_ADMINISTRATOR,
  requirePower,
  type Acting,
  type Administered,
} from './administrator.ts'

const NO_SUCH_ITEM = 'Nothing that you may decide waits under this family.'

const DECIDED = z.strictObject({
  family: FAMILY,
  decision: z.enum(['approved', 'denied']),
  by: z.literal('administrator'),
  actor: ACTOR,
})

/** The writes; each spends its token. */
export const ADMINISTRATION: readonly Endpoint<Administered>[] = [
  endpoint({
    method: 'post',
    path: '/org/admin/{owner}/pending/{family}/decision',
    rows: ADMINISTERED_ROWS,
    summary: 'Approves or denies one waiting request, once; the first decision counts',
    credential: ORGANIZATION_ADMINISTRATOR,
    parameters: {
      schema: ONE_OWNER.schema.extend({ family: plainText(200).transform(asFamily) }),
      unknown: NO_SUCH_ITEM,
    },
    body: { schema: z.strictObject({ decision: z.enum(['approved', 'denied']) }) },
    answers: { 200: { says: 'Decided by this call.', schema: DECIDED } },
    refuses: { 403: ['request_denied'], 404: ['not_found'], 409: ['conflict'] },
    handle: async (api: Administered, { caller, parameters: { family }, body: { decision }, answer }) => {
      const { actor } = await actAs(api, caller, acting =>
        decideAsAdministrator(api, acting, { family, decision }),
      )
      return answer(200, { family, decision, by: 'administrator', actor: shownActor(actor) })
    },
  }),
  onAgents({
    path: '/org/admin/{owner}/connections/revoke',
    summary: 'Ends the reach of an agent on what the organization governs',
    body: z.strictObject({ handle: plainText(2_048).transform(asHandle) }),
    answer: z.strictObject({ handle: HANDLE, revoked: z.literal(true), ...LEASE_TIME }),
    act: async (acting, { handle }) => {
      const acted = await act(acting, 'revoke', tx => endAgent(tx, under(acting), handle))
      await tell(acting, acted, { what: 'revoked', handle })
      return { handle, revoked: true }
    },
  }),
  onAgents({
    path: '/org/admin/{owner}/connections/restore',
    summary: 'Lets such an agent ask again; no grant comes back',
    body: z.strictObject({ handle: plainText(2_048).transform(asHandle) }),
    answer: z.strictObject({ handle: HANDLE, revoked: z.literal(false) }),
    act: async (acting, { handle }) => {
      const acted = await act(acting, 'restore', tx => restoreAgent(tx, under(acting), handle))
      await tell(acting, acted, { what: 'restored', handle })
      return { handle, revoked: false }
    },
  }),
  onAgents({
    path: '/org/admin/{owner}/operators/block',
    summary: 'Ends the reach of all agents of an operator on what the organization governs',
    body: z.strictObject({ origin: plainText(300) }),
    answer: z.strictObject({ origin: z.string(), blocked: z.literal(true), ...LEASE_TIME }),
    act: async (acting, { origin }) => {
      const acted = await act(acting, 'block', tx => blockAgents(tx, under(acting), origin))
      await tell(acting, acted, { what: 'blocked', operator: origin })
      return { origin, blocked: true }
    },
  }),
  onAgents({
    path: '/org/admin/{owner}/operators/unblock',
    summary: 'Lets agents of such an operator ask again; no grant comes back',
    body: z.strictObject({ origin: plainText(300) }),
    answer: z.strictObject({ origin: z.string(), blocked: z.literal(false) }),
    act: async (acting, { origin }) => {
      const acted = await act(acting, 'unblock', tx => unblockAgents(tx, under(acting), origin))
      await tell(acting, acted, { what: 'unblocked', operator: origin })
      return { origin, blocked: false }
    },
  }),
]

function onAgents<Body, Answer extends object>(declared: {
  path: string
  summary: string
  body: z.ZodType<Body>
  answer: z.ZodType<Answer>
  act: (acting: Acting, body: Body) => Promise<Answer>
}): Endpoint<Administered> {
  return endpoint({
    method: 'post',
    path: declared.path,
    rows: ADMINISTERED_ROWS,
    summary: declared.summary,
    credential: ORGANIZATION_ADMINISTRATOR,
    parameters: ONE_OWNER,
    body: { schema: declared.body },
    answers: { 200: { says: 'So it is from now on.', schema: declared.answer } },
    refuses: { 403: ['request_denied'], 404: ['not_found'], 409: ['conflict'] },
    handle: async (api: Administered, { caller, body, answer }) => {
      const { leases, ...done } = await runAndAwaitLeases<Answer>(() =>
        actAs(api, caller, acting => declared.act(acting, body)),
      )
      return answer(200, {
        ...(done as Answer),
        ...(leases && { leases: { waited_ms: leases.waited_ms } }),
      })
    },
  })
}

function under({ owner, membership, by }: Acting): Parameters<typeof endAgent>[1] {
  return { owner, membership: membership.join_id, by }
}

/** Needs a power that she left him. An agent or operator that is not for him to see is treated as unknown. */
async function act(
  acting: Acting,
  power: string,
  work: (tx: Acting['tx']) => Promise<Acted | undefined>,
): Promise<Acted> {
  requirePower(acting, power)
  return (await work(acting.tx)) ?? refuse('not_found', 'No agent of hers that you may act on is called so.')
}

/** Tells her what changed, and which items no longer wait. */
async function tell(
  { tx, owner, by }: Acting,
  { changed, families }: Acted,
  { handle, ...done }: { what: string; handle?: ReturnType<typeof asHandle>; operator?: string },
): Promise<void> {
  if (changed) {
    await appendLedger(tx, owner, { kind: 'org_acted', handle, data: { ...done, ...by } })
    const event = { ...done, ...(handle === undefined ? {} : { handle }), ...by }
    await appendEvent(tx, owner, 'organization', { ...event, what: `org_${done.what}` })
  }
  const denied = families.map(family => ({ kind: 'denied' as const, family, data: { ...by } }))
  await appendLedgerAll(tx, owner, denied)
  const events = families.map(family => ({
    event: 'decided' as const,
    data: { family, decision: 'denied', ...by },
  }))
  await appendEvents(tx, owner, events)
}

/** Decides one item. If she decided first, her decision is final. */
async function decideAsAdministrator(
  api: Administered,
  acting: Acting,
  { family, decision }: { family: Family; decision: 'approved' | 'denied' },
): ReturnType<typeof decideItem> {
  const { tx, owner, by } = acting
  const read = await readUndecided(tx, owner, family)
  if (!(await isGovernedItem(tx, owner, family))) refuseNotHis(acting, read)
  if (decision === 'approved') requirePower(acting, 'approve')
  if (read === 'unknown') refuse('not_found', NO_SUCH_ITEM)
  if ('gone' in read) throw noLongerWaits(read.gone)
  if (decision === 'approved' && (await isHersToDecide(api, acting, read.item)))
    refuse('request_denied', 'Ask her: only she can approve this request.', {
      extra: { reason: 'owner_only' },
    })
  if (decision === 'approved') await refuseUnsigned(tx, read.item)
  return decideItem({ tx, owner, by, noLongerWaits }, read.item, decision, {
    reach: 'organization',
    isListed: false,
  })
}

/**
 * Refuses 404 as if the item did not exist. Only for a resource that the charter claims in a version to which
 * she has not agreed yet, the refusal is 403 `not_agreed`.
 */
function refuseNotHis({ membership }: Acting, read: Awaited<ReturnType<typeof readUndecided>>): never {
  const { view } = membership
  const resource_id = read === 'unknown' || 'gone' in read ? undefined : read.item.resource_id
  if (resource_id !== undefined && reachOf(resource_id, membership) === null)
    if (reachOf(resource_id, { agreed: view, view }) !== null)
      refuse(
        'request_denied',
        'Wait until she has agreed: a later charter claims this, and not yet of her.',
        {
          extra: { reason: 'not_agreed' },
        },
      )
  return refuse('not_found', NO_SUCH_ITEM)
}

/**
 * Whether no administrator may approve it: her own tier refuses it by what is known now, or she ended the
 * agent's access or blocked one of its operators.
 */
async function isHersToDecide(
  { limits }: Pick<Administered, 'limits'>,
  { tx, owner, membership }: Acting,
  item: UndecidedItem,
): Promise<boolean> {
  const { handle, operator, held } = item
  if ((await isAnyBlockedNow(tx, owner, item)) !== false) return true
  if (await isEndedByOwner(tx, owner, { handle, jkt: held.jkt })) return true
  const { resource, tier } = await readGovernedResource(tx, held)
  if (resource === undefined || tier === undefined) return true
  const standing = await readStanding(tx, owner, {
    handle,
    tier_id: tier.tier_id,
    windowSeconds: limits.trajectoryWindowSeconds,
    countTo: trajectoryCountTo(tier.rules),
    operator: operator ?? undefined,
    membership: membership.join_id,
  })
  if (standing.endedByOrganization) return true
  const { jkt, operation, facts } = held
  return refusesNow({ tier, resource }, standing, { ...facts, jkt, operation, approved: false })
}

/** 409, saying who came first, but not with which of her credentials. */
function noLongerWaits(outcome?: FormerItem): Refusal {
  const { decision = null, decided_by: by = null, decided_actor = null } = outcome ?? {}
  if (decision === null || by === null)
    return new Refusal('conflict', 'This no longer waits: it was decided, withdrawn or has expired.')
  const actor = shownActor(decided_actor)
  const who = actor.kind === 'owner' ? 'her' : `${actor.admin}, an administrator of ${actor.name}`
  return new Refusal('conflict', `This was ${decision} already, by ${who}.`, {
    extra: { decision, by, actor },
  })
}
