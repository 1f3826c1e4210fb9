/**
 * The owner's changes to her policy: add, edit or delete a tier. Each change is checked (tier-content.ts)
 * before it is stored, and each makes a new version of its terms. Contract: "Owner API" (`/owner/policies*`),
 * "Policy vocabulary and tiers".
 */
import { z } from 'zod'
import { endpoint, type Endpoint } from '../../../http/servers/endpoint.ts'
import type { Tx } from '../../../storage/authority/database.ts'
import {
  deleteTier,
  insertTier,
  readTier,
  updateTier,
  type TierRow,
} from '../../../storage/authority/policies/tiers.ts'
import { appendEvent } from '../../../storage/authority/ledger/events.ts'
import { appendLedger } from '../../../storage/authority/ledger/ledger.ts'
import { NAME_PATTERN } from '../../../wire/names.ts'
import type { Tier } from '../../../wire/owner/owner-api.ts'
import type { Owner } from '../../../wire/identifiers.ts'
import { Refusal, refuse } from '../../../wire/refusal.ts'
import { parseTemplateId } from '../../../wire/negotiation/terms.ts'
import type { Cut } from '../../../rules/organization/tier-ceiling.ts'
import { underCeiling } from '../../organization/membership-effect.ts'
import { runAndTellTallies, STILL_WAITING } from '../../joint/withdrawals.ts'
import type { OwnerApi } from '../api.ts'
import { tellWithdrawn } from '../../negotiation/withdrawals.ts'
import { changeAs, OWNER, type OwnerCredential } from '../credentials/guard.ts'
import { contentAfter, EDITED_TIER, judge, NEW_TIER, type TierEdit, type TierFields } from './tier-content.ts'
import { SAVED_TIER, tierAnswer } from './tier-queries.ts'

/** Beside an edit whose rules name an allowance: which version of it she read. */
const ALLOWANCE_READ = z.strictObject({
  allowance_version: z
    .string()
    .regex(/^[1-9]\d{0,8}$/, 'give the version of the allowance that you read, such as 3')
    .transform(Number)
    .optional(),
})

const NO_SUCH_TIER = 'You have no tier of this id.'
const TIER_ID = {
  schema: z.object({ tier_id: z.string().regex(NAME_PATTERN) }),
  unknown: NO_SUCH_TIER,
}

/** Her changes to her policy. */
export const POLICIES: readonly Endpoint<OwnerApi>[] = [
  endpoint({
    method: 'post',
    path: '/owner/policies',
    rows: ['owner-policies-add'],
    summary: 'Adds her own tier over registered, not-yet-governed resources',
    credential: OWNER,
    body: { schema: NEW_TIER },
    answers: { 201: { says: 'The tier as stored, with warnings.', schema: SAVED_TIER } },
    refuses: { 409: ['conflict'] },
    handle: async (api: OwnerApi, { caller, body: { id, ...content }, answer }) => {
      const saved = await addTier(api, caller, { id, content })
      return answer(201, saved, { etag: etagOf(saved) })
    },
  }),
  endpoint({
    method: 'put',
    path: '/owner/policies/{tier_id}',
    rows: ['owner-policies-edit'],
    summary:
      'Edits what the body names of a tier, or takes it back as it was read; the terms get a new version',
    credential: OWNER,
    parameters: TIER_ID,
    query: ALLOWANCE_READ,
    reads: { 'if-match': 'The quoted template_id she edited; stale is 412.' },
    body: { schema: EDITED_TIER },
    answers: {
      200: {
        says: 'The tier as stored, with warnings. With `allowance_version`: only if the allowance that its rules name has this version still, else 412 with `reason: allowance_moved`.',
        schema: SAVED_TIER,
      },
    },
    refuses: { 404: ['not_found'], 409: ['conflict'], 412: ['precondition_failed'] },
    handle: async (api: OwnerApi, { caller, parameters, query, body, request, answer }) => {
      const { id: repeated, ...change } = body
      const id = parameters.tier_id
      if (repeated !== undefined && repeated !== id)
        refuse('invalid_request', 'Leave out the id, or repeat the one in the path: a tier keeps its id.')
      const allowanceVersion = query.allowance_version
      const edit = { id, change, ifMatch: request.headers['if-match'], allowanceVersion }
      const saved = await runAndTellTallies(api, caller.owner, () => editTier(api, caller, edit))
      return answer(200, saved, { etag: etagOf(saved) })
    },
  }),
  endpoint({
    method: 'delete',
    path: '/owner/policies/{tier_id}',
    rows: ['owner-policies-delete'],
    summary: 'Removes a tier; its resources become ungoverned, hence denied',
    credential: OWNER,
    parameters: TIER_ID,
    reads: { 'if-match': 'The quoted template_id she means; stale is 412.' },
    answers: {
      200: {
        says: 'The resources that no tier governs now.',
        schema: z.object({ deleted: z.string(), ungoverned: z.array(z.string()), ...STILL_WAITING }),
      },
    },
    refuses: { 404: ['not_found'], 412: ['precondition_failed'] },
    handle: async (api: OwnerApi, { caller, parameters: { tier_id: id }, request, answer }) => {
      const named = { id, ifMatch: request.headers['if-match'] }
      return answer(200, await runAndTellTallies(api, caller.owner, () => removeTier(api, caller, named)))
    },
  }),
]

/** What she changes of a stored tier; `ifMatch` is the header that says which version of it she edited. */
interface TierRevision extends Pick<TierEdit, 'id' | 'allowanceVersion'> {
  change: TierFields
  ifMatch: string | undefined
}

