/**
 * Owns what a tier may contain: the shape in which it comes, what an edit leaves of the stored one, and
 * whether it can be stored over what is registered. The owner's changes go by it, and so does a dry run,
 * which stores nothing. Contract: "Owner API" (`/owner/policies*`), "Policy vocabulary and tiers".
 */
import { z } from 'zod'
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
import { mixesJointAndOwn } from '../../../rules/joint/joint.ts'
import type { Db, Tx } from '../../../storage/authority/database.ts'
import { readAllowance } from '../../../storage/authority/policies/allowances.ts'
import { listGovernable, type NewTier, type TierRow } from '../../../storage/authority/policies/tiers.ts'
import type { OwnerAllowance } from '../../../wire/documents/allowance.ts'
import type { Owner } from '../../../wire/identifiers.ts'
import { NAME_PATTERN } from '../../../wire/names.ts'
import { refuse } from '../../../wire/refusal.ts'

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
export const EDITED_TIER = z
  .strictObject({
    ...MEMBERS,
    id: z.string(),
    terms: TERMS.extend({ template_id: plainText(400) }).partial(),
  })
  .partial()
type TierContent = z.infer<typeof TIER_CONTENT>
export type TierFields = Omit<z.infer<typeof EDITED_TIER>, 'id'>

/**
 * `before` is the tier that an edit replaces, `allowanceVersion` the version of its allowance that she read.
 */
export interface TierEdit {
  id: string
  content: TierContent
  before?: TierRow
  allowanceVersion?: number | undefined
}

/**
 * Members that the change does not name stay as they are. The exception is that each use is asked about if,
 * and only if, `ask_me` is set.
 */
export function contentAfter(before: TierRow, { terms = {}, ...change }: TierFields): TierContent {
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
const JOINT_APART =
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
