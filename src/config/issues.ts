/**
 * Owns the sentences about what is wrong with a configuration file. Contract: "Limits": every fault is listed
 * with its place, so that a file is corrected once and not fault by fault.
 */
import type { z } from 'zod'

/** One sentence for one schema issue: `owners[0].tiers[1].terms.expires_in: …`. */
export function issueSentence(issue: z.core.$ZodIssue): string {
  const at = memberPath(issue.path)
  if (issue.code === 'unrecognized_keys') {
    return `${at === '' ? '' : `${at}: `}unknown member ${issue.keys.map(key => JSON.stringify(key)).join(', ')}.`
  }
  return `${at === '' ? 'the file' : at}: ${issue.message}.`
}

/** The place of a member in a file: `owners[0].name`. */
function memberPath(path: readonly PropertyKey[]): string {
  return path
    .map((step, i) => (typeof step === 'number' ? `[${step}]` : `${i === 0 ? '' : '.'}${String(step)}`))
    .join('')
}

/** The names that stand more than once, each once. */
export function duplicates(names: readonly string[]): string[] {
  return [...new Set(names.filter((name, i) => names.indexOf(name) !== i))]
}
