/**
 * What waits for the owner, her decision on it, and what happened: pending items and the ledger.
 * Contract: "Permission ticket" (awaiting-owner), "Owner API" (`/owner/pending*`, `/owner/ledger`).
 */
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { z } from 'zod'
import { makesFirstParty } from '../../rules/connection.ts'
import {
  admitConnection,
  lockOperator,
  readConnection,
  recordApproval,
} from '../../storage/authority/connections.ts'
import type { Db, Tx } from '../../storage/authority/database.ts'
import { appendEvent } from '../../storage/authority/events.ts'
import { appendLedger, LEDGER_KINDS, readLedger, type LedgerEntry } from '../../storage/authority/ledger.ts'
import { isAnyBlocked, isOwn, nameOperator } from '../../storage/authority/operators.ts'
import {
  decideFamily,
  listPending,
  readUndecided,
  type PendingRow,
  type UndecidedItem,
} from '../../storage/authority/pending.ts'
import { readReceipts } from '../../storage/authority/receipts.ts'
import { Refusal, refuse } from '../../wire/refusal.ts'
import type { Authority } from '../context.ts'
import { REMOTE_MS_MAX } from '../../surface/agents/identity.ts'
import { changeAs, ownerOf, type OwnerCredential } from './guard.ts'
import { bodyOf, listPage, NUMBERED_PAGE, pageOf, plainText, queryOf } from './requests.ts'
import { asFamily, asHandle, type Family, type Handle, type Owner } from '../../wire/identifiers.ts'

export const DECISION = z.strictObject({ decision: z.enum(['approved', 'denied']) })
const FAMILY_PATH = z.strictObject({ family: plainText(200) })
export const LEDGER_QUERY = NUMBERED_PAGE.extend({
  handle: plainText(2_048).optional(),
  kind: z.enum(LEDGER_KINDS).optional(),
})

export const RECEIPTS_QUERY = NUMBERED_PAGE.extend({ family: plainText(200).optional() })

/** Registers /owner/pending, /owner/pending/{family}/decision, /owner/ledger and /owner/receipts. */
export function registerOwnerActivity(app: FastifyInstance, authority: Authority): void {
  app.get('/owner/pending', (request, reply) => getPending(authority, request, reply))
  app.post('/owner/pending/:family/decision', async request => {
    const { family } = FAMILY_PATH.safeParse(request.params).data ?? unknownItem()
    const { decision } = bodyOf(DECISION, request)
    return decide(authority, ownerOf(request), { family: asFamily(family), decision })
  })
  app.get('/owner/ledger', async request => {
    const { handle, ...query } = queryOf(LEDGER_QUERY, request)
    const page = {
      ...query,
      handle: handle === undefined ? undefined : asHandle(handle),
      limit: query.limit + 1,
    }
    const rows = await readLedger(authority.database.db, ownerOf(request).owner, page)
    const { items, last } = pageOf(rows, query.limit)
    return { entries: items.map(ledgerAnswer), next: last?.seq ?? null }
  })
  app.get('/owner/receipts', async request => {
    const { family, ...query } = queryOf(RECEIPTS_QUERY, request)
    const page = {
      ...query,
      family: family === undefined ? undefined : asFamily(family),
      limit: query.limit + 1,
    }
    const rows = await readReceipts(authority.database.db, ownerOf(request).owner, page)
    const { items, last } = pageOf(rows, query.limit)
    return { receipts: items, next: last?.seq ?? null }
  })
}

async function getPending(
  authority: Authority,
  request: FastifyRequest,
  reply: FastifyReply,
): Promise<object[]> {
  const items = await listPage(authority, { request, reply }, listKnownPending, 'family')
  return items.map(pendingAnswer)
}

/** As `listPending`; nothing after an item that never was would read as nothing that waits. */
async function listKnownPending(
  db: Db,
  owner: Owner,
  page: { after: string | undefined; limit: number },
): Promise<PendingRow[]> {
  const rows = await listPending(db, owner, page)
  if (rows.length === 0 && page.after !== undefined && !(await wasHeld(db, owner, asFamily(page.after))))
    refuse('invalid_request', 'Give as `after` the family of an item of your list, or leave it out.')
  return rows
}

async function wasHeld(db: Db, owner: Owner, family: Family): Promise<boolean> {
  return (await readUndecided(db, owner, family)) !== 'unknown'
}

function pendingAnswer({ family, kind, handle, requested_at, item }: PendingRow): object {
  return { family, kind, handle, requested_at, ...item }
}

/** Named members first, and never hidden by one of the same name in the entry's own data. */
function ledgerAnswer({ seq, ts, kind, family, handle, data, count }: LedgerEntry): object {
  const named = {
    seq,
    ts,
    kind,
    ...(family === null ? {} : { family }),
    ...(handle === null ? {} : { handle }),
    ...(count === 1 ? {} : { count }),
  }
  return { ...named, ...data, ...named }
}

