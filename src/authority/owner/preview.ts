/**
 * A dry run: what a changed tier would have answered for each request in the ledger. Changes nothing, and
 * judges the past by the facts each request was judged by then, never by what is known since.
 * Contract: "Policy vocabulary and tiers"; an addition of ours (docs/choices.md).
 */
import type { FastifyInstance } from 'fastify'
import { z } from 'zod'
import type { RequestFacts } from '../../rules/conditions.ts'
import { answerFor } from '../../rules/connection.ts'
import { grantLifetimeSeconds, grantScope } from '../../rules/permission.ts'
import { evaluateTier } from '../../rules/tier.ts'
import { readLedger, type LedgerEntry } from '../../storage/authority/ledger.ts'
import type { NewTier } from '../../storage/authority/tiers.ts'
import type { Authority } from '../context.ts'
import { ownerOf } from './guard.ts'
import { judge, NEW_TIER } from './policies.ts'
import { bodyOf } from './requests.ts'
import type { Family, Handle } from '../../wire/identifiers.ts'

export const PREVIEW = z.strictObject({
  tier: NEW_TIER,
  /** A ledger seq: requests after it are tried. */
  after: z.int().min(0).default(0),
  /** Ledger entries looked through at most. */
  limit: z.int().min(1).max(1_000).default(1_000),
})

/** How a request is answered, in one word: let in at once, shown to the owner, or refused. */
type Effect = 'grant' | 'ask' | 'refuse'

/** Registers POST /owner/policies/preview. */
export function registerOwnerPreview(app: FastifyInstance, authority: Authority): void {
  app.post('/owner/policies/preview', async request => {
    const { tier: given, after, limit } = bodyOf(PREVIEW, request)
    const { owner } = ownerOf(request)
    const { db } = authority.database
    const { id, ...content } = given
    const { tier, warnings } = await judge(db, owner, { id, content })
    const entries = await readLedger(db, owner, { kind: ['promised', 'refused'], after, limit })
    const requests = entries.flatMap(entry => tryOn(tier, entry))
    const next = entries.length === limit ? (entries.at(-1)?.seq ?? null) : null
    return { requests, changed: requests.filter(one => one.was !== one.would).length, warnings, next }
  })
}

interface Tried {
  seq: number
  ts: string
  family: Family | null
  handle: Handle | null
  resource_id: string
  was: Effect
  would: Effect
  because: string[]
}

/** The entry under the tier; nothing where it is no request for a resource that the tier would govern. */
function tryOn(tier: NewTier, { seq, ts, family, handle, kind, data }: LedgerEntry): Tried[] {
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
