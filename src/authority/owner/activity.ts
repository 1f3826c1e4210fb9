/**
 * What waits for the owner, her decision on it, and what happened: pending items and the ledger.
 * Contract: "Permission ticket" (awaiting-owner), "Owner API" (`/owner/pending*`, `/owner/ledger`).
 */
import { z } from 'zod'
import { endpoint, type Endpoint } from '../../http/endpoint.ts'
import { NUMBERED_PAGE, plainText } from '../../http/pages.ts'
import { makesFirstParty } from '../../rules/connection.ts'
import {
  admitConnection,
  lockOperator,
  readConnection,
  recordApproval,
} from '../../storage/authority/connections.ts'
import type { Db, Tx } from '../../storage/authority/database.ts'
import { appendEvent } from '../../storage/authority/events.ts'
import {
  appendLedger,
  LEDGER_KINDS,
  readLedger,
  type LedgerEntry as LedgerRow,
} from '../../storage/authority/ledger.ts'
import { isAnyBlocked, isOwn, nameOperator } from '../../storage/authority/operators.ts'
import {
  decideFamily,
  listPending,
  readUndecided,
  type GoneItem,
  type PendingRow,
  type UndecidedItem,
} from '../../storage/authority/pending.ts'
import { readReceipts } from '../../storage/authority/receipts.ts'
import { asFamily, asHandle, type Family, type Handle, type Owner } from '../../wire/identifiers.ts'
import { Refusal, refuse } from '../../wire/refusal.ts'
import type { Actor } from '../../wire/actor.ts'
import type { Decided, LedgerEntry, PendingItem, ReceiptRecord } from '../../wire/owner-api.ts'
import type { OwnerApi } from './api.ts'
import { REMOTE_MS_MAX } from '../../surface/agents/identity.ts'
import { changeAs, OWNER, type OwnerCredential } from './guard.ts'
import { numberedPage, ownerList } from './lists.ts'
import { FAMILY, HANDLE } from './name-schemas.ts'

const NO_SUCH_ITEM = 'Nothing of yours waits under this family.'

const text = z.string()
const maybe = text.nullable()
const count = z.int().min(0)
const record = z.looseObject({})

const PENDING_ITEM: z.ZodType<PendingItem> = z.looseObject({
  family: FAMILY,
  kind: z.enum(['connection', 'operation']),
  tier: text,
  tier_name: text,
  resource_id: text,
  purpose: text,
  operation: z.object({ tool: text, params: record }).nullable(),
  reason: maybe,
  mission: z.object({ approver: text, s256: text }).nullable(),
  prohibited: z.array(text),
  enforced: record,
  expires_in: count,
  identity: z.object({
    kind: z.enum(['pseudonymous', 'identified']),
    client_id: text.nullable(),
    signature_agent: text.nullable(),
    operator: text.nullable(),
    operator_name: text.nullable(),
    introduced_by: HANDLE.nullable(),
  }),
  handle: HANDLE,
  assurance: z.object({ binding: count, provenance: count, accountability: count }),
  assurance_notes: z.array(text),
  because: z.array(text),
  organization: z.null(),
  requested_at: text,
})
/** Who decided, beside the word `by`. */
const ACTOR = z.union([
  z.object({ kind: z.literal('owner'), credential: z.literal('device_key'), kid: text }),
  z.object({ kind: z.literal('owner'), credential: z.literal('login'), id: text }),
  z.object({ kind: z.literal('organization'), org: text, name: text, admin: text }),
])
const DECIDED: z.ZodType<Decided> = z.object({
  family: FAMILY,
  decision: z.enum(['approved', 'denied']),
  by: text,
  actor: ACTOR,
})
const LEDGER_ENTRY: z.ZodType<LedgerEntry> = z.looseObject({ seq: count, ts: text, kind: text })
const RECEIPT: z.ZodType<ReceiptRecord> = z.object({
  seq: count,
  family: FAMILY,
  jti: text,
  handle: HANDLE,
  issued_at: text,
  receipt: text,
})

