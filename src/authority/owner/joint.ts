/**
 * Her joint accounts: what a mandate would commit her to, agreeing to it, what she holds, and leaving.
 * Contract: "Tally for a jointly held resource" (on each holder's authorization server).
 */
import { z } from 'zod'
import { endpoint, type Endpoint } from '../../http/servers/endpoint.ts'
import { NUMBERED_PAGE, plainText } from '../../http/servers/pages.ts'
import type { JointAccount } from '../../storage/authority/joint/joint-accounts.ts'
import { JOINT_ACCESSES } from '../../wire/documents/joint-accesses.ts'
import { asOwner } from '../../wire/identifiers.ts'
import type { JointShare, JointPreview } from '../../wire/owner/owner-api.ts'
import { refuse } from '../../wire/refusal.ts'
import { templateId } from '../../wire/negotiation/terms.ts'
import { accessesOf } from '../joint/accesses.ts'
import { agree, jointAccounts, leave, preview, shown, type MandatePreview } from '../joint/holding.ts'
import { runAndTellTallies, STILL_WAITING } from '../joint/withdrawals.ts'
import type { OwnerApi } from './api.ts'
import { OWNER } from './credentials/guard.ts'

const text = z.string()
const texts = z.array(text)
const count = z.int().min(1)

const HOLDERS = z.array(z.object({ owner: text.transform(asOwner), issuer: text, weight: count }))
const KIND = z.enum(['all', 'any', 'threshold'])
const PREVIEW_MEMBERS = {
  mandate: z.object({
    account: text,
    tally: text,
    resources: texts,
    holders: HOLDERS,
    rule: z.object({ kind: KIND, threshold: count }),
    total_weight: count,
  }),
  mandate_s256: text,
  summary: texts,
  my_terms: z.array(
    z.object({
      tier: text,
      resources: texts,
      terms: z.object({
        template_id: text,
        purpose: text,
        scope: texts,
        expires_in: count,
        prohibited: texts,
        per_operation: z.boolean(),
      }),
    }),
  ),
  writes_terms: z.literal(false),
}
const PREVIEW: z.ZodType<JointPreview> = z.object(PREVIEW_MEMBERS).meta({ id: 'JointPreview' })
const HOLDING: z.ZodType<JointShare> = z
  .object({
    account: text,
    tally: text,
    mandate_s256: text,
    rule: z.object({ kind: KIND, threshold: count, total_weight: count }),
    holders: HOLDERS,
    resources: texts,
    since: text,
    state: z.enum(['agreed', 'mandate_changed']),
  })
  .meta({ id: 'JointHolding' })

const ACCOUNT = z.string().regex(/^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$/, 'give the name of an account')
const NAMED = { tally: plainText(2_048), account: ACCOUNT.transform(asOwner) }

const NAMED_ACCOUNT = {
  schema: z.object({ account: ACCOUNT.transform(asOwner) }),
  unknown: 'You hold no account of that name with others.',
}

/** Her endpoints for joint accounts; served if a tally is listed. */
export const JOINT: readonly Endpoint<OwnerApi>[] = [
  endpoint({
    method: 'post',
    path: '/owner/joint/preview',
    rows: ['joint-preview'],
    summary: 'Shows what a mandate would commit her to; has no effect',
    credential: OWNER,
    body: { schema: z.strictObject(NAMED) },
    answers: { 200: { says: 'The mandate, in sentences too, and her terms over it.', schema: PREVIEW } },
    refuses: { 403: ['request_denied'], 409: ['conflict'] },
    handle: async (api: OwnerApi, { caller, body, answer }) =>
      answer(200, previewAnswer(await preview(api, caller.owner, body))),
  }),
  endpoint({
    method: 'post',
    path: '/owner/joint',
    rows: ['joint-agree'],
    summary: 'Agrees to a mandate; only with agreed: true and the digest of what she read',
    credential: OWNER,
    body: {
      schema: z.strictObject({
        ...NAMED,
        agreed: z.boolean().optional(),
        mandate_s256: plainText(100).optional(),
      }),
    },
    answers: { 200: { says: 'What she agreed to.', schema: PREVIEW } },
    refuses: { 403: ['request_denied'], 409: ['conflict'] },
    handle: async (api: OwnerApi, { caller, body, answer }) => {
      const { agreed, mandate_s256, ...named } = body
      if (agreed !== true || mandate_s256 === undefined)
        refuse('invalid_request', 'Send agreed: true, with the mandate_s256 of the preview that you read.', {
          extra: { reason: 'agreement_required' },
        })
      return answer(200, previewAnswer(await agree(api, caller, { ...named, mandate_s256 })))
    },
  }),
  endpoint({
    method: 'get',
    path: '/owner/joint',
    rows: ['joint-list'],
    summary: 'Accounts that she holds jointly, co-holders and the rule',
    credential: OWNER,
    answers: { 200: { says: 'By account.', schema: z.object({ accounts: z.array(HOLDING) }) } },
    handle: async (api: OwnerApi, { caller, answer }) =>
      answer(200, { accounts: (await jointAccounts(api, caller.owner)).map(holdingAnswer) }),
  }),
  endpoint({
    method: 'get',
    path: '/owner/joint/{account}/accesses',
    rows: { addedUnder: 'Tally for a jointly held resource' },
    summary: 'Calls of the resources that she holds with others, the newest first',
    credential: OWNER,
    parameters: NAMED_ACCOUNT,
    query: z.strictObject({ before: NUMBERED_PAGE.shape.after, limit: NUMBERED_PAGE.shape.limit }),
    answers: {
      200: {
        says: 'As its tally has them; `next` is the `before` of the following page.',
        schema: JOINT_ACCESSES,
      },
    },
    refuses: { 404: ['not_found'] },
    handle: async (api: OwnerApi, { caller, parameters, query, answer }) =>
      answer(200, await accessesOf(api, caller.owner, { ...parameters, ...query })),
  }),
  endpoint({
    method: 'delete',
    path: '/owner/joint/{account}',
    rows: ['joint-leave'],
    summary: 'Stops being a holder; her terms stay',
    credential: OWNER,
    parameters: NAMED_ACCOUNT,
    answers: { 200: { says: 'She is no holder.', schema: z.object({ left: text, ...STILL_WAITING }) } },
    refuses: { 404: ['not_found'] },
    handle: async (api: OwnerApi, { caller, parameters: { account }, answer }) => {
      const left = await runAndTellTallies(api, caller.owner, async () => {
        await leave(api, caller, account)
        return { left: account }
      })
      return answer(200, left)
    },
  }),
]

function previewAnswer({ mandate, mandate_s256, summary, tiers }: MandatePreview): JointPreview {
  return {
    mandate,
    mandate_s256,
    summary,
    my_terms: tiers.map(({ owner, tier_id, version, resources, terms }) => {
      const { purpose, scope, expires_in, prohibited, per_operation } = terms
      const template_id = templateId(owner, tier_id, version)
      return {
        tier: tier_id,
        resources,
        terms: { template_id, purpose, scope, expires_in, prohibited, per_operation },
      }
    }),
    writes_terms: false,
  }
}

function holdingAnswer({ tally, mandate, mandate_s256, agreed_at, changed_s256 }: JointAccount): JointShare {
  const state = changed_s256 === null ? 'agreed' : 'mandate_changed'
  return { ...shown(mandate), tally, mandate_s256, since: agreed_at, state }
}
