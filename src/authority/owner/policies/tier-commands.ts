/**
 * The owner's changes to her policy: add, edit or delete a tier. Each change is checked before it is stored,
 * and each makes a new version of its terms. Contract: "Owner API" (`/owner/policies*`), "Policy vocabulary
 * and tiers".
 */
import { z } from 'zod'
import { endpoint, type Endpoint } from '../../../http/servers/endpoint.ts'
import { plainText } from '../../../http/servers/pages.ts'
import {
  CONDITIONS_PER_RULE_MAX,
  RULES_MAX,
  TERMS_SECONDS_MAX,
  tierFault,
  tierWarnings,
} from '../../../rules/tier.ts'
import {
  allowancesIn,
  tierAllowanceFault,
  tierAllowanceWarnings,
} from '../../../rules/allowance/tier-allowance.ts'
import type { Db, Tx } from '../../../storage/authority/database.ts'
import { readAllowance } from '../../../storage/authority/policies/allowances.ts'
import {
  deleteTier,
  insertTier,
  listGovernable,
  readTier,
  updateTier,
  type NewTier,
  type TierRow,
} from '../../../storage/authority/policies/tiers.ts'
import { appendEvent } from '../../../storage/authority/ledger/events.ts'
import { appendLedger } from '../../../storage/authority/ledger/ledger.ts'
import type { OwnerAllowance } from '../../../wire/documents/allowance.ts'
import { NAME_PATTERN } from '../../../wire/names.ts'
import type { Tier } from '../../../wire/owner/owner-api.ts'
import type { Owner } from '../../../wire/identifiers.ts'
import { Refusal, refuse } from '../../../wire/refusal.ts'
import { parseTemplateId } from '../../../wire/negotiation/terms.ts'
import { mixesJointAndOwn } from '../../../rules/joint/joint.ts'
import type { Cut } from '../../../rules/organization/tier-ceiling.ts'
import { underCeiling } from '../../organization/membership-effect.ts'
import { runAndTellTallies, STILL_WAITING } from '../../joint/withdrawals.ts'
import type { OwnerApi } from '../api.ts'
import { tellWithdrawn } from '../../negotiation/withdrawals.ts'
import { changeAs, OWNER, type OwnerCredential } from '../credentials/guard.ts'
import { SAVED_TIER, tierAnswer } from './tier-queries.ts'

const words = (most: number) => z.array(plainText(500)).max(most)

/** A rule; a single condition may stand without a list. */
const RULE = z
  .strictObject({
    when: z.union([words(CONDITIONS_PER_RULE_MAX), plainText(500).transform(one => [one])]),
    then: z.enum(['auto', 'ask', 'refuse']),
  })
  .meta({ id: 'Rule' })
const MEMBERS = {
  name: plainText(200),
  resources: z.array(plainText(400)).max(1_000),
  ask_me: z.boolean(),
  rules: z.array(RULE).max(RULES_MAX),
  clearance: z.record(plainText(200), words(50)),
}
const TERMS = z
  .strictObject({
    purpose: plainText(1_000),
    /** The scopes of all its resources if it is left out. */
    scope: words(50).optional(),
    expires_in: z.int().min(1).max(TERMS_SECONDS_MAX),
    prohibited: words(100),
    /** Given together with ask_me or left out, because one implies the other. */
    per_operation: z.boolean().optional(),
  })
  .meta({ id: 'TierTerms' })

/** The content of a tier: its shape is checked here, its meaning in rules/tier.ts. */
const TIER_CONTENT = z.strictObject({
  ...MEMBERS,
  ask_me: MEMBERS.ask_me.default(false),
  rules: MEMBERS.rules.default([]),
  clearance: MEMBERS.clearance.default({}),
  terms: TERMS.extend({ prohibited: TERMS.shape.prohibited.default([]) }),
})
export const NEW_TIER = TIER_CONTENT.extend({
  id: z.string().regex(NAME_PATTERN, 'give letters, digits, `.`, `_` or `-`, at most 64 of them'),
})
/**
 * The members to change, or the tier as it was read. The id may be repeated but never changed. The
 * template_id may be repeated and is ignored: If-Match says which version she means.
 */
