/**
 * Owns how a process reads settings from its environment: declared once, validated as a whole, every fault
 * listed. Contract: "What the service does" and "Limits": the names written `UMA_…` there, and every number
 * that the contract leaves open.
 */
import { z } from 'zod'
import { didYouMean } from './nearest.ts'
import { isServiceLink } from './service-links.ts'
import { parseListenAddress, type ListenAddress } from '../http/servers/listen-address.ts'
import { isTrustedHost } from '../http/outbound/trusted-networks.ts'
import { isLoopbackHost } from '../wire/loopback.ts'
import { NAME_PATTERN } from '../wire/names.ts'
import { isAgentIssuer, issuerInHandles } from '../wire/agents/agent-identity.ts'

/** How the text of a variable becomes a value; `type` is the word the reference page uses. */
export interface Kind<T> {
  type: string
  schema: z.ZodType<T, string>
  /**
   * JSON Schema of the value for YAML (the chart's values): numbers as numbers, lists as lists.
   */
  json: SettingSchema
}

export type SettingSchema = Record<string, unknown>

/** One environment variable. */
export interface Setting<T> {
  variable: string
  kind: Kind<T>
  /** Used when the variable is unset or empty; undefined if there is none. */
  fallback: string | undefined
  required: boolean
  description: string
  unit: string | undefined
}

interface Notes {
  description: string
  unit?: string
}

type SettingRecord = Record<string, Setting<unknown>>

/** The values of a group of settings, by our own names for them. */
export type Values<G extends SettingRecord> = { [K in keyof G]: G[K] extends Setting<infer T> ? T : never }

/** The settings of one process. */
export interface SettingGroup<G extends SettingRecord> {
  /** The name of the process on the reference page. */
  title: string
  settings: G
  /** Faults that only several values together show; checked only if each value is well-formed. */
  check: (values: Values<G>) => string[]
}

/** Everything wrong with a configuration, one sentence each. */
export class ConfigFault extends Error {
  readonly faults: string[]

  constructor(faults: string[]) {
    super(
      `The configuration has ${faults.length === 1 ? 'a fault' : `${faults.length} faults`}:\n${faults.map(fault => `  - ${fault}`).join('\n')}`,
    )
    this.name = 'ConfigFault'
    this.faults = faults
  }
}

export type Environment = Record<string, string | undefined>

/** A setting that must be given. */
export function required<T>(variable: string, kind: Kind<T>, notes: Notes): Setting<T> {
  return { variable, kind, fallback: undefined, required: true, unit: undefined, ...notes }
}

/** A setting that may be left out; it is then undefined. */
export function optional<T>(variable: string, kind: Kind<T>, notes: Notes): Setting<T | undefined> {
  return { variable, kind, fallback: undefined, required: false, unit: undefined, ...notes }
}

/** A setting with a default, written as in the environment. */
export function defaulted<T>(variable: string, kind: Kind<T>, fallback: string, notes: Notes): Setting<T> {
  return { variable, kind, fallback, required: false, unit: undefined, ...notes }
}

/** Declares the settings of one process. */
export function defineSettings<G extends SettingRecord>(group: {
  title: string
  settings: G
  check?: (values: Values<G>) => string[]
}): SettingGroup<G> {
  return { check: () => [], ...group }
}

/**
 * Reads a group from an environment. Throws `ConfigFault` listing every missing or malformed value, and every
 * variable that starts with `UMA_` but is neither in `known` nor a service link: because a misspelt limit
 * must not silently become the default.
 */
export function readSettings<G extends SettingRecord>(
  group: SettingGroup<G>,
  environment: Environment,
  known: ReadonlySet<string>,
): Values<G> {
  const { values, faults } = parseSettings(group, environment, known)
  if (faults.length === 0) faults.push(...group.check(values))
  if (faults.length > 0) throw new ConfigFault(faults)
  return values
}

/**
 * All faults of a configuration that can be found: in the settings, in their combination, and in the files
 * that `load` reads. If a setting is wrong, settings that depend on it are judged as if it were left out, and
 * no fault is reported twice.
 */
export function settingFaults<G extends SettingRecord>(
  group: SettingGroup<G>,
  { environment, known }: { environment: Environment; known: ReadonlySet<string> },
  load: (values: Values<G>) => unknown,
): string[] {
  const { values, faults, faulty } = parseSettings(group, environment, known)
  const isNews = (fault: string): boolean => !faulty.some(variable => fault.includes(variable))
  const further = group.check(values)
  try {
    load(values)
  } catch (error) {
    if (!(error instanceof ConfigFault)) throw error
    further.push(...error.faults)
  }
  return [...faults, ...further.filter(isNews)]
}

/** The value that takes the place of a wrong required setting: the first valid one of these. */
const STAND_INS = ['https://stand-in.invalid', 'stand-in']

