/**
 * Owns the shape of an organization's charter. Contract: "The organization's authority": what it claims,
 * which groups it has, how far it narrows. rules/organization/charter.ts says what a charter means.
 */
import { PERIODS, type AllowancePeriod } from '../allowance-words.ts'
import { DECIMAL } from '../decimal.ts'
import { s256Json } from '../encoding.ts'
import { isJsonObject, type Json, type JsonObject } from '../json.ts'
import { refuse } from '../refusal.ts'

export const DELEGATIONS = ['none', 'first-party-only', 'any-agent'] as const
/**
 * To which agents a member may give access to what is shared with her (contract, "Policy vocabulary and
 * tiers").
 */
export type Delegation = (typeof DELEGATIONS)[number]

/** A group: what is shared with its members. */
export type CharterRole = { name: string; grants: string[]; delegation: Delegation }

/** At most `max` of a unit may pass by one allowance in each window of a span. */
export type AllowanceCeiling = { unit: string; per: AllowancePeriod; max: string }

/**
 * The ceiling over everything that is claimed. `allowed_scopes`: null means any, empty means none.
 * `max_allowance` likewise: without it allowances are bounded by nothing, and if it is empty, nothing passes
 * by one. It is left out and not null, so that a charter without it has the digest that it always had.
 */
export type CharterEnvelope = {
  max_expires_in: number
  allowed_scopes: string[] | null
  require_prohibited: string[]
  always_ask: string[]
  require_clearance: Record<string, string[]>
  max_allowance?: AllowanceCeiling[]
}

/** The least that is required of an agent and of its agreement. */
export type CharterConditions = {
  min_binding: number
  min_provenance: number
  min_accountability: number
  require_reason: boolean
  require_mission: boolean
}

export type CharterRule = { when: string[]; then: 'ask' | 'refuse'; resources: string[] }

export type CharterBreakGlass = {
  enabled: boolean
  resources: string[]
  max_expires_in: number
  require_reason: boolean
  invokers: string[]
}

/** The party that vouches for members, and its name for each of them. */
export type CharterIdentityProvider = { issuer: string; subjects: Record<string, string> }

/** A charter with all defaults filled in: this form is stored, hashed and answered. */
export type Charter = {
  name: string
  claims: string[]
  roles: Record<string, CharterRole>
  default_role: string | null
  envelope: CharterEnvelope
  conditions: CharterConditions
  rules: CharterRule[]
  break_glass: CharterBreakGlass
  identity_provider: CharterIdentityProvider | null
}

/** How many items each list of a charter may have. */
export const CHARTER_LIST_MAX = 200
/**
 * Bounds of a member's view, which the organization holds to when a charter is saved and a member's authority
 * when it reads: characters of one text, how many sentences, bytes of the whole, and characters of the
 * organization's name.
 */
export const VIEW_TEXT_MAX = 2_000
export const VIEW_SENTENCES_MAX = 1_000
export const VIEW_BYTES_MAX = 262_144
/** The most bytes of what an emergency clause names, as JSON: a member is told all of it in one notice. */
export const EMERGENCY_RESOURCES_BYTES_MAX = 65_536
export const ORGANIZATION_NAME_MAX = 200
const TEXT_MAX = 500
const BREAK_GLASS_SECONDS = 900

/** The digest that identifies a charter: over the JCS of the charter as it is answered. */
export function charterDigest(charter: Charter): string {
  return s256Json(charter)
}

/**
 * A charter as somebody sent it. Refuses (`invalid_request`) a member that is missing, unknown or of another
 * type, naming its path, for example `charter.roles.staff.grants[2]`. It does not judge the meaning:
 * `charterFault` does that.
 */
