/**
 * Standing connections and the operators behind them: lists, labels, revoke, block, unblock. What ends here
 * ends in one transaction, which touches no grant. Contract: "Connection" (states), "Owner API"
 * (connections, operators).
 */
import { z } from 'zod'
import { asHandle, type Handle, type Owner } from '../../../wire/identifiers.ts'
import { endpoint, type Endpoint } from '../../../http/servers/endpoint.ts'
import { plainText } from '../../../http/servers/pages.ts'
import {
  blockOperator,
  labelConnection,
  listConnections,
  listOperators,
  revokeConnection,
  unblockOperator,
  type ConnectionEnd,
  type ListedConnection,
} from '../../../storage/authority/connections/connections.ts'
import { claimOperator, disclaimOperator } from '../../../storage/authority/connections/operators.ts'
import type { Tx } from '../../../storage/authority/database.ts'
import { appendEvent, appendEvents, type NewEvent } from '../../../storage/authority/ledger/events.ts'
import {
  appendLedger,
  appendLedgerAll,
  type NewLedgerEntry,
} from '../../../storage/authority/ledger/ledger.ts'
import type { Actor } from '../../../wire/owner/actor.ts'
import { refuse } from '../../../wire/refusal.ts'
import type { Connection, Deactivated, Labelled, Operator, Revoked } from '../../../wire/owner/owner-api.ts'
import { runAndTellTallies, STILL_WAITING } from '../../joint/withdrawals.ts'
import type { OwnerApi } from '../api.ts'
import { changeAs, OWNER, type OwnerCredential } from '../credentials/guard.ts'
import { ownerList } from '../lists.ts'
import { HANDLE } from '../../../wire/documents/names.ts'
import { admittedOrigin, NAMED_ORIGIN } from '../servers/origins.ts'

/** How long a claim waits for the operator's directory. */
const DIRECTORY_MS_MAX = 3_000

const text = z.string()
const maybe = text.nullable()
const count = z.int().min(0)

const CONNECTION: z.ZodType<Connection> = z
  .object({
    handle: HANDLE,
    identity: z.enum(['pseudonymous', 'identified']),
    label: maybe,
    status: z.enum(['active', 'revoked']),
    first_seen: text,
    last_access: maybe,
    tiers_granted: z.array(text),
    tiers_approved: z.array(text),
    revocations: count,
    introduced_by: HANDLE.nullable(),
    reach: maybe,
    admits: z.enum(['all', 'tier']),
    operators: z.array(text),
    blocked_at: maybe,
  })
  .meta({ id: 'Connection' })
/** What ended with an act of hers. */
export const ENDED = {
  rpts_deactivated: count,
  rpts_deactivated_more: z.literal(true).optional(),
  ...STILL_WAITING,
}
const REVOKED: z.ZodType<Revoked> = z
  .object({
    handle: HANDLE,
    status: z.literal('revoked'),
    connections_revoked: count,
    ...ENDED,
  })
  .meta({ id: 'Revoked' })

const LABELLED: z.ZodType<Labelled> = z.object({ handle: HANDLE, label: maybe }).meta({ id: 'Labelled' })

const LABEL_CHARACTERS_MAX = 60
/**
 * Characters that would break the line that shows a label, or reverse the text around it: controls, direction
 * marks, line separators, halves of characters.
 */
const UNFIT_FOR_A_LABEL = /[\p{Cc}\p{Bidi_Control}\p{Zl}\p{Zp}\p{Cs}]/u

/** What an owner calls a connection: characters are counted as a person counts them, not their bytes. */
const LABEL = z
  .string()
  .max(2 * LABEL_CHARACTERS_MAX, `give at most ${LABEL_CHARACTERS_MAX} characters`)
  .refine(
    label => Array.from(label).length <= LABEL_CHARACTERS_MAX,
    `give at most ${LABEL_CHARACTERS_MAX} characters`,
  )
  .refine(label => label.trim() !== '', 'give a name that can be seen, or null to take the label back')
  .refine(label => !UNFIT_FOR_A_LABEL.test(label), 'leave out control characters, among them line feeds')

/** The endpoints for connections: list, label, revoke. */
export const CONNECTIONS: readonly Endpoint<OwnerApi>[] = [
  ownerList({
    path: '/owner/connections',
    rows: ['owner-connections'],
    summary: 'Standing agent relationships',
    says: 'By handle.',
    item: CONNECTION,
    list: listConnections,
    key: 'handle',
    show: connectionAnswer,
  }),
  endpoint({
    method: 'put',
    path: '/owner/connections/label',
    rows: { addedUnder: 'Owner API' },
    summary: 'Calls a connection by a name of her own; null takes it back',
    credential: OWNER,
    body: {
      schema: z.strictObject({ handle: plainText(2_048).transform(asHandle), label: LABEL.nullable() }),
    },
    answers: { 200: { says: 'Its name from now on.', schema: LABELLED } },
    refuses: { 404: ['not_found'] },
    handle: async (api: OwnerApi, { caller, body, answer }) => answer(200, await label(api, caller, body)),
  }),
  endpoint({
    method: 'post',
    path: '/owner/connections/revoke',
    rows: ['owner-connections-revoke'],
    summary: 'Revokes a connection and its live RPTs',
    credential: OWNER,
    body: { schema: z.strictObject({ handle: plainText(2_048).transform(asHandle) }) },
    answers: { 200: { says: 'Nothing of it is live any more.', schema: REVOKED } },
    refuses: { 404: ['not_found'] },
    handle: async (api: OwnerApi, { caller, body, answer }) =>
      answer(200, await runAndTellTallies(api, caller.owner, () => revoke(api, caller, body.handle))),
  }),
]

