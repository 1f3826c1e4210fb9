/**
 * The owner's changes to her policy: add, edit, delete a tier, each judged before it is stored and each a new
 * version of its terms. Contract: "Owner API" (`/owner/policies*`), "Policy vocabulary and tiers".
 */
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { z } from 'zod'
import {
  CONDITIONS_PER_RULE_MAX,
  RULES_MAX,
  TERMS_SECONDS_MAX,
  tierFault,
  tierWarnings,
} from '../../rules/tier.ts'
import type { Db, Tx } from '../../storage/authority/database.ts'
import {
  deleteTier,
  insertTier,
  listGovernable,
  readTier,
  updateTier,
  type NewTier,
} from '../../storage/authority/tiers.ts'
import { NAME_PATTERN } from '../../wire/names.ts'
import { Refusal, refuse } from '../../wire/refusal.ts'
import { parseTemplateId } from '../../wire/terms.ts'
import type { Authority } from '../context.ts'
import { tellWithdrawn } from '../negotiation/withdrawals.ts'
import { changeAs, ownerOf } from './guard.ts'
import { bodyOf, plainText } from './requests.ts'
import { tierAnswer } from './tiers.ts'
import type { Owner } from '../../wire/identifiers.ts'

const words = (most: number) => z.array(plainText(500)).max(most)

/** A tier's content; its shape here, its meaning in rules/tier.ts. */
export const TIER_CONTENT = z.strictObject({
  name: plainText(200),
  resources: z.array(plainText(400)).max(1_000),
  ask_me: z.boolean().default(false),
  rules: z
    .array(
      z.strictObject({
        when: words(CONDITIONS_PER_RULE_MAX),
        then: z.enum(['auto', 'ask', 'refuse']),
      }),
    )
    .max(RULES_MAX)
    .default([]),
  clearance: z.record(plainText(200), words(50)).default({}),
  terms: z.strictObject({
    purpose: plainText(1_000),
    scope: words(50),
    expires_in: z.int().min(1).max(TERMS_SECONDS_MAX),
    prohibited: words(100).default([]),
    /** Said with ask_me or left out: one implies the other. */
    per_operation: z.boolean().optional(),
  }),
})
export const NEW_TIER = TIER_CONTENT.extend({
  id: z.string().regex(NAME_PATTERN, 'give letters, digits, `.`, `_` or `-`, at most 64 of them'),
})
/** The id may be repeated in the body, never changed. */
export const EDITED_TIER = TIER_CONTENT.extend({ id: z.string().optional() })
type TierContent = z.infer<typeof TIER_CONTENT>

const TIER_PATH = z.object({ tier_id: z.string().regex(NAME_PATTERN) })

/** Registers POST /owner/policies, PUT and DELETE /owner/policies/{tier_id}. */
export function registerOwnerPolicies(app: FastifyInstance, authority: Authority): void {
  app.post('/owner/policies', async (request, reply) => {
    const { id, ...content } = bodyOf(NEW_TIER, request)
    return addTier(authority, request, reply, { id, content })
  })
  app.put('/owner/policies/:tier_id', async (request, reply) => {
    const id = tierIdOf(request)
    const { id: repeated, ...content } = bodyOf(EDITED_TIER, request)
    if (repeated !== undefined && repeated !== id)
      refuse('invalid_request', 'Leave out the id, or repeat the one in the path: a tier keeps its id.')
    return editTier(authority, request, reply, { id, content })
  })
  app.delete('/owner/policies/:tier_id', async request => {
    const { owner } = ownerOf(request)
    const id = tierIdOf(request)
    return changeAs(authority, ownerOf(request), async tx => {
      const done = await deleteTier(tx, owner, id, expectedVersion(request, owner, id))
      if (done.outcome !== 'deleted') return refuseOutcome(done.outcome)
      await tellWithdrawn(tx, owner, done.withdrawn, 'terms_changed')
      return { deleted: id, ungoverned: done.ungoverned }
    })
  })
}

interface Given {
  id: string
  content: TierContent
}

// oxlint-disable-next-line eslint/max-params -- the two of HTTP, and what was sent
async function addTier(
  authority: Authority,
  request: FastifyRequest,
  reply: FastifyReply,
  given: Given,
): Promise<object> {
  const { owner } = ownerOf(request)
  const answer = await changeAs(authority, ownerOf(request), async tx => {
    const { tier, warnings } = await judge(tx, owner, given)
    const outcome = await insertTier(tx, tier)
    if (outcome !== 'added') return refuseOutcome(outcome)
    return { ...tierAnswer((await readTier(tx, owner, given.id))!), warnings }
  })
  return reply.status(201).header('etag', etagOf(answer)).send(answer)
}

// oxlint-disable-next-line eslint/max-params -- the two of HTTP, and what was sent
async function editTier(
  authority: Authority,
  request: FastifyRequest,
  reply: FastifyReply,
  given: Given,
): Promise<object> {
  const { owner } = ownerOf(request)
  const answer = await changeAs(authority, ownerOf(request), async tx => {
    if ((await readTier(tx, owner, given.id)) === undefined) return refuseOutcome('unknown')
    const { tier, warnings } = await judge(tx, owner, given)
    const done = await updateTier(tx, tier, expectedVersion(request, owner, given.id))
    if (done.outcome !== 'updated') return refuseOutcome(done.outcome)
    await tellWithdrawn(tx, owner, done.withdrawn, 'terms_changed')
    return { ...tierAnswer((await readTier(tx, owner, given.id))!), warnings }
  })
  return reply.header('etag', etagOf(answer)).send(answer)
}

/** The tier as it would be stored, or 400 saying why it cannot be; sentences of doubt beside it. */
export async function judge(
  db: Db | Tx,
  owner: Owner,
  { id, content }: Given,
): Promise<{ tier: NewTier; warnings: string[] }> {
  const { terms, ...rest } = content
  const tier = {
    ...rest,
    terms: { ...terms, per_operation: terms.per_operation ?? content.ask_me },
  }
  const registered = await listGovernable(db, owner, content.resources)
  const fault = tierFault({ id, ...tier }, registered)
  if (fault !== undefined) refuse('invalid_request', fault)
  return { tier: { owner, tier_id: id, ...tier }, warnings: tierWarnings({ id, ...tier }, registered) }
}

function tierIdOf(request: FastifyRequest): string {
  const path = TIER_PATH.safeParse(request.params)
  return path.success ? path.data.tier_id : refuseOutcome('unknown')
}

/** The version that `If-Match` names, if the owner said which one she edited (RFC 9110 §13.1.1). */
function expectedVersion(request: FastifyRequest, owner: Owner, id: string): number | undefined {
  const header = request.headers['if-match']
  if (header === undefined || header === '*') return undefined
  const named = parseTemplateId(/^"([^"]+)"$/.exec(header)?.[1] ?? '')
  if (named?.owner !== owner || named.tier_id !== id) return refuseOutcome('stale')
  return named.version
}

function etagOf(answer: object): string {
  return `"${(answer as { terms: { template_id: string } }).terms.template_id}"`
}

function refuseOutcome(outcome: 'exists' | 'governed' | 'unknown' | 'stale'): never {
  switch (outcome) {
    case 'exists':
      throw new Refusal('conflict', 'You have a tier of this id: edit it, or choose another id.')
    case 'governed':
      throw new Refusal('conflict', 'Another tier governs one of these resources: take it out there first.')
    case 'unknown':
      throw new Refusal('not_found', 'You have no tier of this id.')
    case 'stale':
      throw new Refusal('precondition_failed', 'The tier was edited since: read it again, then edit it.')
  }
}
