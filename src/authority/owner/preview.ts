/**
 * A dry run: what a changed tier would have answered for each request in the ledger. Changes nothing, and
 * judges the past by the facts each request was judged by then, never by what is known since.
 * Contract: "Policy vocabulary and tiers"; an addition of ours (docs/choices.md).
 */
import { z } from 'zod'
import type { Owner } from '../../wire/identifiers.ts'
import { endpoint, type Endpoint } from '../../http/endpoint.ts'
import type { RequestFacts } from '../../rules/conditions.ts'
import { answerFor } from '../../rules/connection.ts'
import { grantLifetimeSeconds, grantScope } from '../../rules/permission.ts'
import { evaluateTier } from '../../rules/tier.ts'
import type { Db } from '../../storage/authority/database.ts'
import { readLedger, type LedgerEntry } from '../../storage/authority/ledger.ts'
import type { NewTier } from '../../storage/authority/tiers.ts'
import type { Effect, TierPreview, TriedRequest } from '../../wire/owner-api.ts'
import type { OwnerApi } from './api.ts'
import { OWNER } from './guard.ts'
import { FAMILY, HANDLE } from './name-schemas.ts'
import { judge, NEW_TIER } from './policies.ts'

const PREVIEW = z.strictObject({
  tier: NEW_TIER,
  /** A ledger seq: requests after it are tried. */
  after: z.int().min(0).default(0),
  /** Ledger entries looked through at most. */
  limit: z.int().min(1).max(1_000).default(1_000),
})

const EFFECT = z.enum(['grant', 'ask', 'refuse'])
const count = z.int().min(0)
const TIER_PREVIEW: z.ZodType<TierPreview> = z.object({
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
  handle: async ({ database }: OwnerApi, { caller, body, answer }) =>
    answer(200, await preview(database.db, caller.owner, body)),
})

async function preview(
  db: Db,
  owner: Owner,
  { tier: given, after, limit }: z.output<typeof PREVIEW>,
): Promise<TierPreview> {
  const { id, ...content } = given
  const { tier, warnings } = await judge(db, owner, { id, content })
  const entries = await readLedger(db, owner, { kind: ['promised', 'refused'], after, limit })
  const requests = entries.flatMap(entry => tryOn(tier, entry))
  const next = entries.length === limit ? (entries.at(-1)?.seq ?? null) : null
  return { requests, changed: requests.filter(one => one.was !== one.would).length, warnings, next }
}

/** The entry under the tier; nothing where it is no request for a resource that the tier would govern. */
function tryOn(tier: NewTier, { seq, ts, family, handle, kind, data }: LedgerEntry): TriedRequest[] {
  const { resource_id, facts, effect, scopes } = data as Partial<{
    resource_id: string
    facts: RequestFacts
    effect: 'grant' | 'ask'
    scopes: string[]
  }>
  if (resource_id === undefined || facts === undefined || !tier.resources.includes(resource_id)) return []
  const was: Effect = kind === 'refused' ? 'refuse' : (effect ?? 'ask')
  return [{ seq, ts, family, handle, resource_id, was, ...wouldAnswer(tier, facts, scopes) }]
}

function wouldAnswer(
  tier: NewTier,
  facts: RequestFacts,
  scopes: string[] | undefined,
): { would: Effect; because: string[] } {
  if (Object.keys(tier.clearance).length > 0) return { would: 'refuse', because: ['clearance_unmet'] }
  if (scopes !== undefined && grantScope(scopes, tier.terms.scope, scopes).length === 0)
    return { would: 'refuse', because: ['no_scope'] }
  const asked = facts.request.expiresInSeconds
  const request =
    asked === undefined
      ? facts.request
      : { ...facts.request, expiresInSeconds: grantLifetimeSeconds(tier.terms.expires_in, asked) }
  const judged = evaluateTier(tier, { ...facts, request })
  const answer = answerFor(facts.connection ?? 'none', tier, judged)
  return { would: answer.kind === 'deny' ? 'refuse' : answer.kind, because: judged.because }
}
