/**
 * What waits for the owner, her decision on it, and what happened: pending items and the ledger.
 * Contract: "Permission ticket" (awaiting-owner), "Owner API" (`/owner/pending*`, `/owner/ledger`).
 */
import { z } from 'zod'
import { endpoint, type Endpoint } from '../../http/endpoint.ts'
import { NUMBERED_PAGE, plainText } from '../../http/pages.ts'
import { wordsOf } from '../../rules/ledger-words.ts'
import { searchLedger } from '../../storage/authority/ledger-search.ts'
import { LEDGER_KINDS, readLedger, type LedgerEntry as LedgerRow } from '../../storage/authority/ledger.ts'
import { readReceipts } from '../../storage/authority/receipts.ts'
import { FAMILY, HANDLE } from '../../wire/documents/names.ts'
import { PENDING_ITEM, WHOLE_PENDING_ITEM } from '../../wire/documents/pending-item.ts'
import { asFamily, asHandle } from '../../wire/identifiers.ts'
import type { Decided, LedgerEntry, ReceiptRecord } from '../../wire/owner-api.ts'
import type { OwnerApi } from './api.ts'
import { decide, decideAll, NO_SUCH_ITEM } from './decision.ts'
import { OWNER } from './guard.ts'
import { numberedPage, ownerList } from './lists.ts'
import { listShown, showOne } from './pending-list.ts'

const text = z.string()
const count = z.int().min(0)
const UNIX_SECONDS = z
  .string()
  .regex(/^\d{1,12}$/, 'give a Unix time in seconds')
  .meta({ examples: ['1772443800'] })
  .transform(Number)
/** Who decided, beside the word `by`. */
const ACTOR = z.union([
  z.object({ kind: z.literal('owner'), credential: z.literal('device_key'), kid: text }),
  z.object({ kind: z.literal('owner'), credential: z.literal('login'), id: text }),
  z.object({ kind: z.literal('organization'), org: text, name: text, admin: text }),
])
const DECIDED: z.ZodType<Decided> = z
  .object({
    family: FAMILY,
    decision: z.enum(['approved', 'denied']),
    by: text,
    actor: ACTOR,
  })
  .meta({ id: 'Decided' })
const LEDGER_ENTRY: z.ZodType<LedgerEntry> = z
  .looseObject({ seq: count, ts: text, kind: text })
  .meta({ id: 'LedgerEntry' })
const RECEIPT: z.ZodType<ReceiptRecord> = z
  .object({
    seq: count,
    family: FAMILY,
    jti: text,
    handle: HANDLE,
    issued_at: text,
    receipt: text,
  })
  .meta({ id: 'Receipt' })

/** Counted as people count: in code points. */
const REASON_LENGTH_MAX = 200
const isShort = (reason: string): boolean => Array.from(reason).length <= REASON_LENGTH_MAX

/** A passkey's, as `readStatement` then takes it. */
const PASSKEY_STATEMENT = z
  .strictObject({
    payload: z.record(z.string(), z.union([z.string(), z.number(), z.boolean(), z.null()])),
    webauthn: z.strictObject({
      id: plainText(2_048),
      authenticatorData: plainText(100),
      clientDataJSON: plainText(4_096),
      signature: plainText(200),
    }),
  })
  .refine(({ payload }) => JSON.stringify(payload).length <= STATEMENT_LENGTH_MAX, 'Give a shorter payload.')
  .meta({ id: 'PasskeyStatement' })

/** It stays with the grant and its receipt, and their readers accept no more than this. */
const STATEMENT_LENGTH_MAX = 8_192

/** What she sends about one item. */
const SAID = {
  decision: z.enum(['approved', 'denied']),
  item_s256: text.optional(),
  reason: text
    .refine(isShort, `Give a reason of at most ${REASON_LENGTH_MAX} characters.`)
    .refine(reason => !reason.includes('\0'), 'leave out the NUL character')
    .optional(),
  statement: z.union([plainText(STATEMENT_LENGTH_MAX), PASSKEY_STATEMENT]).optional(),
  only: z.boolean().optional(),
}
const DECISIONS_MAX = 50
const SEVERAL = z.strictObject({
  decisions: z
    .array(z.strictObject({ family: plainText(200).transform(asFamily), ...SAID }))
    .min(1)
    .max(DECISIONS_MAX)
    .refine(all => new Set(all.map(one => one.family)).size === all.length, 'Decide each family once.'),
})

