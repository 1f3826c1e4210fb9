/**
 * Owns what a charter is allowed to say when it is saved. Contract: "The organization's authority" (a group
 * is refused that grants beyond the charter) and "What the service does" (the organization may only narrow).
 */
import type { Charter, CharterBreakGlass, CharterRole, CharterRule } from '../../wire/organization/charter.ts'
import { isWebUrl } from '../../wire/json-members.ts'
import { NAME_PATTERN } from '../../wire/names.ts'
import { allowanceCeilingsFault } from './allowance-ceiling.ts'
import { claimFault, coveredBy, patternFault } from './charter-patterns.ts'
import { parseCondition } from '../conditions.ts'
import { viewBoundsFault } from './member-view.ts'

/** 30 days. */
export const CEILING_SECONDS_MAX = 2_592_000
/** The life of one emergency grant. */
export const BREAK_GLASS_SECONDS_MAX = 3_600
const LEVELS = { min_binding: 1, min_provenance: 1, min_accountability: 2 } as const
/** An organization learns only these two words about the standing of an agent. */
const RULE_WORDS = /^(?:assurance\.|request\.|standing\.none$|standing\.introduced$)/

/** Why the charter cannot be saved, as `<path>: <what to do>`; undefined if it can. */
export function charterFault(charter: Charter, at = 'charter'): string | undefined {
  return (
    claimsFault(charter.claims, at) ??
    rolesFault(charter, at) ??
    envelopeFault(charter, at) ??
    conditionsFault(charter, at) ??
    firstOf(charter.rules, (rule, i) => ruleFault(rule, charter.claims, `${at}.rules[${i}]`)) ??
    breakGlassFault(charter.break_glass, charter.claims, `${at}.break_glass`) ??
    identityProviderFault(charter, at) ??
    placed(viewBoundsFault(charter), at)
  )
}

/** Why a group cannot be saved under these claims, in the same form. */
export function roleFault(
  id: string,
  { grants }: CharterRole,
  { claims, at }: { claims: readonly string[]; at: string },
): string | undefined {
  if (!NAME_PATTERN.test(id))
    return `${at}: name a group by 1 to 64 letters, digits, ".", "_" or "-", beginning with a letter or digit`
  return withinFault(grants, claims, `${at}.grants`)
}

function claimsFault(claims: readonly string[], at: string): string | undefined {
  return firstOf(claims, (claim, i) => placed(claimFault(claim), `${at}.claims[${i}]`))
}

function rolesFault({ roles, claims, default_role }: Charter, at: string): string | undefined {
  const fault = firstOf(Object.entries(roles), ([id, role]) =>
    roleFault(id, role, { claims, at: `${at}.roles.${id}` }),
  )
  if (fault !== undefined) return fault
  return default_role === null || Object.hasOwn(roles, default_role)
    ? undefined
    : `${at}.default_role: name one of the roles, or null`
}

function envelopeFault({ envelope, claims }: Charter, at: string): string | undefined {
  const { max_expires_in, always_ask, allowed_scopes, require_clearance, max_allowance = [] } = envelope
  const within = `${at}.envelope`
  if (max_expires_in < 1 || max_expires_in > CEILING_SECONDS_MAX)
    return `${within}.max_expires_in: give 1 to ${CEILING_SECONDS_MAX} seconds`
  const scope = (allowed_scopes ?? []).findIndex(one => !/^[\x21\x23-\x5b\x5d-\x7e]{1,200}$/.test(one))
  if (scope >= 0)
    return `${within}.allowed_scopes[${scope}]: give a scope of visible ASCII, no spaces, \`"\` or \`\\\``
  const unmeetable = Object.keys(require_clearance).find(name => require_clearance[name]!.length === 0)
  if (unmeetable !== undefined)
    return `${within}.require_clearance.${unmeetable}: name at least one accepted value`
  const unbounded = allowanceCeilingsFault(max_allowance)
  if (unbounded !== undefined) return `${within}.max_allowance${unbounded}`
  return withinFault(always_ask, claims, `${within}.always_ask`)
}

function conditionsFault({ conditions }: Charter, at: string): string | undefined {
  return firstOf(Object.entries(LEVELS), ([name, levelMax]) =>
    conditions[name as keyof typeof LEVELS] > levelMax
      ? `${at}.conditions.${name}: give a level from 0 to ${levelMax}`
      : undefined,
  )
}

function ruleFault(
  { when, resources }: CharterRule,
  claims: readonly string[],
  at: string,
): string | undefined {
  if (when.length === 0) return `${at}.when: name at least one condition`
  const fault = firstOf(when, (text, i) => {
    const parsed = parseCondition(text)
    if ('fault' in parsed) return `${at}.when[${i}]: ${parsed.fault.replace(/\.$/, '')}`
    return RULE_WORDS.test(parsed.word.condition)
      ? undefined
      : `${at}.when[${i}]: use assurance.*, request.*, standing.none or standing.introduced: an organization gets nothing else`
  })
  return fault ?? withinFault(resources, claims, `${at}.resources`)
}

function breakGlassFault(
  clause: CharterBreakGlass,
  claims: readonly string[],
  at: string,
): string | undefined {
  if (clause.max_expires_in < 1 || clause.max_expires_in > BREAK_GLASS_SECONDS_MAX)
    return `${at}.max_expires_in: give 1 to ${BREAK_GLASS_SECONDS_MAX} seconds`
  const invoker = clause.invokers.findIndex(one => !isInvoker(one))
  if (invoker >= 0)
    return `${at}.invokers[${invoker}]: give a lower-case https origin without port 443, path or slash`
  return withinFault(clause.resources, claims, `${at}.resources`)
}

function identityProviderFault({ identity_provider }: Charter, at: string): string | undefined {
  if (identity_provider === null || isProviderIssuer(identity_provider.issuer)) return undefined
  return `${at}.identity_provider.issuer: give the issuer as it writes itself, an https URL`
}

/** A pattern that no single claim covers: a union of claims does not count. */
function withinFault(patterns: readonly string[], claims: readonly string[], at: string): string | undefined {
  const within = new Set(coveredBy(claims, patterns))
  return firstOf(patterns, (pattern, i) => {
    const fault = placed(patternFault(pattern), `${at}[${i}]`)
    if (fault !== undefined) return fault
    return within.has(pattern) ? undefined : `${at}[${i}]: name only what one of the claims covers`
  })
}

/** http is only for this machine, which is contacted only in development. */
function isProviderIssuer(text: string): boolean {
  return /^https?:\/\/[^\s?#@]+$/.test(text) && isWebUrl(text)
}

/** Whether a text may be an invoker: an origin in its one spelling, because it is compared as it is. */
export function isInvoker(text: string): boolean {
  return /^https:\/\/[a-z0-9.-]+(?::[1-9]\d{0,4})?$/.test(text) && !text.endsWith(':443')
}

function placed(fault: string | undefined, at: string): string | undefined {
  return fault === undefined ? undefined : `${at}: ${fault}`
}

function firstOf<T>(of: readonly T[], fault: (one: T, at: number) => string | undefined): string | undefined {
  for (const [at, one] of of.entries()) {
    const found = fault(one, at)
    if (found !== undefined) return found
  }
  return undefined
}
