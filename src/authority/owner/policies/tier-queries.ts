/**
 * What the owner may read of her policy: tiers, the resources that they govern, the vocabulary of rules.
 * Contract: "Owner API" (`/owner/policies`, `/owner/policy-vocabulary`, `/owner/resources`).
 */
import { z } from 'zod'
import { endpoint, type Endpoint } from '../../../http/servers/endpoint.ts'
import { PAGE } from '../../../http/servers/pages.ts'
import type { Cut } from '../../../rules/organization/tier-ceiling.ts'
import { vocabulary } from '../../../rules/conditions.ts'
import {
  listGovernedResources,
  type GovernedResourceRow,
} from '../../../storage/authority/registry/resources.ts'
import { listTiers, type TierRow } from '../../../storage/authority/policies/tiers.ts'
import type { Resource, StillWaiting, Tier, VocabularyWord } from '../../../wire/owner/owner-api.ts'
import { templateId } from '../../../wire/negotiation/terms.ts'
import { STILL_WAITING } from '../../joint/withdrawals.ts'
import type { OwnerApi } from '../api.ts'
import { OWNER } from '../credentials/guard.ts'
import { listPage, ownerList } from '../lists.ts'
import { CLIENT_ID } from '../../../wire/documents/names.ts'

const text = z.string()
const maybe = text.nullable()

const TIER_MEMBERS = z.looseObject({
  id: text,
  name: text,
  resources: z.array(text),
  ask_me: z.boolean(),
  rules: z.array(z.object({ when: z.array(text), then: z.enum(['auto', 'ask', 'refuse']) })),
  clearance: z.record(text, z.array(text)),
  terms: z.object({
    template_id: text,
    purpose: text,
    scope: z.array(text),
    expires_in: z.int().min(0),
    prohibited: z.array(text),
    per_operation: z.boolean(),
  }),
})
const TIER: z.ZodType<Tier> = TIER_MEMBERS.meta({ id: 'Tier' })
/** What a ceiling cut from a member of a tier. */
export const CUT = z.object({
  field: z.enum(['expires_in', 'scope', 'prohibited', 'ask_me', 'clearance']),
  was: z.unknown(),
  now: z.unknown(),
  text,
})
/** A tier as it was stored, with warnings. */
export const SAVED_TIER: z.ZodType<
  Tier & { warnings: string[]; clamped?: Cut[] | undefined } & StillWaiting
> = TIER_MEMBERS.extend({
  warnings: z.array(text),
  /** If she is a member of an organization, what its ceiling cut from the tier. */
  clamped: z.array(CUT).optional(),
  ...STILL_WAITING,
})
const WORD: z.ZodType<VocabularyWord> = z
  .object({
    condition: text,
    takes: z.enum(['duration', 'count', 'level', 'class', 'allowance']).nullable(),
    label: text,
    may_relax: z.boolean(),
  })
  .meta({ id: 'VocabularyWord' })
const RESOURCE: z.ZodType<Resource> = z
  .object({
    _id: text,
    name: text,
    type: maybe,
    resource_scopes: z.array(text),
    consequence: maybe,
    tier: maybe,
    tier_name: maybe,
    ask_me: z.boolean().nullable(),
    source: z.enum(['provisioned', 'pulled', 'joint']),
    client_id: CLIENT_ID,
    approval: z.literal('signed').nullable(),
  })
  .meta({ id: 'Resource' })

/** The endpoints that read her policy. */
export const TIERS: readonly Endpoint<OwnerApi>[] = [
  endpoint({
    method: 'get',
    path: '/owner/policies',
    rows: ['owner-policies'],
    summary: 'Tier policy',
    credential: OWNER,
    query: PAGE,
    answers: { 200: { says: 'Her tiers.', schema: z.object({ tiers: z.array(TIER) }) } },
    handle: async (api: OwnerApi, { caller, query, answer }) => {
      const listRequest = { caller, query, path: '/owner/policies' }
      const { items, headers } = await listPage(api, listRequest, listTiers, 'tier_id')
      return answer(200, { tiers: items.map(tierAnswer) }, headers)
    },
  }),
  endpoint({
    method: 'get',
    path: '/owner/policy-vocabulary',
    rows: ['owner-vocabulary'],
    summary: 'Usable conditions and which may relax',
    credential: OWNER,
    query: z.strictObject({}),
    answers: { 200: { says: 'The vocabulary.', schema: z.array(WORD) } },
    handle: async (_api: OwnerApi, { answer }) => answer(200, vocabulary()),
  }),
  ownerList({
    path: '/owner/resources',
    rows: ['owner-resources'],
    summary: 'Registered resources joined with tiers',
    says: 'By id.',
    item: RESOURCE,
    list: listGovernedResources,
    key: 'resource_id',
    show: resourceAnswer,
  }),
]

/** A tier as the owner API writes it. */
export function tierAnswer(tier: TierRow): Tier {
  const { purpose, scope, expires_in, prohibited, per_operation } = tier.terms
  return {
    id: tier.tier_id,
    name: tier.name,
    resources: tier.resources,
    ask_me: tier.ask_me,
    rules: tier.rules,
    clearance: tier.clearance,
    terms: {
      template_id: templateId(tier.owner, tier.tier_id, tier.version),
      purpose,
      scope,
      expires_in,
      prohibited,
      per_operation,
    },
  }
}

function resourceAnswer(row: GovernedResourceRow): Resource {
  const { name, type, resource_scopes, consequence, tier_name, ask_me, source, client_id, approval } = row
  return {
    _id: row.resource_id,
    name,
    type,
    resource_scopes,
    consequence,
    tier: row.tier_id,
    tier_name,
    ask_me,
    source,
    client_id,
    approval,
  }
}