/** The pending items, her decision, the ledger and the receipts. */
export const ACTIVITY: readonly Endpoint<OwnerApi>[] = [
  ownerList({
    path: '/owner/pending',
    rows: ['owner-pending'],
    summary: 'Requests that wait for her',
    says: 'Oldest first; Link rel=next if there are more.',
    item: PENDING_ITEM,
    list: listShown,
    key: 'family',
    show: item => item,
  }),
  endpoint({
    method: 'get',
    path: '/owner/pending/{family}',
    rows: { addedUnder: 'Owner API' },
    summary:
      'One of them, with the agreement that the agent signed, what she knows of it, and its last such call',
    credential: OWNER,
    parameters: {
      schema: z.strictObject({ family: plainText(200).transform(asFamily) }),
      unknown: NO_SUCH_ITEM,
    },
    answers: { 200: { says: 'It waits.', schema: WHOLE_PENDING_ITEM } },
    refuses: { 404: ['not_found'], 409: ['conflict'] },
    handle: async (api: OwnerApi, { caller, parameters: { family }, answer }) =>
      answer(200, await showOne(api.database.db, caller.owner, family)),
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
    body: { schema: z.strictObject(SAID) },
    answers: { 200: { says: 'Decided by this call.', schema: DECIDED } },
    refuses: {
      400: ['invalid_statement'],
      403: ['statement_key'],
      404: ['not_found'],
      409: ['conflict', 'item_changed', 'signature_required'],
    },
    handle: async (api: OwnerApi, { caller, parameters: { family }, body, answer }) =>
      answer(200, await decide(api, caller, { family, ...body })),
  }),
  endpoint({
    method: 'post',
    path: '/owner/pending/decisions',
    rows: { addedUnder: 'Owner API' },
    summary: `Decides up to ${DECISIONS_MAX}, all of them or none`,
    credential: OWNER,
    body: { schema: SEVERAL },
    answers: {
      200: { says: 'Decided by this call.', schema: z.object({ decisions: z.array(DECIDED) }) },
    },
    refuses: {
      400: ['invalid_statement'],
      403: ['statement_key'],
      404: ['not_found'],
      409: ['conflict', 'item_changed', 'signature_required'],
    },
    handle: async (api: OwnerApi, { caller, body: { decisions }, answer }) =>
      answer(200, { decisions: await decideAll(api, caller, decisions) }),
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
      since: UNIX_SECONDS.optional(),
      until: UNIX_SECONDS.optional(),
      q: plainText(200).optional(),
    }),
    answers: {
      200: {
        says: 'A page; `next` is the `after` of the following one, or its `before` if the newest come first. A page that is searched by `q`, or from `since` on and before `until` (Unix time in seconds), may be short or empty and still have a next one.',
        schema: z.object({ entries: z.array(LEDGER_ENTRY), next: count.nullable() }),
      },
    },
    handle: async (api: OwnerApi, asked) => {
      const { since, until, q } = asked.query
      const isSearched = [since, until, q].some(one => one !== undefined)
      const { items, next } = isSearched
        ? await searchLedger(api.database.db, asked.caller.owner, { ...asked.query, words: wordsOf(q ?? '') })
        : await numberedPage(api, asked, readLedger)
      return asked.answer(200, { entries: items.map(ledgerAnswer), next })
    },
  }),
  endpoint({
    method: 'get',
    path: '/owner/receipts',
    rows: { addedUnder: 'Owner API' },
    summary: 'What agents signed and what they were granted for it, counter-signed, oldest first',
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

/** Named members come first, so that a member of the same name in the entry's own data never hides them. */
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