type Saved = Tier & { warnings: string[]; clamped?: Cut[] | undefined }

/**
 * The parts that a ceiling cut from the tier that she wanted stored; if there is no ceiling, nothing is
 * reported.
 */
function cutNotice(clamped: Cut[] | undefined): { clamped?: Cut[] } {
  return clamped === undefined ? {} : { clamped }
}

function addTier(api: OwnerApi, credential: OwnerCredential, edit: TierEdit): Promise<Saved> {
  const { owner } = credential
  return changeAs(api, credential, async tx => {
    const { tier, warnings } = await judge(tx, owner, edit)
    const { tier: left, cuts: clamped } = await underCeiling(tx, tier)
    const outcome = await insertTier(tx, left)
    if (outcome !== 'added') return refuseOutcome(outcome)
    const saved = await recordChange(tx, credential, edit.id)
    const isAgain = (parseTemplateId(saved.terms.template_id)?.version ?? 1) > 1
    const all = isAgain ? [...warnings, STOOD_BEFORE] : warnings
    return { ...saved, warnings: all, ...cutNotice(clamped) }
  })
}

/** An agent may pass by what it got at the tier that she deleted, so she hears of it. */
const STOOD_BEFORE =
  'You had a tier of this id before: what agents were granted there, and what you approved there, counts at this one. Give it another id to begin anew.'

function editTier(
  api: OwnerApi,
  credential: OwnerCredential,
  { change, ifMatch, ...edit }: TierRevision,
): Promise<Saved> {
  const { owner } = credential
  const { id } = edit
  return changeAs(api, credential, async tx => {
    const before = (await readTier(tx, owner, id)) ?? refuseOutcome('unknown')
    // An edit of the allowance waits for the same lock, so it keeps the version that is read here.
    const { tier, warnings } = await judge(tx, owner, {
      ...edit,
      content: contentAfter(before, change),
      before,
    })
    const { tier: left, cuts: clamped } = await underCeiling(tx, tier)
    const done = await updateTier(tx, left, expectedVersion(ifMatch, owner, id))
    if (done.outcome !== 'updated') return refuseOutcome(done.outcome)
    await tellWithdrawn(tx, owner, done.withdrawn, 'terms_changed')
    return { ...(await recordChange(tx, credential, id, before)), warnings, ...cutNotice(clamped) }
  })
}

/**
 * Writes the whole tier, as it is from now on, to the ledger: its terms stay readable by their version, but
 * the rest is kept nowhere else. `was` names the terms that it had before, if it existed. Her other portals
 * are told that it changed. @returns the tier as stored.
 */
async function recordChange(
  tx: Tx,
  { owner, actor }: OwnerCredential,
  id: string,
  before?: TierRow,
): Promise<Tier> {
  const tier = tierAnswer((await readTier(tx, owner, id))!)
  const { name, resources, ask_me, rules, clearance, terms } = tier
  const was = before === undefined ? null : tierAnswer(before).terms.template_id
  const content = { tier_name: name, resources, ask_me, rules, clearance }
  const data = { tier: id, template_id: terms.template_id, was, ...content, by: 'owner', actor }
  await appendLedger(tx, owner, { kind: 'policy_changed', data })
  await appendEvent(tx, owner, 'policy_changed', {
    tier: id,
    template_id: terms.template_id,
    by: 'owner',
    actor,
  })
  return tier
}

function removeTier(
  api: OwnerApi,
  credential: OwnerCredential,
  { id, ifMatch }: { id: string; ifMatch: string | undefined },
): Promise<{ deleted: string; ungoverned: string[] }> {
  const { owner, actor } = credential
  return changeAs(api, credential, async tx => {
    const done = await deleteTier(tx, owner, id, expectedVersion(ifMatch, owner, id))
    if (done.outcome !== 'deleted') return refuseOutcome(done.outcome)
    await tellWithdrawn(tx, owner, done.withdrawn, 'terms_changed')
    const data = { tier: id, ungoverned: done.ungoverned, by: 'owner', actor }
    await appendLedger(tx, owner, { kind: 'policy_removed', data })
    await appendEvent(tx, owner, 'policy_changed', { tier: id, template_id: null, by: 'owner', actor })
    return { deleted: id, ungoverned: done.ungoverned }
  })
}

/** The version that `If-Match` names, if the owner said which one she edited (RFC 9110 §13.1.1). */
function expectedVersion(header: string | undefined, owner: Owner, id: string): number | undefined {
  if (header === undefined || header === '*') return undefined
  const named = parseTemplateId(/^"([^"]+)"$/.exec(header)?.[1] ?? '')
  if (named?.owner !== owner || named.tier_id !== id) return refuseOutcome('stale')
  return named.version
}

function etagOf({ terms }: Tier): string {
  return `"${terms.template_id}"`
}

function refuseOutcome(outcome: 'exists' | 'governed' | 'unknown' | 'stale'): never {
  switch (outcome) {
    case 'exists':
      throw new Refusal('conflict', 'You have a tier of this id: edit it, or choose another id.')
    case 'governed':
      throw new Refusal('conflict', 'Another tier governs one of these resources: take it out there first.')
    case 'unknown':
      throw new Refusal('not_found', NO_SUCH_TIER)
    case 'stale':
      throw new Refusal('precondition_failed', 'The tier was edited since: read it again, then edit it.')
  }
}