/** The pending items, her decision, the ledger and the receipts. */
export const ACTIVITY: readonly Endpoint<OwnerApi>[] = [
  ownerList({
    path: '/owner/pending',
    rows: ['owner-pending'],
    summary: 'Requests that wait for her',
    says: 'Oldest first; Link rel=next where there are more.',
    item: PENDING_ITEM,
    list: listKnownPending,
    key: 'family',
    show: pendingAnswer,
  }),
  endpoint({
    method: 'post',
    path: '/owner/pending/{family}/decision',
    rows: ['owner-decision'],
    summary: 'Approves or denies one, once',
    credential: OWNER,
    parameters: {
      schema: z.strictObject({ family: plainText(200).transform(asFamily) }),
      unknown: NO_SUCH_ITEM,
    },
    body: { schema: z.strictObject({ decision: z.enum(['approved', 'denied']) }) },
    answers: { 200: { says: 'Decided by this call.', schema: DECIDED } },
    handle: async (api: OwnerApi, { caller, parameters: { family }, body: { decision }, answer }) =>
      answer(200, await decide(api, caller, { family, decision })),
  }),
  endpoint({
    method: 'get',
    path: '/owner/ledger',
    rows: ['owner-ledger'],
    summary: 'The activity ledger, oldest first unless `first` says otherwise',
    credential: OWNER,
    query: NUMBERED_PAGE.extend({
      handle: plainText(2_048).transform(asHandle).optional(),
      kind: z.enum(LEDGER_KINDS).optional(),
      before: NUMBERED_PAGE.shape.after.unwrap().optional(),
      first: z.enum(['oldest', 'newest']).optional(),
    }),
    answers: {
      200: {
        says: 'A page; `next` is the `after` of the following one, or its `before` where the newest come first.',
        schema: z.object({ entries: z.array(LEDGER_ENTRY), next: count.nullable() }),
      },
    },
    handle: async (api: OwnerApi, asked) => {
      const { items, next } = await numberedPage(api, asked, readLedger)
      return asked.answer(200, { entries: items.map(ledgerAnswer), next })
    },
  }),
  endpoint({
    method: 'get',
    path: '/owner/receipts',
    rows: { addedUnder: 'Owner API' },
    summary: 'What agents signed and was granted for it, counter-signed, oldest first',
    credential: OWNER,
    query: NUMBERED_PAGE.extend({ family: plainText(200).transform(asFamily).optional() }),
    answers: {
      200: {
        says: 'A page; `next` is the `after` of the following one. `jti` is of the grant.',
        schema: z.object({ receipts: z.array(RECEIPT), next: count.nullable() }),
      },
    },
    handle: async (api: OwnerApi, asked) => {
      const { items, next } = await numberedPage(api, asked, readReceipts)
      return asked.answer(200, { receipts: items, next })
    },
  }),
]

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

/** The rest of the item is as it was shown when it was stored. */
function pendingAnswer({ family, kind, handle, requested_at, item }: PendingRow): PendingItem {
  return { family, kind, handle, requested_at, ...item }
}

/** Named members first, and never hidden by one of the same name in the entry's own data. */
function ledgerAnswer({ seq, ts, kind, family, handle, data, count }: LedgerRow): LedgerEntry {
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

/**
 * Decides a waiting item, once: under the queue lock it still waits, its operator is not blocked, and where
 * it is approved and the agent has no connection, one is admitted. Everything is told in the same
 * transaction. 404 where the owner never had such an item, 409 where it was decided, ended or has expired.
 */
async function decide(
  api: OwnerApi,
  credential: OwnerCredential,
  { family, decision }: Pick<Decided, 'decision'> & { family: Family },
): Promise<Decided> {
  const { owner, actor } = credential
  const isListed = decision === 'approved' && (await isListedByHers(api, owner, family))
  return changeAs(api, credential, async tx => {
    const read = await readUndecided(tx, owner, family)
    if (read === 'unknown') unknownItem()
    if ('gone' in read) throw noLongerWaits(read.gone)
    const { item } = read
    const by = 'owner'
    const generation = decision === 'approved' ? await admit(tx, credential, item, isListed) : null
    if (!(await decideFamily(tx, { owner, family, decision, by: { by, actor }, generation })))
      throw noLongerWaits()
    const { handle, kind: of, resource_id, tier_id } = item
    const data = { of, tier: tier_id, resource_id, by, actor }
    await appendLedger(tx, owner, { kind: decision, family, handle, data })
    await appendEvent(tx, owner, 'decided', { family, decision, by, actor })
    return { family, decision, by, actor }
  })
}

/**
 * Makes sure that the approved agent has an active connection, with the key and the operator it was approved
 * with, and records that the owner herself approved it at this tier. @returns the connection's generation,
 * which the grant will carry.
 */
async function admit(
  tx: Tx,
  { owner, actor }: OwnerCredential,
  item: UndecidedItem,
  isListed: boolean,
): Promise<number> {
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
    await appendLedger(tx, owner, {
      kind: 'connected',
      family,
      handle,
      data: { tier: tier_id, by: 'owner', actor },
    })
  if (operator !== null) await nameOperator(tx, owner, operator, { name: operatorName, attested })
  await recordApproval(tx, { owner, handle, tier_id, generation })
  return generation
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
 * about to approve. Read before the transaction; of any other operator nothing is read, for nothing hangs on
 * it.
 */
async function isListedByHers(api: OwnerApi, owner: Owner, family: Family): Promise<boolean> {
  const { db } = api.database
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

/** A pseudonymous handle is `jkt:` and a thumbprint; an identified one holds an `@`. */
function isThumbprint(handle: Handle): boolean {
  return /^jkt:[\w-]{43}$/.test(handle)
}

/** 409. Where it was decided, by whom: the one who came second must not take the decision for their own. */
function noLongerWaits(gone?: GoneItem): Refusal {
  const { decision = null, decided_by: by = null, decided_actor: actor = null } = gone ?? {}
  if (decision === null || by === null || actor === null)
    return new Refusal('conflict', 'This no longer waits for you: it was decided, withdrawn or has expired.')
  const how = by === 'owner' || by === 'administrator' ? '' : ` (${by})`
  const detail = `This was ${decision} already${how}, by ${named(actor)}.`
  return new Refusal('conflict', detail, { extra: { decision, by, actor } })
}

function named(actor: Actor): string {
  if (actor.kind === 'organization') return `${actor.admin}, an administrator of ${actor.name}`
  if (actor.credential === 'device_key') return `you, with the device key ${actor.kid}`
  return actor.credential === 'login' ? `you, with the login ${actor.id}` : 'you, with an enrolment code'
}

function unknownItem(): never {
  refuse('not_found', NO_SUCH_ITEM)
}
