/**
 * Standing connections and the operators behind them: lists, revoke, block, unblock. What ends here ends in
 * one transaction, which touches no grant. Contract: "Connection" (states), "Owner API" (connections, operators).
 */
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { z } from 'zod'
import {
  blockOperator,
  listConnections,
  listOperators,
  revokeConnection,
  unblockOperator,
  type Ended,
  type ListedConnection,
} from '../../storage/authority/connections.ts'
import { claimOperator, disclaimOperator } from '../../storage/authority/operators.ts'
import type { Tx } from '../../storage/authority/database.ts'
import { appendEvents, type NewEvent } from '../../storage/authority/events.ts'
import { appendLedgerAll, type NewLedgerEntry } from '../../storage/authority/ledger.ts'
import { refuse } from '../../wire/refusal.ts'
import type { Authority } from '../context.ts'
import { changeAs, ownerOf, type OwnerCredential } from './guard.ts'
import { bodyOf, listPage, plainText } from './requests.ts'
import { asHandle, type Handle, type Owner } from '../../wire/identifiers.ts'

export const REVOKE_CONNECTION = z.strictObject({ handle: plainText(2_048) })
/** A bare https origin: two spellings of one operator would be two operators. */
export const NAMED_OPERATOR = z.strictObject({
  origin: z
    .string()
    .max(300)
    .refine(
      text => URL.parse(text)?.origin === text && text.startsWith('https://'),
      'give a bare https origin, such as https://operator.example',
    ),
})

/** How long a claim waits for the operator's directory. */
const DIRECTORY_MS_MAX = 3_000

/** Registers /owner/connections* and /owner/operators*. */
export function registerOwnerConnections(app: FastifyInstance, authority: Authority): void {
  app.get('/owner/connections', (request, reply) => getConnections(authority, request, reply))
  app.post('/owner/connections/revoke', async request => {
    const { handle } = bodyOf(REVOKE_CONNECTION, request)
    return revoke(authority, ownerOf(request), asHandle(handle))
  })
  app.get('/owner/operators', (request, reply) => getOperators(authority, request, reply))
  app.post('/owner/operators/block', async request => {
    const { origin } = bodyOf(NAMED_OPERATOR, request)
    return block(authority, ownerOf(request), origin)
  })
  app.post('/owner/operators/unblock', async request => {
    const { origin } = bodyOf(NAMED_OPERATOR, request)
    return unblock(authority, ownerOf(request), origin)
  })
  app.post('/owner/operators/claim', async request => {
    const { origin } = bodyOf(NAMED_OPERATOR, request)
    return claim(authority, ownerOf(request), origin)
  })
  app.post('/owner/operators/disclaim', async request => {
    const { origin } = bodyOf(NAMED_OPERATOR, request)
    return disclaim(authority, ownerOf(request), origin)
  })
}

async function getConnections(
  authority: Authority,
  request: FastifyRequest,
  reply: FastifyReply,
): Promise<object[]> {
  const items = await listPage(authority, { request, reply }, listConnections, 'handle')
  return items.map(connectionAnswer)
}

function connectionAnswer(row: ListedConnection): object {
  const { handle, identity, label, status, first_seen, last_access } = row
  const { tiers_granted, tiers_approved, revocations, introduced_by, operators } = row
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
    operators,
  }
}

/** Ends a connection and those it introduced; once answered, no grant of theirs is live. 404 where there is none. */
function revoke(authority: Authority, credential: OwnerCredential, handle: Handle): Promise<object> {
  const { owner } = credential
  return changeAs(authority, credential, async tx => {
    const ended = await revokeConnection(tx, owner, handle)
    if (ended === undefined) refuse('not_found', 'You have no connection with this handle.')
    await recordEnded(tx, owner, ended, { endedBy: 'revocation' })
    return { handle, status: 'revoked', ...deactivated(ended), connections_revoked: ended.handles.length }
  })
}

async function getOperators(
  authority: Authority,
  request: FastifyRequest,
  reply: FastifyReply,
): Promise<object[]> {
  return listPage(authority, { request, reply }, listOperators, 'origin')
}

/** Blocks an operator, known or not yet: its agents are refused from now on, and what they had is ended. */
function block(authority: Authority, credential: OwnerCredential, origin: string): Promise<object> {
  const { owner } = credential
  return changeAs(authority, credential, async tx => {
    const ended = await blockOperator(tx, owner, origin)
    await appendLedgerAll(tx, owner, [{ kind: 'revoked', data: { operator: origin, by: 'owner' } }])
    await recordEnded(tx, owner, ended, { endedBy: 'block', operator: origin })
    return { origin, connections_revoked: ended.handles.length, ...deactivated(ended) }
  })
}

/** Restores the right to negotiate and nothing else. 404 where the owner has no such operator. */
function unblock(authority: Authority, credential: OwnerCredential, origin: string): Promise<object> {
  const { owner } = credential
  return changeAs(authority, credential, async tx => {
    if (!(await unblockOperator(tx, owner, origin)))
      refuse('not_found', 'You have no operator with this origin.')
    return { origin, connections_revoked: 0, rpts_deactivated: 0 }
  })
}

/**
 * Marks an operator as the owner's own. Its connected agents become first-party only where its directory lists
 * their keys now; the directory is read before the transaction, and one that cannot be had attests none.
 */
async function claim(authority: Authority, credential: OwnerCredential, origin: string): Promise<object> {
  const { owner } = credential
  const patience = { deadline: Date.now() + DIRECTORY_MS_MAX, favoured: true }
  const published = await authority.operators.published(origin, patience)
  return changeAs(authority, credential, async tx => {
    const first_party = await claimOperator(tx, owner, origin, [...(published ?? [])])
    await appendLedgerAll(tx, owner, [{ kind: 'claimed', data: { operator: origin, first_party } }])
    return { origin, mine: true, first_party }
  })
}

/** Takes the mark back, and with it the standing it gave. 404 where the owner has no such operator. */
function disclaim(authority: Authority, credential: OwnerCredential, origin: string): Promise<object> {
  const { owner } = credential
  return changeAs(authority, credential, async tx => {
    if (!(await disclaimOperator(tx, owner, origin)))
      refuse('not_found', 'You have no operator with this origin.')
    await appendLedgerAll(tx, owner, [{ kind: 'disclaimed', data: { operator: origin } }])
    return { origin, mine: false }
  })
}

/** Tells the ledger and the stream what ended: each connection, and each item that waited for one. */
async function recordEnded(
  tx: Tx,
  owner: Owner,
  ended: Ended,
  how: { endedBy: 'revocation' | 'block'; operator?: string },
): Promise<void> {
  const operator = how.operator === undefined ? {} : { operator: how.operator }
  const entries: NewLedgerEntry[] = [
    ...ended.handles.map(handle => ({
      kind: 'revoked' as const,
      handle,
      data: { by: 'owner', ...operator },
    })),
    ...ended.families.map(family => ({
      kind: 'denied' as const,
      family,
      data: { by: how.endedBy, ...operator },
    })),
  ]
  const events: NewEvent[] = [
    ...ended.handles.map(handle => ({ event: 'connection_revoked' as const, data: { handle, by: 'owner' } })),
    ...ended.families.map(family => ({
      event: 'decided' as const,
      data: { family, decision: 'denied', by: how.endedBy },
    })),
  ]
  await appendLedgerAll(tx, owner, entries)
  await appendEvents(tx, owner, events)
}

function deactivated(ended: Ended): object {
  return {
    rpts_deactivated: ended.rptsDeactivated,
    ...(ended.more ? { rpts_deactivated_more: true } : {}),
  }
}