interface Decision {
  family: Family
  decision: 'approved' | 'denied'
}

/**
 * Decides a waiting item, once: under the queue lock it still waits, its operator is not blocked, and where it
 * is approved and the agent has no connection, one is admitted. Everything is told in the same transaction.
 * 404 where the owner never had such an item, 409 where it was decided, ended or has expired.
 */
async function decide(
  authority: Authority,
  credential: OwnerCredential,
  { family, decision }: Decision,
): Promise<object> {
  const { owner } = credential
  const isListed = decision === 'approved' && (await isListedByHers(authority, owner, family))
  return changeAs(authority, credential, async tx => {
    const item = await readUndecided(tx, owner, family)
    if (item === 'unknown') unknownItem()
    if (item === 'gone') throw noLongerWaits()
    const by = 'owner'
    const generation = decision === 'approved' ? await admit(tx, owner, item, isListed) : null
    if (!(await decideFamily(tx, { owner, family, decision, by, generation }))) throw noLongerWaits()
    const { handle, kind: of, resource_id, tier_id } = item
    const data = { of, tier: tier_id, resource_id, by }
    await appendLedger(tx, owner, { kind: decision, family, handle, data })
    await appendEvent(tx, owner, 'decided', { family, decision, by })
    return { family, decision, by }
  })
}

/**
 * Makes sure that the approved agent has an active connection, with the key and the operator it was approved with, and
 * records that the owner herself approved it at this tier. @returns the connection's generation, which the grant
 * will carry.
 */
async function admit(tx: Tx, owner: Owner, item: UndecidedItem, isListed: boolean): Promise<number> {
  const { family, handle, operator, tier_id, attested } = item
  if (operator !== null) await lockOperator(tx, owner, operator)
  if (await isAnyBlocked(tx, owner, { handle, operator }))
    refuse('conflict', 'You blocked the operator of this agent: unblock it first.')
  const connection = await readConnection(tx, owner, handle)
  const isActive = connection?.status === 'active'
  // An operation is asked about on a connection: with that ended, no approval may bring it back.
  if (!isActive && item.kind === 'operation') throw noLongerWaits()
  const { jkt, operatorName } = claimedBy(item)
  const operatorIsHers = operator !== null && (await isOwn(tx, owner, operator))
  const generation = await admitConnection(tx, {
    owner,
    handle,
    identity: isThumbprint(handle) ? 'pseudonymous' : 'identified',
    label: null,
    operator,
    introduced_by: null,
    jkt,
    first_party: makesFirstParty({ byOwner: true, operatorIsHers, directoryListsKey: isListed }),
  })
  if (!isActive)
    await appendLedger(tx, owner, { kind: 'connected', family, handle, data: { tier: tier_id, by: 'owner' } })
  if (operator !== null) await nameOperator(tx, owner, operator, { name: operatorName, attested })
  await recordApproval(tx, { owner, handle, tier_id, generation })
  return generation
}

/** The key that signed what waits, and what the operator it named calls itself. */
function claimedBy({ held, item }: UndecidedItem): {
  jkt: string | undefined
  operatorName: string | undefined
} {
  const { jkt } = (held ?? {}) as { jkt?: string }
  const { operator_name } = (item['identity'] ?? {}) as { operator_name?: string | null }
  return { jkt, operatorName: operator_name ?? undefined }
}

/**
 * Whether the directory of an operator that the owner marked as her own lists, now, the key of what she is about to
 * approve. Read before the transaction; of any other operator nothing is read, for nothing hangs on it.
 */
async function isListedByHers(authority: Authority, owner: Owner, family: Family): Promise<boolean> {
  const { db } = authority.database
  const item = await readUndecided(db, owner, family)
  if (typeof item === 'string' || item.operator === null || !item.attested) return false
  if (!(await isOwn(db, owner, item.operator))) return false
  const { client_id, signature_agent } = (item.item['identity'] ?? {}) as Record<string, string | null>
  const { jkt } = claimedBy(item)
  if (typeof client_id !== 'string' || jkt === undefined) return false
  const named = { client_id, signature_agent: signature_agent ?? undefined, jkts: [jkt] as const }
  const patience = { deadline: Date.now() + REMOTE_MS_MAX, favoured: true }
  return (await authority.operators.lookUp(named, patience)).listed.has(jkt)
}

/** A pseudonymous handle is `jkt:` and a thumbprint; an identified one holds an `@`. */
function isThumbprint(handle: Handle): boolean {
  return /^jkt:[\w-]{43}$/.test(handle)
}

function noLongerWaits(): Refusal {
  return new Refusal('conflict', 'This no longer waits for you: it was decided, withdrawn or has expired.')
}

function unknownItem(): never {
  refuse('not_found', 'Nothing of yours waits under this family.')
}