export function parseCharter(value: unknown, at = 'charter'): Charter {
  const of = members(value, at, ['name', 'claims', 'envelope'], {
    roles: {},
    default_role: null,
    conditions: {},
    rules: [],
    break_glass: {},
    identity_provider: null,
  })
  return {
    name: text(of('name'), `${at}.name`),
    claims: texts(of('claims'), `${at}.claims`),
    roles: record(of('roles'), `${at}.roles`, parseRole),
    default_role: nullable(of('default_role'), `${at}.default_role`, text),
    envelope: parseEnvelope(of('envelope'), `${at}.envelope`),
    conditions: parseConditions(of('conditions'), `${at}.conditions`),
    rules: list(of('rules'), `${at}.rules`, parseRule),
    break_glass: parseBreakGlass(of('break_glass'), `${at}.break_glass`),
    identity_provider: nullable(of('identity_provider'), `${at}.identity_provider`, parseIdentityProvider),
  }
}

/** A group as somebody sent it; refuses like `parseCharter`. */
export function parseRole(value: unknown, at: string): CharterRole {
  const of = members(value, at, ['name', 'grants', 'delegation'])
  return {
    name: text(of('name'), `${at}.name`),
    grants: texts(of('grants'), `${at}.grants`),
    delegation: word(of('delegation'), `${at}.delegation`, DELEGATIONS),
  }
}

/** Facts by name with the values that are accepted, or attested; refuses like `parseCharter`. */
function parseValuesByName(value: unknown, at: string): Record<string, string[]> {
  return record(value, at, texts)
}

/** One text for each name; refuses like `parseCharter`. */
export function parseTextByName(value: unknown, at: string): Record<string, string> {
  return record(value, at, text)
}

function parseEnvelope(value: unknown, at: string): CharterEnvelope {
  const of = members(value, at, ['max_expires_in'], {
    allowed_scopes: null,
    require_prohibited: [],
    always_ask: [],
    require_clearance: {},
    max_allowance: null,
  })
  const max_allowance = nullable(of('max_allowance'), `${at}.max_allowance`, parseAllowanceCeilings)
  return {
    max_expires_in: whole(of('max_expires_in'), `${at}.max_expires_in`),
    allowed_scopes: nullable(of('allowed_scopes'), `${at}.allowed_scopes`, texts),
    require_prohibited: texts(of('require_prohibited'), `${at}.require_prohibited`),
    always_ask: texts(of('always_ask'), `${at}.always_ask`),
    require_clearance: parseValuesByName(of('require_clearance'), `${at}.require_clearance`),
    ...(max_allowance && { max_allowance }),
  }
}

function parseAllowanceCeilings(value: unknown, at: string): AllowanceCeiling[] {
  return list(value, at, parseAllowanceCeiling)
}

function parseAllowanceCeiling(value: unknown, at: string): AllowanceCeiling {
  const of = members(value, at, ['unit', 'per', 'max'])
  return {
    unit: text(of('unit'), `${at}.unit`),
    per: word(of('per'), `${at}.per`, PERIODS),
    max: decimal(of('max'), `${at}.max`),
  }
}

function parseConditions(value: unknown, at: string): CharterConditions {
  const none = { min_binding: 0, min_provenance: 0, min_accountability: 0 }
  const of = members(value, at, [], { ...none, require_reason: false, require_mission: false })
  return {
    min_binding: whole(of('min_binding'), `${at}.min_binding`),
    min_provenance: whole(of('min_provenance'), `${at}.min_provenance`),
    min_accountability: whole(of('min_accountability'), `${at}.min_accountability`),
    require_reason: flag(of('require_reason'), `${at}.require_reason`),
    require_mission: flag(of('require_mission'), `${at}.require_mission`),
  }
}

function parseRule(value: unknown, at: string): CharterRule {
  const of = members(value, at, ['when', 'then', 'resources'])
  return {
    when: texts(of('when'), `${at}.when`),
    then: word(of('then'), `${at}.then`, ['ask', 'refuse']),
    resources: texts(of('resources'), `${at}.resources`),
  }
}

