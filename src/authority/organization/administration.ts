/**
 * The acts of an administrator on a member's agents that touch what the organization governs. She sees each
 * under his name. He may always deny, and may do what she allows him. Contract: "Organization membership, on
 * the member's authorization server" (`/org/admin/{owner}/...`), "Policy vocabulary and tiers" (never the
 * owner's personal approval).
 */
import { z } from 'zod'
import { endpoint, type Endpoint } from '../../http/servers/endpoint.ts'
import { plainText } from '../../http/servers/pages.ts'
import { appendEvent, appendEvents } from '../../storage/authority/ledger/events.ts'
import { appendLedger, appendLedgerAll } from '../../storage/authority/ledger/ledger.ts'
import {
  blockAgents,
  endAgent,
  restoreAgent,
  unblockAgents,
  type Acted,
} from '../../storage/authority/membership/organization-acts.ts'
import { asFamily, asHandle } from '../../wire/identifiers.ts'
import { refuse } from '../../wire/refusal.ts'
import { LEASE_TIME, runAndAwaitLeases } from '../protection/lease-wait.ts'
import { FAMILY, HANDLE } from '../../wire/documents/names.ts'
import { ACTOR, ADMINISTERED_ROWS, ONE_OWNER, shownActor } from './administered.ts'
import {
  actAs,
  ORGANIZATION_ADMINISTRATOR,
  requirePower,
  type Acting,
  type Administered,
} from './administrator.ts'
import { decideAsAdministrator, NO_SUCH_ITEM } from './administrator-decision.ts'

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
