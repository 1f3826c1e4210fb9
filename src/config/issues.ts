/**
 * Owns the sentences about what is wrong with a configuration file. Contract: "Limits": every fault is listed
 * with its place, so that a file is corrected once and not fault by fault.
 */
import { z } from 'zod'
import { memberPath } from '../wire/json-members.ts'
import { didYouMean } from './nearest.ts'

/**
 * A sentence for each issue of a file that its schema found, with the place and what to do there, as
 * `owners[0].tiers[1].terms.expires_in: …`. `name` is the setting that names the file; faults of the file as
 * a whole are reported under it.
 */
export function issueSentences(
  issues: readonly z.core.$ZodIssue[],
  { schema, name }: { schema: z.ZodType; name: string },
): string[] {
  const members = membersOf(z.toJSONSchema(schema, { io: 'input', unrepresentable: 'any' }))
  return issues.map(issue => issueSentence(issue, { members, name }))
}

function issueSentence(
  issue: z.core.$ZodIssue,
  { members, name }: { members: ReadonlySet<string>; name: string },
): string {
  const at = memberPath(issue.path)
  const place = at === '' ? `the file of ${name}` : at
  if (issue.code === 'unrecognized_keys') {
    const [first = ''] = issue.keys
    const meant = didYouMean(first, members)
    const remedy = meant === '' ? ': remove it, or correct its name.' : meant
    return `${place}: unknown member ${issue.keys.map(key => JSON.stringify(key)).join(', ')}${remedy}`
  }
  if (issue.code === 'invalid_type') {
    const isMissing = issue.message.endsWith('received undefined')
    return isMissing
      ? `${place}: it is missing. Give ${kindOf(issue.expected)}.`
      : `${place}: Give ${kindOf(issue.expected)} (${issue.message}).`
  }
  if (issue.code === 'too_small' && issue.origin === 'array')
    return `${place}: Give at least ${issue.minimum}.`
  return `${place}: ${issue.message.replace(/[.]$/, '')}.`
}

const KINDS: ReadonlyMap<string, string> = new Map([
  ['string', 'a text'],
  ['number', 'a number'],
  ['int', 'a whole number'],
  ['boolean', 'true or false'],
  ['array', 'a list'],
  ['object', 'members, one to a line'],
])

function kindOf(expected: string): string {
  return KINDS.get(expected) ?? `a value of the type ${expected}`
}

/** The names of all members that a file may have, at any depth. */
function membersOf(schema: unknown, found = new Set<string>()): ReadonlySet<string> {
  if (typeof schema !== 'object' || schema === null) return found
  const { properties } = schema as { properties?: object }
  for (const member of Object.keys(properties ?? {})) found.add(member)
  for (const inner of Object.values(schema)) membersOf(inner, found)
  return found
}

/** The names that occur more than once, each listed once. */
export function duplicates(names: readonly string[]): string[] {
  return [...new Set(names.filter((name, i) => names.indexOf(name) !== i))]
}
