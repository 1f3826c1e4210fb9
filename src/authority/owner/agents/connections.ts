/**
 * Standing connections: list, label, revoke. What ends here ends in one transaction, which touches no grant.
 * Contract: "Connection" (states), "Owner API" (connections).
 */
import { z } from 'zod'
import { endpoint, type Endpoint } from '../../../http/servers/endpoint.ts'
import { plainText } from '../../../http/servers/pages.ts'
import {
  labelConnection,
  listConnections,
  revokeConnection,
  type ListedConnection,
} from '../../../storage/authority/connections/connections.ts'
import { appendEvent } from '../../../storage/authority/ledger/events.ts'
import { lastRevocationOf } from '../../../storage/authority/ledger/revocations.ts'
import { HANDLE } from '../../../wire/documents/names.ts'
import { asHandle, type Handle } from '../../../wire/identifiers.ts'
import type { Connection, Labelled, Revoked } from '../../../wire/owner/owner-api.ts'
import { refuse } from '../../../wire/refusal.ts'
import type { OwnerApi } from '../api.ts'
import { changeAs, OWNER, type OwnerCredential } from '../credentials/guard.ts'
import { ownerList } from '../lists.ts'
import { deactivated, ENDED, recordEnded, runAndSign, SIGNED_REVOCATION } from './ended.ts'

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
const REVOKED: z.ZodType<Revoked> = z
  .object({
    handle: HANDLE,
    status: z.literal('revoked'),
    connections_revoked: count,
    ...ENDED,
    ...SIGNED_REVOCATION,
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
      answer(200, await runAndSign(api, caller.owner, () => revoke(api, caller, body.handle))),
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
    const isSigned = api.checkpoints !== undefined
    const jti = await recordEnded(tx, owner, ended, { endedBy: 'revocation', actor, isSigned })
    // If nothing was left to end, the first answer may have been lost.
    const revocation_jti = jti ?? (isSigned ? await lastRevocationOf(tx, owner, handle) : undefined)
    return {
      handle,
      status: 'revoked',
      ...deactivated(ended),
      connections_revoked: ended.handles.length,
      ...(revocation_jti && { revocation_jti }),
    }
  })
}