function parseBreakGlass(value: unknown, at: string): CharterBreakGlass {
  const of = members(value, at, [], {
    enabled: false,
    resources: [],
    max_expires_in: BREAK_GLASS_SECONDS,
    require_reason: true,
    invokers: [],
  })
  return {
    enabled: flag(of('enabled'), `${at}.enabled`),
    resources: texts(of('resources'), `${at}.resources`),
    max_expires_in: whole(of('max_expires_in'), `${at}.max_expires_in`),
    require_reason: flag(of('require_reason'), `${at}.require_reason`),
    invokers: texts(of('invokers'), `${at}.invokers`),
  }
}

function parseIdentityProvider(value: unknown, at: string): CharterIdentityProvider {
  const of = members(value, at, ['issuer'], { subjects: {} })
  return {
    issuer: text(of('issuer'), `${at}.issuer`),
    subjects: parseTextByName(of('subjects'), `${at}.subjects`),
  }
}

function wrong(at: string, correction: string): never {
  refuse('invalid_request', `Correct ${at}: give ${correction}.`)
}

/** Reads members by name: the required ones, and those that have a default. No others are accepted. */
// oxlint-disable-next-line eslint/max-params -- the value, where it stands, and the two kinds of members
function members(
  value: unknown,
  at: string,
  required: readonly string[],
  optional: JsonObject = {},
): (name: string) => Json {
  if (!isJsonObject(value)) wrong(at, 'an object')
  const unknown = Object.keys(value).find(name => !required.includes(name) && !Object.hasOwn(optional, name))
  if (unknown !== undefined) refuse('invalid_request', `Remove the unknown member ${at}.${shown(unknown)}.`)
  const missing = required.find(name => !Object.hasOwn(value, name))
  if (missing !== undefined) refuse('invalid_request', `Send the member ${at}.${missing}.`)
  return name => (Object.hasOwn(value, name) ? value[name]! : optional[name]!)
}

function shown(name: string): string {
  return JSON.stringify(name.length > 64 ? `${name.slice(0, 64)}…` : name)
}

function text(value: unknown, at: string): string {
  const isText =
    typeof value === 'string' && value.length <= TEXT_MAX && /^(?=.*\S)[^\p{Cc}\p{Cs}]+$/u.test(value)
  return isText ? value : wrong(at, `text of at most ${TEXT_MAX} characters, without control characters`)
}

function list<T>(value: unknown, at: string, read: (one: unknown, at: string) => T): T[] {
  if (!Array.isArray(value) || value.length > CHARTER_LIST_MAX)
    wrong(at, `a list of at most ${CHARTER_LIST_MAX}`)
  return value.map((one: unknown, i) => read(one, `${at}[${i}]`))
}

function texts(value: unknown, at: string): string[] {
  const read = list(value, at, text)
  return new Set(read).size === read.length ? read : wrong(at, 'each entry once')
}

function record<T>(value: unknown, at: string, read: (one: unknown, at: string) => T): Record<string, T> {
  if (!isJsonObject(value)) wrong(at, 'an object')
  const entries = Object.entries(value)
  if (entries.length > CHARTER_LIST_MAX * 50) wrong(at, `at most ${CHARTER_LIST_MAX * 50} members`)
  const named = entries.find(([name]) => name === '__proto__' || text(name, `${at}, each name`) !== name)
  if (named !== undefined) wrong(at, 'other names')
  return Object.fromEntries(entries.map(([name, one]) => [name, read(one, `${at}.${name}`)]))
}

function nullable<T>(value: Json, at: string, read: (one: unknown, at: string) => T): T | null {
  return value === null ? null : read(value, at)
}

function whole(value: unknown, at: string): number {
  return typeof value === 'number' && Number.isSafeInteger(value) && value >= 0
    ? value
    : wrong(at, 'a whole number from 0')
}

function decimal(value: unknown, at: string): string {
  return typeof value === 'string' && DECIMAL.test(value)
    ? value
    : wrong(at, 'a decimal number as text, with at most 15 digits and 9 behind a full stop, such as "200"')
}

function flag(value: unknown, at: string): boolean {
  return typeof value === 'boolean' ? value : wrong(at, 'true or false')
}

function word<W extends string>(value: unknown, at: string, words: readonly W[]): W {
  return words.find(one => one === value) ?? wrong(at, words.join(' or '))
}