const OPERATOR: z.ZodType<Operator> = z
  .object({
    origin: text,
    name: maybe,
    agents: count,
    active: count,
    blocked: z.boolean(),
    blocked_at: maybe,
    mine: z.boolean(),
  })
  .meta({ id: 'Operator' })
const STANDING = z
  .object({ origin: text, connections_revoked: count, ...ENDED })
  .meta({ id: 'OperatorStanding' })
const CLAIMED = z.object({ origin: text, mine: z.literal(true), first_party: z.array(text) })
const DISCLAIMED = z.object({ origin: text, mine: z.literal(false) })

/** Declares an endpoint for an act on an operator. */
function onOperator<Answer>(declared: {
  path: string
  rows: Endpoint<OwnerApi>['rows']
  summary: string
  says: string
  schema: z.ZodType<Answer>
  act: (api: OwnerApi, credential: OwnerCredential, origin: string) => Promise<Answer>
}): Endpoint<OwnerApi> {
  const { path, rows, summary, says, schema, act } = declared
  return endpoint({
    method: 'post',
    path,
    rows,
    summary,
    credential: OWNER,
    body: { schema: NAMED_ORIGIN },
    answers: { 200: { says, schema } },
    refuses: { 404: ['not_found'] },
    handle: async (api: OwnerApi, { caller, body, answer }) =>
      answer(200, await act(api, caller, admittedOrigin(api, body.origin))),
  })
}

/** The endpoints for operators behind connections. */
export const OPERATORS: readonly Endpoint<OwnerApi>[] = [
  ownerList({
    path: '/owner/operators',
    rows: ['owner-operators'],
    summary: 'Operators behind connections and whether blocked',
    says: 'By origin.',
    item: OPERATOR,
    list: listOperators,
    key: 'origin',
    show: row => row,
  }),
  onOperator({
    path: '/owner/operators/block',
    rows: ['owner-operators-block'],
    summary: 'Ends every connection of one operator and refuses future requests',
    says: 'What ended with it.',
    schema: STANDING,
    act: (api, credential, origin) =>
      runAndTellTallies(api, credential.owner, () => block(api, credential, origin)),
  }),
  onOperator({
    path: '/owner/operators/unblock',
    rows: ['owner-operators-unblock'],
    summary: 'Restores the right to negotiate, not the access withdrawn',
    says: 'What ended with it.',
    schema: STANDING,
    act: unblock,
  }),
  onOperator({
    path: '/owner/operators/claim',
    rows: { addedUnder: 'Owner API' },
    summary: 'Marks an operator as her own',
    says: 'And which of its connected agents became first-party.',
    schema: CLAIMED,
    act: claim,
  }),
  onOperator({
    path: '/owner/operators/disclaim',
    rows: { addedUnder: 'Owner API' },
    summary: 'Takes that mark back',
    says: 'Taken back.',
    schema: DISCLAIMED,
    act: disclaim,
  }),
]

function connectionAnswer(row: ListedConnection): Connection {
  const { handle, identity, label, status, first_seen, last_access } = row
  const { tiers_granted, tiers_approved, revocations, introduced_by, reach, admits, operators, blocked_at } =
    row
  return {
    handle,
    identity,
    label,
    status,
    first_seen,
    last_access,
    tiers_granted,
    tiers_approved,
    revocations,
    introduced_by,
    reach,
    admits,
    operators,
    blocked_at,
  }
}

/**
 * Sets her label for a connection. It appears only in her lists, and nothing is decided by a label. If it
 * changed, her other portals are told. Refuses 404 if there is no such connection.
 */
function label(api: OwnerApi, credential: OwnerCredential, change: Labelled): Promise<Labelled> {
  const { owner, actor } = credential
  return changeAs(api, credential, async tx => {
    const changed = await labelConnection(tx, owner, change.handle, change.label)
    if (changed === undefined) refuse('not_found', 'You have no connection with this handle.')
    if (changed) await appendEvent(tx, owner, 'connection_labelled', { ...change, by: 'owner', actor })
    return change
  })
}

/**
 * Ends a connection and those it introduced. When this has answered, none of their grants is live. Refuses
 * 404 if there is no such connection.
 */