function parseSettings<G extends SettingRecord>(
  group: SettingGroup<G>,
  environment: Environment,
  known: ReadonlySet<string>,
): { values: Values<G>; faults: string[]; faulty: string[] } {
  const faults = unknownVariables(environment, known)
  const values: Record<string, unknown> = {}
  const faulty: string[] = []
  for (const [name, setting] of Object.entries(group.settings)) {
    const { variable, kind, fallback } = setting
    const text = environment[variable] || fallback
    if (text === undefined && !setting.required) continue
    const result = kind.schema.safeParse(text ?? '')
    if (text !== undefined && result.success) {
      values[name] = result.data
      continue
    }
    faults.push(
      text === undefined
        ? `Set ${variable}: ${setting.description}`
        : `${variable}: ${result.error!.issues[0]!.message}`,
    )
    faulty.push(variable)
    const instead = fallback === undefined && !setting.required ? [] : [fallback ?? '', ...STAND_INS]
    values[name] = instead.map(one => kind.schema.safeParse(one)).find(one => one.success)?.data
  }
  return { values: values as Values<G>, faults, faulty }
}

function unknownVariables(environment: Environment, known: ReadonlySet<string>): string[] {
  return Object.keys(environment)
    .filter(name => name.startsWith('UMA_') && !known.has(name) && !isServiceLink(name, environment))
    .sort()
    .map(name => {
      const meant = didYouMean(name, known) || ': remove it or correct its name'
      return `${name} is not a setting of usher${meant} (see docs/configuration.md).`
    })
}

export const text: Kind<string> = { type: 'text', schema: z.string(), json: { type: 'string' } }

export const filePath: Kind<string> = { type: 'path', schema: z.string(), json: { type: 'string' } }

/** An absolute http or https URL without userinfo, query or fragment, kept as it is written. */
export const url: Kind<string> = {
  type: 'URL',
  schema: z.string().refine(isPlainUrl, { error: ({ input }) => `G${plainUrlWords(input).slice(1)}.` }),
  json: { type: 'string', pattern: '^https?://[^/?#@\\s]+(/[^?#\\s]*[^/?#\\s])?$' },
}

export const listenAddress: Kind<ListenAddress> = {
  type: 'address',
  schema: z.string().transform((text, context) => {
    const address = parseListenAddress(text)
    if (address !== undefined) return address
    context.addIssue({ code: 'custom', message: 'Give host:port, [v6]:port or unix:/path.' })
    return z.NEVER
  }),
  json: { type: 'string' },
}

/** What stands between commas, without blanks around it. */
export const commaSeparated = z.string().transform(text => text.split(',').map(part => part.trim()))

/** Issuers, spelled as their servers spell them, separated by commas, each once. */
export const issuers: Kind<string[]> = {
  type: 'list of URLs',
  schema: commaSeparated.refine(
    list => list.every(isPlainUrl) && new Set(list).size === list.length,
    'Give URLs without userinfo, query, fragment or trailing slash, separated by commas, each once.',
  ),
  json: { type: 'array', items: { type: 'string', pattern: '^https?://[^,]+$' }, uniqueItems: true },
}

/** Ranges of addresses, separated by commas; `check` says which of them may be trusted. */
export const networks: Kind<string[]> = listOf('list of networks', {
  isOne: text => /^[\d.:a-f]+\/\d{1,3}$/.test(text),
  sentence: 'Give ranges such as 10.20.0.0/16 or fd12:3456::/32, separated by commas, each once.',
  pattern: String.raw`^[\d.:a-f]+/\d{1,3}$`,
})

/** Hosts, separated by commas. */
export const hosts: Kind<string[]> = listOf('list of hosts', {
  isOne: isTrustedHost,
  sentence:
    'Give host names in lower case, addresses, or "*." and a name for all below it, separated by commas, each once.',
  pattern: String.raw`^[^,\s/]+$`,
})

function listOf(
  type: string,
  { isOne, sentence, pattern }: { isOne: (text: string) => boolean; sentence: string; pattern: string },
): Kind<string[]> {
  return {
    type,
    schema: commaSeparated.refine(list => list.every(isOne) && new Set(list).size === list.length, sentence),
    json: { type: 'array', items: { type: 'string', pattern }, minItems: 1, uniqueItems: true },
  }
}

/** A name that is used in tokens and paths. */
export const name: Kind<string> = {
  type: 'name',
  schema: z
    .string()
    .regex(NAME_PATTERN, 'Give 1 to 64 letters, digits, ".", "_" or "-", beginning with a letter or digit.'),
  json: { type: 'string', pattern: NAME_PATTERN.source },
}

/** `true` or `false`, nothing else. */
export const toggle: Kind<boolean> = {
  type: 'true or false',
  schema: z.enum(['true', 'false'], 'Give true or false.').transform(word => word === 'true'),
  json: { type: 'boolean' },
}

/** A whole number within bounds, in plain digits. */
export function wholeNumber(min: number, max: number): Kind<number> {
  const message = `Give a whole number from ${min} to ${max}.`
  return {
    type: `${min} to ${max}`,
    schema: z
      .string()
      .regex(/^\d{1,15}$/, message)
      .transform(Number)
      .refine(value => value >= min && value <= max, message),
    json: { type: 'integer', minimum: min, maximum: max },
  }
}

