/**
 * Owns what an organization tells an enforcement point about an owner. Contract: "The organization's
 * authority" (`/membership/{owner}`: governed here, what is shared, the ceiling): never her group, and no
 * free text.
 */
import { DELEGATIONS, type Delegation } from './charter.ts'
import { asObject, integerMember, member, objectMember, textMember, wordMember } from './members.ts'
import type { JsonObject } from './json.ts'
import { refuse } from './refusal.ts'

/**
 * For a member: since when (ISO 8601), at which authorization server, the number of her view, and the
 * ceiling, with patterns of resource ids; `allowed_scopes` null means any. For another owner: what is claimed
 * of her resources.
 */
export type EnforcedMembership =
  | {
      member: true
      since: string
      as_uri: string
      view: number
      charter_version: number
      claims: string[]
      grants: string[]
      delegation: Delegation
      max_expires_in: number
      allowed_scopes: string[] | null
      always_ask: string[]
      break_glass: EnforcedBreakGlass
    }
  | { member: false; claims: string[] }

export type EnforcedBreakGlass = { enabled: boolean; resources: string[]; max_expires_in: number }

/**
 * Reads an answer; refuses (`invalid_request`) every other form.
 */
export function parseEnforcedMembership(value: unknown): EnforcedMembership {
  const answer = asObject(value, 'a membership')
  const claims = patternsMember(answer, 'claims')
  if (!flag(member(answer, 'member'), 'member')) return { member: false, claims }
  const since = textMember(answer, 'since')
  if (Number.isNaN(Date.parse(since))) refuse('invalid_request', 'Give since as a time.')
  const clause = objectMember(answer, 'break_glass')
  return {
    member: true,
    since,
    as_uri: textMember(answer, 'as_uri'),
    view: integerMember(answer, 'view'),
    charter_version: integerMember(answer, 'charter_version'),
    claims,
    grants: patternsMember(answer, 'grants'),
    delegation: wordMember(answer, 'delegation', DELEGATIONS),
    max_expires_in: integerMember(answer, 'max_expires_in'),
    allowed_scopes:
      member(answer, 'allowed_scopes') === null ? null : patternsMember(answer, 'allowed_scopes'),
    always_ask: patternsMember(answer, 'always_ask'),
    break_glass: {
      enabled: flag(member(clause, 'enabled'), 'enabled'),
      resources: patternsMember(clause, 'resources'),
      max_expires_in: integerMember(clause, 'max_expires_in'),
    },
  }
}

/** The intersection of two charters may need as many patterns as both have together. */
const PATTERNS_MAX = 1_000

function patternsMember(object: JsonObject, name: string): string[] {
  const value = member(object, name)
  const isList = Array.isArray(value) && value.length <= PATTERNS_MAX
  if (!isList || !value.every(one => typeof one === 'string' && one !== ''))
    refuse('invalid_request', `Give ${name} as a list of at most ${PATTERNS_MAX} non-empty texts.`)
  return value as string[]
}

function flag(value: unknown, name: string): boolean {
  return typeof value === 'boolean' ? value : refuse('invalid_request', `Give ${name} as true or false.`)
}
