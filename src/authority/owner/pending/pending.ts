/**
 * What waits for the owner, and her decision on it. Contract: "Permission ticket" (awaiting-owner), "Owner
 * API" (`/owner/pending*`).
 */
import { z } from 'zod'
import { endpoint, type Endpoint } from '../../../http/servers/endpoint.ts'
import { plainText } from '../../../http/servers/pages.ts'
import { FAMILY } from '../../../wire/documents/names.ts'
import { PENDING_ITEM, WHOLE_PENDING_ITEM } from '../../../wire/documents/pending-item.ts'
import { asFamily } from '../../../wire/identifiers.ts'
import type { DecisionRecord } from '../../../wire/owner/owner-api.ts'
import type { OwnerApi } from '../api.ts'
import { decideAsOwner, decideAllAsOwner, NO_SUCH_ITEM } from './decision.ts'
import { OWNER } from '../credentials/guard.ts'
import { ownerList } from '../lists.ts'
import { listShown, showOne } from './pending-list.ts'

const text = z.string()
/** Who decided, beside the word `by`. */
const ACTOR = z.union([
  z.object({ kind: z.literal('owner'), credential: z.literal('device_key'), kid: text }),
  z.object({ kind: z.literal('owner'), credential: z.literal('login'), id: text }),
  z.object({ kind: z.literal('organization'), org: text, name: text, admin: text }),
])
const DECIDED: z.ZodType<DecisionRecord> = z
  .object({
    family: FAMILY,
    decision: z.enum(['approved', 'denied']),
    by: text,
    actor: ACTOR,
  })
  .meta({ id: 'Decided' })
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
const DECISION = {
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
    .array(z.strictObject({ family: plainText(200).transform(asFamily), ...DECISION }))
    .min(1)
    .max(DECISIONS_MAX)
    .refine(all => new Set(all.map(one => one.family)).size === all.length, 'Decide each family once.'),
})

const NAMED_ITEM = {
  schema: z.strictObject({ family: plainText(200).transform(asFamily) }),
  unknown: NO_SUCH_ITEM,
}

/** The pending items and her decision on them. */
export const PENDING: readonly Endpoint<OwnerApi>[] = [
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
    parameters: NAMED_ITEM,
    answers: { 200: { says: 'It waits.', schema: WHOLE_PENDING_ITEM } },
    refuses: { 404: ['not_found'], 409: ['conflict'] },
    handle: async (api: OwnerApi, { caller, parameters: { family }, answer }) =>
      answer(200, await showOne(api.database.of(caller.owner), caller.owner, family)),
  }),
  endpoint({
    method: 'post',
    path: '/owner/pending/{family}/decision',
    rows: ['owner-decision'],
    summary: 'Approves or denies one, once',
    credential: OWNER,
    parameters: NAMED_ITEM,
    body: { schema: z.strictObject(DECISION) },
    answers: { 200: { says: 'Decided by this call.', schema: DECIDED } },
    refuses: {
      400: ['invalid_statement'],
      403: ['statement_key'],
      404: ['not_found'],
      409: ['conflict', 'item_changed', 'signature_required', 'statement_replayed'],
    },
    handle: async (api: OwnerApi, { caller, parameters: { family }, body, answer }) =>
      answer(200, await decideAsOwner(api, caller, { family, ...body })),
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
      409: ['conflict', 'item_changed', 'signature_required', 'statement_replayed'],
    },
    handle: async (api: OwnerApi, { caller, body: { decisions }, answer }) =>
      answer(200, { decisions: await decideAllAsOwner(api, caller, decisions) }),
  }),
]