const SECONDS_PER = { s: 1, m: 60, h: 3600, d: 86_400 }

/** A duration as `90d`, `12h`, `30m` or `45s`, within bounds given in seconds; the value is in seconds. */
export function duration(minSeconds: number, maxSeconds: number): Kind<number> {
  const message = `Give a duration such as 7d, 12h, 30m or 45s, from ${minSeconds} to ${maxSeconds} seconds.`
  return {
    type: 'duration',
    schema: z
      .string()
      .regex(/^\d{1,9}[smhd]$/, message)
      .transform(text => Number(text.slice(0, -1)) * SECONDS_PER[text.at(-1) as keyof typeof SECONDS_PER])
      .refine(seconds => seconds >= minSeconds && seconds <= maxSeconds, message),
    json: { type: 'string', pattern: String.raw`^\d{1,9}[smhd]$` },
  }
}

/** Issuers of agent tokens, separated by commas; no two may give their agents the same handles. */
export const agentIssuers: Kind<string[]> = {
  type: 'list of URLs',
  schema: commaSeparated
    .refine(
      issuers => issuers.every(isAgentIssuer),
      'Give https URLs in their normal spelling, without userinfo, `@`, query or fragment, separated by commas.',
    )
    .refine(
      issuers => new Set(issuers.map(issuerInHandles)).size === issuers.length,
      'List each issuer once: two that differ in scheme or a trailing slash alone would give their agents the same handles.',
    ),
  json: {
    type: 'array',
    items: { type: 'string', pattern: '^https://[^,]+$' },
    minItems: 1,
    uniqueItems: true,
  },
}

/** One of some words. */
export function choice<const W extends string>(words: readonly [W, ...W[]]): Kind<W> {
  const list = words.map(word => `\`${word}\``).join(', ')
  return {
    type: list,
    schema: z.string().transform((text, context) => {
      const word = words.find(word => word === text)
      if (word !== undefined) return word
      context.addIssue({ code: 'custom', message: `Give one of ${list}.` })
      return z.NEVER
    }),
    json: { enum: words },
  }
}

/** One or more of some words, separated by commas. */
export function choices<const W extends string>(words: readonly [W, ...W[]]): Kind<W[]> {
  const list = words.map(word => `\`${word}\``).join(', ')
  return {
    type: `some of ${list}`,
    schema: z.string().transform((text, context) => {
      const parts = text.split(',').map(word => word.trim())
      if (parts.every(word => (words as readonly string[]).includes(word))) return parts as W[]
      context.addIssue({ code: 'custom', message: `Give one or more of ${list}, separated by commas.` })
      return z.NEVER
    }),
    json: { type: 'array', items: { enum: words }, minItems: 1, uniqueItems: true },
  }
}

/** The name of the algorithm in signatures and published keys of this process. */
export const signingAlg = defaulted('UMA_SIGNING_ALG', choice(['EdDSA', 'Ed25519']), 'EdDSA', {
  description:
    'The name of the one algorithm in signatures and published keys: `EdDSA`, which every JOSE library knows, or the newer `Ed25519` of RFC 9864, which many cannot read. Both are accepted.',
})

export const logLevel = choice(['fatal', 'error', 'warn', 'info', 'debug', 'trace', 'silent'])

/** Whether a text is a URL in the one spelling that is compared byte for byte. */
export function isPlainUrl(text: string): boolean {
  const parsed = URL.parse(text)
  if (parsed === null || !['http:', 'https:'].includes(parsed.protocol)) return false
  return (
    text === (parsed.pathname === '/' ? parsed.origin : parsed.origin + parsed.pathname) &&
    !text.endsWith('/')
  )
}

/** What to give in place of a text that is no plain URL, which is compared byte for byte. */
export function plainUrlWords(text: unknown): string {
  const parsed = URL.parse(String(text))
  const isUrl = parsed !== null && ['http:', 'https:'].includes(parsed.protocol)
  const normal = isUrl ? (parsed.origin + parsed.pathname).replace(/\/+$/, '') : ''
  // Only its spelling is another: a host in capitals or no ASCII, the default port, dots in the path.
  return isUrl && parsed.href.replace(/\/+$/, '') === normal && normal !== String(text).replace(/\/+$/, '')
    ? `give its normal spelling (${normal})`
    : 'give an absolute URL without userinfo, query, fragment or trailing slash'
}

/** A fault for a URL that is neither https nor, in development, http to a literal loopback host. */
export function insecureUrlFault(name: string, url: string, devLoopback: boolean): string[] {
  const { protocol, hostname } = new URL(url)
  if (protocol === 'https:' || (devLoopback && isLoopbackHost(hostname))) return []
  return [
    `${name}: ${url} is not https. Give an https URL. (UMA_DEV_LOOPBACK=true admits http to literal loopback hosts, for development.)`,
  ]
}
