/**
 * Owns a tier while it is edited: what she wrote, how that differs from what is stored, and how both are
 * merged if another device stored something meanwhile. Contract: "Owner API" (`/owner/policies*`).
 */
import { ruleText, secondsText } from '../../rules/words/rule-words.ts'
import { canonicalize, type Json } from '../../wire/json.ts'
import type { Tier } from '../../wire/owner/owner-api.ts'
import { WORDS } from '../words.ts'

const W = WORDS.rules

/** A tier without its version, which the authority counts. */
export interface Draft {
  name: string
  purpose: string
  resources: string[]
  scope: string[]
  expires_in: number
  ask_me: boolean
  prohibited: string[]
  clearance: Record<string, string[]>
  rules: Tier['rules']
}

export const MEMBERS = [
  'name',
  'purpose',
  'resources',
  'scope',
  'expires_in',
  'ask_me',
  'prohibited',
  'clearance',
  'rules',
] as const satisfies (keyof Draft)[]
export type DraftMember = (typeof MEMBERS)[number]

/** A new tier, which does not let an agent do anything yet. */
export const NEW_DRAFT: Draft = {
  name: '',
  purpose: '',
  resources: [],
  scope: [],
  expires_in: 3_600,
  ask_me: true,
  prohibited: [],
  clearance: {},
  rules: [],
}

export function draftOf({ name, resources, ask_me, rules, clearance, terms }: Tier): Draft {
  const { purpose, scope, expires_in, prohibited } = terms
  return {
    name,
    purpose,
    resources,
    scope,
    expires_in,
    ask_me,
    prohibited,
    clearance: clearance ?? {},
    rules,
  }
}

/** The tier in the form that the owner API accepts. */
export function bodyOf({ purpose, scope, expires_in, prohibited, ...rest }: Draft): object {
  return { ...rest, terms: { purpose, scope, expires_in, prohibited } }
}

/** One member that differs, in lines of text: removed and added ones. */
export interface MemberDifference {
  member: DraftMember
  removals: string[]
  additions: string[]
}

/** The changes from one to the other. The order of a list does not matter. */
export function differences(from: Draft, to: Draft): MemberDifference[] {
  return MEMBERS.flatMap(member => {
    const [before, after] = [linesOf(from, member), linesOf(to, member)]
    const removals = before.filter(line => !after.includes(line))
    const additions = after.filter(line => !before.includes(line))
    return removals.length === 0 && additions.length === 0 ? [] : [{ member, removals, additions }]
  })
}

/** A member in lines of text. */
export function linesOf(draft: Draft, member: DraftMember): string[] {
  switch (member) {
    case 'name':
    case 'purpose':
      return [draft[member]]
    case 'resources':
    case 'scope':
    case 'prohibited':
      return draft[member]
    case 'expires_in':
      return [secondsText(draft.expires_in)]
    case 'ask_me':
      return [draft.ask_me ? W.asksEach : W.asksSome]
    case 'clearance':
      return Object.entries(draft.clearance).map(([claim, values]) => `${claim}: ${values.join(W.or)}`)
    case 'rules':
      return draft.rules.map(ruleText)
  }
}

export function isSame(one: unknown, other: unknown): boolean {
  return canonicalize(one as Json) === canonicalize(other as Json)
}

/**
 * Her edit on top of what another device stored: members that she did not touch are as stored there, lists
 * keep what either added and lose what either removed, and if both wrote a single value, hers stays.
 */
export function rebased({ base, mine, theirs }: { base: Draft; mine: Draft; theirs: Draft }): Draft {
  const merged: Draft = { ...theirs }
  for (const member of ['name', 'purpose', 'expires_in', 'ask_me'] as const)
    if (mine[member] !== base[member]) Object.assign(merged, { [member]: mine[member] })
  for (const member of ['resources', 'scope', 'prohibited'] as const)
    merged[member] = mergedList(base[member], mine[member], theirs[member])
  merged.rules = mergedList(base.rules, mine.rules, theirs.rules)
  const claims = new Set([...Object.keys(mine.clearance), ...Object.keys(theirs.clearance)])
  merged.clearance = {}
  for (const claim of claims) {
    const isMine = !isSame(mine.clearance[claim] ?? null, base.clearance[claim] ?? null)
    const values = (isMine ? mine : theirs).clearance[claim]
    if (values !== undefined) merged.clearance[claim] = values
  }
  return merged
}

function mergedList<T>(base: readonly T[], mine: readonly T[], theirs: readonly T[]): T[] {
  const has = (list: readonly T[], one: T): boolean => list.some(other => isSame(one, other))
  const common = theirs.filter(one => has(mine, one) || !has(base, one))
  return [...common, ...mine.filter(one => !has(base, one) && !has(common, one))]
}
