/**
 * A dry run: what a changed tier would have answered for each request in the ledger. It changes nothing. It
 * judges each past request by the facts that were known then, never by later ones; but which of her rules
 * count is a matter of her membership now, as for the request that comes next. Contract: "Policy vocabulary
 * and tiers"; an addition of ours (docs/choices.md).
 */
import { z } from 'zod'
import type { Owner } from '../../../wire/identifiers.ts'
import { endpoint, type Endpoint } from '../../../http/servers/endpoint.ts'
import type { RequestFacts } from '../../../rules/conditions.ts'
import { unmetFact } from '../../../rules/organization/clearance.ts'
import { answerFor } from '../../../rules/connection.ts'
import { grantLifetimeSeconds, grantScope } from '../../../rules/permission.ts'
import { underRuling, type Ruling } from '../../../rules/organization/ruling.ts'
import { underApproval } from '../../../rules/organization/tier-ceiling.ts'
import { evaluateTier, type TierRules } from '../../../rules/tier.ts'
import type { Db } from '../../../storage/authority/database.ts'
import { readLedger, type LedgerEntryRow } from '../../../storage/authority/ledger/ledger.ts'
import { listReached, readMembership } from '../../../storage/authority/membership/membership.ts'
import type { NewTier } from '../../../storage/authority/policies/tiers.ts'
import { attestedFacts } from '../../../wire/organization/clearance.ts'
import type { OwnerAllowance } from '../../../wire/documents/allowance.ts'
import type { AnswerEffect, TierPreview, TriedRequest } from '../../../wire/owner/owner-api.ts'
import type { OwnerApi } from '../api.ts'
import { OWNER } from '../credentials/guard.ts'
import { FAMILY, HANDLE } from '../../../wire/documents/names.ts'
import { judge, NEW_TIER } from './tier-content.ts'

const PREVIEW = z.strictObject({
  tier: NEW_TIER,
  /** A ledger seq: requests after it are tried. */
  after: z.int().min(0).default(0),
  /** How many ledger entries are read at most. */
  limit: z.int().min(1).max(1_000).default(1_000),
})

const EFFECT = z.enum(['grant', 'ask', 'refuse'])
const count = z.int().min(0)
const TIER_PREVIEW: z.ZodType<TierPreview> = z
  .object({
    requests: z.array(
      z.object({
        seq: count,
        ts: z.string(),
        family: FAMILY.nullable(),
        handle: HANDLE.nullable(),
        resource_id: z.string(),
        was: EFFECT,
        would: EFFECT,
        because: z.array(z.string()),
      }),
    ),
    changed: count,
    warnings: z.array(z.string()),
    next: count.nullable(),
  })
  .meta({ id: 'TierPreview' })

export const POLICY_PREVIEW: Endpoint<OwnerApi> = endpoint({
  method: 'post',
  path: '/owner/policies/preview',
  rows: { addedUnder: 'Owner API' },
  summary: 'What a changed tier would have answered for each request in the ledger; changes nothing',
  credential: OWNER,
  body: { schema: PREVIEW },
  answers: {
    200: { says: 'Each request, as it was answered and as it would have been.', schema: TIER_PREVIEW },
  },
  refuses: { 404: ['not_found'], 409: ['conflict'] },
  handle: async ({ database }: OwnerApi, { caller, body, answer }) =>
    answer(200, await preview(database.of(caller.owner), caller.owner, body)),
})

async function preview(
  db: Db,
  owner: Owner,
  { tier: draft, after, limit }: z.output<typeof PREVIEW>,
): Promise<TierPreview> {
  const { id, ...content } = draft
  const { tier, warnings, allowance } = await judge(db, owner, { id, content })
  const rulesAt = await rulesUnderMembership(db, owner, tier)
  const entries = await readLedger(db, owner, { kind: ['promised', 'refused'], after, limit })
  const requests = entries.flatMap(entry => tryOn(tier, entry, { allowance, rulesAt }))
  const next = entries.length === limit ? (entries.at(-1)?.seq ?? null) : null
  return { requests, changed: requests.filter(one => one.was !== one.would).length, warnings, next }
}

/** The rules of the tier that count at each resource, by her membership as it is now. */
async function rulesUnderMembership(db: Db, owner: Owner, tier: TierRules): Promise<RulesAt> {
  const membership = await readMembership(db, owner)
  if (membership === undefined) return () => tier
  const resources = await listReached(db, owner)
  const governed = new Set(resources.filter(({ org }) => org !== null).map(({ resource_id }) => resource_id))
  return resource_id => (governed.has(resource_id) ? underApproval(tier, resource_id, membership) : tier)
}

type RulesAt = (resource_id: string) => TierRules

/** The allowance that a tier names, as it is now. */
type Named = Pick<OwnerAllowance, 'id' | 'version'> | undefined

/** The entry judged by the tier; empty if it is no request for a resource that the tier would govern. */
function tryOn(
  tier: NewTier,
  { seq, ts, family, handle, kind, data }: LedgerEntryRow,
  { allowance, rulesAt }: { allowance: Named; rulesAt: RulesAt },
): TriedRequest[] {
  const { resource_id, effect, ...recorded } = data as Partial<RecordedRequest> & { effect?: 'grant' | 'ask' }
  const { facts } = recorded
  if (resource_id === undefined || facts === undefined || !tier.resources.includes(resource_id)) return []
  const was: AnswerEffect = kind === 'refused' ? 'refuse' : (effect ?? 'ask')
  return [
    {
      seq,
      ts,
      family,
      handle,
      resource_id,
      was,
      ...wouldAnswer(tier, rulesAt(resource_id), { ...recorded, facts: factsBy(allowance, facts) }),
    },
  ]
}

/**
 * What was found of another version of the allowance says nothing of this one, by which the operation then
 * counts as beyond it.
 */
function factsBy(allowance: Named, facts: RequestFacts): RequestFacts {
  const { operation, ...others } = facts
  const isOfIt =
    typeof operation === 'object' &&
    operation.allowance === allowance?.id &&
    operation.version === allowance.version
  return isOfIt ? facts : others
}

/** What the ledger has about a request: the facts by which it was judged. */
interface RecordedRequest {
  resource_id: string
  facts: RequestFacts
  scopes?: string[]
  /** The organization's answer to it, if one governed the resource. */
  organization?: Ruling
  /** What was attested then, if anybody asked: a compact JWT, which was verified. */
  clearance?: string
}

/** `rules`: those of the tier that count at the resource. */
function wouldAnswer(
  tier: NewTier,
  rules: TierRules,
  { facts, scopes, organization, clearance }: Omit<RecordedRequest, 'resource_id'>,
): { would: AnswerEffect; because: string[] } {
  const attested = clearance === undefined ? {} : attestedFacts(clearance)
  if (unmetFact(tier.clearance, attested) !== undefined)
    return { would: 'refuse', because: ['clearance_unmet'] }
  if (scopes !== undefined && grantScope(scopes, tier.terms.scope, scopes).length === 0)
    return { would: 'refuse', because: ['no_scope'] }
  const lifetime = facts.request.expiresInSeconds
  const request =
    lifetime === undefined
      ? facts.request
      : { ...facts.request, expiresInSeconds: grantLifetimeSeconds(tier.terms.expires_in, lifetime) }
  const own = evaluateTier(rules, { ...facts, request })
  const judged = organization === undefined ? own : underRuling(own, organization)
  const answer = answerFor(facts.connection ?? 'none', tier, judged)
  return { would: answer.kind === 'deny' ? 'refuse' : answer.kind, because: judged.because }
}