function revoke(api: OwnerApi, credential: OwnerCredential, handle: Handle): Promise<Revoked> {
  const { owner, actor } = credential
  return changeAs(api, credential, async tx => {
    const ended = await revokeConnection(tx, owner, handle, actor)
    if (ended === undefined) refuse('not_found', 'You have no connection with this handle.')
    await recordEnded(tx, owner, ended, { endedBy: 'revocation', actor })
    return { handle, status: 'revoked', ...deactivated(ended), connections_revoked: ended.handles.length }
  })
}

/**
 * Blocks an operator, even one that is not known yet: its agents are refused from now on, and their access
 * ends.
 */
function block(
  api: OwnerApi,
  credential: OwnerCredential,
  origin: string,
): Promise<z.output<typeof STANDING>> {
  const { owner, actor } = credential
  return changeAs(api, credential, async tx => {
    const ended = await blockOperator(tx, owner, origin, actor)
    if (ended.newly) await recordStanding(tx, credential, 'blocked', origin)
    await recordEnded(tx, owner, ended, { endedBy: 'block', operator: origin, actor })
    return { origin, connections_revoked: ended.handles.length, ...deactivated(ended) }
  })
}

/** Restores the right to negotiate and nothing else. 404 if the owner has no such operator. */
function unblock(
  api: OwnerApi,
  credential: OwnerCredential,
  origin: string,
): Promise<z.output<typeof STANDING>> {
  const { owner } = credential
  return changeAs(api, credential, async tx => {
    const wasBlocked =
      (await unblockOperator(tx, owner, origin)) ??
      refuse('not_found', 'You have no operator with this origin.')
    if (wasBlocked) await recordStanding(tx, credential, 'unblocked', origin)
    return { origin, connections_revoked: 0, rpts_deactivated: 0 }
  })
}

/** Writes to the ledger how an operator stands with her from now on, and what that ended. */
function recordStanding(
  tx: Tx,
  { owner, actor }: OwnerCredential,
  kind: 'blocked' | 'unblocked',
  operator: string,
): Promise<void> {
  return appendLedger(tx, owner, { kind, data: { operator, by: 'owner', actor } })
}

/**
 * Marks an operator as the owner's own. Its connected agents become first-party only if its directory lists
 * their keys now. The directory is read before the transaction; if it cannot be fetched, it attests none.
 */
async function claim(
  api: OwnerApi,
  credential: OwnerCredential,
  origin: string,
): Promise<z.output<typeof CLAIMED>> {
  const { owner, actor } = credential
  const patience = { deadline: Date.now() + DIRECTORY_MS_MAX, favoured: true }
  const published = await api.operators.published(origin, patience)
  return changeAs(api, credential, async tx => {
    const first_party = await claimOperator(tx, owner, origin, [...(published ?? [])])
    const data = { operator: origin, first_party, by: 'owner', actor }
    await appendLedgerAll(tx, owner, [{ kind: 'claimed', data }])
    return { origin, mine: true, first_party }
  })
}

/** Takes the mark back, and with it the standing it gave. 404 if the owner has no such operator. */
function disclaim(
  api: OwnerApi,
  credential: OwnerCredential,
  origin: string,
): Promise<z.output<typeof DISCLAIMED>> {
  const { owner, actor } = credential
  return changeAs(api, credential, async tx => {
    if (!(await disclaimOperator(tx, owner, origin)))
      refuse('not_found', 'You have no operator with this origin.')
    await appendLedgerAll(tx, owner, [{ kind: 'disclaimed', data: { operator: origin, by: 'owner', actor } }])
    return { origin, mine: false }
  })
}

/** Writes to the ledger and the stream what ended: each connection, and each item that waited for one. */
export async function recordEnded(
  tx: Tx,
  owner: Owner,
  ended: ConnectionEnd,
  how: { endedBy: 'revocation' | 'block'; operator?: string; actor: Actor },
): Promise<void> {
  const { actor } = how
  const operator = how.operator === undefined ? {} : { operator: how.operator }
  const entries: NewLedgerEntry[] = [
    ...ended.handles.map(handle => ({
      kind: 'revoked' as const,
      handle,
      data: { by: 'owner', actor, ...operator },
    })),
    ...ended.families.map(family => ({
      kind: 'denied' as const,
      family,
      data: { by: how.endedBy, actor, ...operator },
    })),
  ]
  const events: NewEvent[] = [
    ...ended.handles.map(handle => ({
      event: 'connection_revoked' as const,
      data: { handle, by: 'owner', actor },
    })),
    ...ended.families.map(family => ({
      event: 'decided' as const,
      data: { family, decision: 'denied', by: how.endedBy, actor },
    })),
  ]
  await appendLedgerAll(tx, owner, entries)
  await appendEvents(tx, owner, events)
}

/** How many grants ended, as answers say it. */
export function deactivated(ended: ConnectionEnd): Deactivated {
  return {
    rpts_deactivated: ended.rptsDeactivated,
    ...(ended.more ? { rpts_deactivated_more: true } : {}),
  }
}