const EDITED_TIER = z
  .strictObject({
    ...MEMBERS,
    id: z.string(),
    terms: TERMS.extend({ template_id: plainText(400) }).partial(),
  })
  .partial()
type TierContent = z.infer<typeof TIER_CONTENT>
type TierFields = Omit<z.infer<typeof EDITED_TIER>, 'id'>

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

/**
 * `before` is the tier that an edit replaces, `allowanceVersion` the version of its allowance that she read.
 */
interface TierEdit {
  id: string
  content: TierContent
  before?: TierRow
  allowanceVersion?: number | undefined
}

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
    return { ...(await recordChange(tx, credential, edit.id)), warnings, ...cutNotice(clamped) }
  })
}

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

/**
 * Members that the change does not name stay as they are. The exception is that each use is asked about if,
 * and only if, `ask_me` is set.
 */
function contentAfter(before: TierRow, { terms = {}, ...change }: TierFields): TierContent {
  const stays = change.ask_me === undefined ? before.terms.per_operation : undefined
  return {
    name: change.name ?? before.name,
    resources: change.resources ?? before.resources,
    ask_me: change.ask_me ?? before.ask_me,
    rules: change.rules ?? before.rules,
    clearance: change.clearance ?? before.clearance,
    terms: {
      purpose: terms.purpose ?? before.terms.purpose,
      // If a ceiling left nothing of a member, the member is required again, as if it had never been given.
      scope: terms.scope ?? (before.terms.scope.length === 0 ? undefined : before.terms.scope),
      expires_in: terms.expires_in ?? before.terms.expires_in,
      prohibited: terms.prohibited ?? before.terms.prohibited,
      per_operation: terms.per_operation ?? stays,
    },
  }
}

/** Terms for what she holds with others are sent to its tally; other terms are not. */
export const JOINT_APART =
  'Give what you hold jointly a tier of its own, for one account: this one governs other resources, too.'

/**
 * The tier as it would be stored, with warnings; or 400, which says why it cannot be stored; or 412 if its
 * allowance is not the one that she read.
 */
export async function judge(
  db: Db | Tx,
  owner: Owner,
  { id, content, before, allowanceVersion }: TierEdit,
): Promise<{ tier: NewTier; warnings: string[]; allowance: OwnerAllowance | undefined }> {
  const { terms, ...rest } = content
  const registered = await listGovernable(db, owner, content.resources)
  const tier = {
    ...rest,
    terms: {
      ...terms,
      scope: terms.scope ?? [...new Set(registered.flatMap(({ resource_scopes }) => resource_scopes))],
      per_operation: terms.per_operation ?? content.ask_me,
    },
  }
  const [named] = allowancesIn(tier.rules)
  const allowance = named === undefined ? undefined : await readAllowance(db, owner, named)
  if (allowanceVersion !== undefined) checkAllowanceRead(named, allowance, allowanceVersion)
  const fault =
    tierFault({ id, ...tier }, registered) ?? tierAllowanceFault({ id, ...tier }, allowance, before?.rules)
  if (fault !== undefined) refuse('invalid_request', fault)
  if (mixesJointAndOwn(registered.map(({ client_id }) => client_id))) refuse('conflict', JOINT_APART)
  const warnings = [...tierWarnings({ id, ...tier }, registered), ...tierAllowanceWarnings(tier, registered)]
  return { tier: { owner, tier_id: id, ...tier }, warnings, allowance }
}

/**
 * Her yes is to the limits that she read, and the rules open the tier within whatever is stored. If she has
 * no allowance of this name, the rules themselves are at fault.
 */
function checkAllowanceRead(
  named: string | undefined,
  allowance: OwnerAllowance | undefined,
  version: number,
): void {
  if (named === undefined)
    refuse(
      'invalid_request',
      'Leave out allowance_version, or name the allowance in a rule of the tier: no rule of it names one.',
    )
  if (allowance !== undefined && allowance.version !== version)
    refuse(
      'precondition_failed',
      'Another device changed the allowance since you read it: read it again, then edit the tier.',
      { extra: { reason: 'allowance_moved' } },
    )
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
