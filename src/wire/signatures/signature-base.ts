/**
 * Owns the RFC 9421 signature base of a request: component identifiers, their values, and the text that is
 * signed. Contract: "Authentication"; RFC 9421 §2. Scheme and authority come from configuration, never from
 * the message.
 */
import {
  parseItem,
  parseList,
  serializeDictionary,
  serializeInnerList,
  serializeItem,
  serializeList,
  type InnerList,
  type Item,
} from 'structured-headers'
import { refuse } from '../refusal.ts'
import { parseDictionaryField, serializeMember, trimWhitespace } from './structured-fields.ts'

/** Received field lines by lower-case name, in order of receipt. */
export type HeaderLines = ReadonlyMap<string, readonly string[]>

/**
 * A request as it is signed. `authority` and `scheme` are configured values; `path` is the raw path of the
 * target, before any decoding and without its query; `query` is the raw query without its `?`, undefined when
 * the target has none.
 */
export interface SignedMessage {
  method: string
  scheme: 'http' | 'https'
  authority: string
  path: string
  query?: string | undefined
  headers: HeaderLines
  body?: Uint8Array | undefined
}

/** How a request may differ from the plain reading of RFC 9421 §2. */
export interface BaseOptions {
  /**
   * `authorization` covered while absent counts as the empty string (owner, resource-server and AS-to-RS
   * requests).
   */
  absentAuthorizationIsEmpty?: boolean | undefined
  /** Structured types of further fields, for the `sf` parameter. */
  structuredFields?: ReadonlyMap<string, StructuredType> | undefined
}

export type StructuredType = 'dictionary' | 'list' | 'item'

const NO_PARAMETERS: Item[1] = new Map()

/** The fields whose structured type is known here (RFC 9421 §2.1.1 forbids `sf` on others). */
const STRUCTURED_FIELDS: ReadonlyMap<string, StructuredType> = new Map<string, StructuredType>([
  ['content-digest', 'dictionary'],
  ['repr-digest', 'dictionary'],
  ['want-content-digest', 'dictionary'],
  ['signature', 'dictionary'],
  ['signature-input', 'dictionary'],
  ['signature-agent', 'dictionary'],
  ['signature-key', 'dictionary'],
  ['priority', 'dictionary'],
  ['accept-signature', 'dictionary'],
])

const FIELD_NAME = /^[!#$%&'*+\-.^_`|~0-9a-z]+$/
const TOKEN = /^[!#$%&'*+\-.^_`|~0-9A-Za-z]+$/
const FIELD_CONTENT = /^[\t\x20-\x7e]*$/
const VISIBLE = /^[\x21-\x7e]+$/

/** A component without parameters, as a covered-component list holds it. */
export function plainComponent(name: string): Item {
  return [name, NO_PARAMETERS]
}

/**
 * The signature base (RFC 9421 §2.5): one line per covered component, then `"@signature-params"`, no final
 * newline. Refuses (`invalid_token`, 401) a component that is unknown, repeated, missing from the message, or
 * not plain ASCII.
 */
export function signatureBase(message: SignedMessage, covered: InnerList, options: BaseOptions = {}): string {
  let base = ''
  const identities = new Set<string>()
  for (const item of covered[0]) {
    const name = item[0]
    if (typeof name !== 'string') refuseSignature('Name covered components as quoted strings.')
    const identity = componentIdentity(name, item)
    if (identities.has(identity))
      refuseSignature(`Cover each component once; ${quoted(name)} is listed twice.`)
    identities.add(identity)
    base += `${identifierOf(name, item)}: ${componentValue(message, item, options)}\n`
  }
  return `${base}"@signature-params": ${serializeInnerList(covered)}`
}

/** The value one component contributes to the base (RFC 9421 §2.1, §2.2); refuses like `signatureBase`. */
export function componentValue(message: SignedMessage, component: Item, options: BaseOptions = {}): string {
  const [name, parameters] = component
  if (typeof name !== 'string') refuseSignature('Name covered components as quoted strings.')
  if (!name.startsWith('@')) return fieldValue(message, name, parameters, options)
  if (name === '@query-param') return queryParameterValue(message, parameters)
  if (parameters.size > 0) refuseSignature(`Cover ${quoted(name)} without parameters.`)
  return derivedValue(message, name)
}

/** A refused signature: `invalid_token`, 401 (contract, "Errors"). */
export function refuseSignature(detail: string, cause?: unknown): never {
  refuse('invalid_token', detail, { cause })
}

/** Letters, digits and hyphens, which are written as they are within quotation marks. */
const PLAIN_NAME = /^@?[a-z0-9-]+$/

/** A component as the base names it. */
function identifierOf(name: string, item: Item): string {
  return item[1].size === 0 && PLAIN_NAME.test(name) ? `"${name}"` : serializeItem(item)
}

/** Identifiers that differ only in the order of their parameters name the same component (RFC 9421 §2). */
function componentIdentity(name: string, item: Item): string {
  if (item[1].size === 0) return name
  const sorted = new Map([...item[1]].sort(([a], [b]) => (a < b ? -1 : 1)))
  return `${name};${serializeItem([name, sorted])}`
}

function derivedValue(message: SignedMessage, name: string): string {
  switch (name) {
    case '@method':
      if (!TOKEN.test(message.method)) refuseSignature('Send a request method that is a token.')
      return message.method
    case '@authority':
      return authorityValue(message)
    case '@scheme':
      return message.scheme
    case '@path':
      return pathValue(message)
    case '@query':
      return `?${queryValue(message)}`
    case '@target-uri':
      return `${message.scheme}://${authorityValue(message)}${requestTarget(message)}`
    case '@request-target':
      return requestTarget(message)
    default:
      // Any other name starting with @ is no field, even if a header of that name arrived (RFC 9421 §7.5.1).
      return refuseSignature(`Cover only components of a request; ${quoted(name)} is none.`)
  }
}

/** Lower-case host, the scheme's default port dropped (RFC 9421 §2.2.3). */
function authorityValue(message: SignedMessage): string {
  const port = message.scheme === 'https' ? ':443' : ':80'
  const authority = message.authority.toLowerCase()
  if (!VISIBLE.test(authority)) refuseSignature('Configure an authority of plain ASCII.')
  return authority.endsWith(port) ? authority.slice(0, -port.length) : authority
}

/** The path as received, byte for byte: `new URL()` would resolve dots and re-encode (RFC 9421 §2.2.6). */
function pathValue(message: SignedMessage): string {
  const path = message.path === '' ? '/' : message.path
  if (!path.startsWith('/') || !VISIBLE.test(path) || /[?#]/.test(path)) {
    refuseSignature('Send an absolute request path of plain ASCII, percent-encoding the rest.')
  }
  return path
}

function queryValue(message: SignedMessage): string {
  const query = message.query ?? ''
  if (query !== '' && (!VISIBLE.test(query) || query.includes('#'))) {
    refuseSignature('Send a query of plain ASCII, percent-encoding the rest.')
  }
  return query
}

function requestTarget(message: SignedMessage): string {
  return message.query === undefined ? pathValue(message) : `${pathValue(message)}?${queryValue(message)}`
}

/**
 * One query parameter, name and value re-encoded; a name that occurs twice is ambiguous (RFC 9421 §2.2.8).
 */
function queryParameterValue(message: SignedMessage, parameters: Item[1]): string {
  const target = parameters.get('name')
  if (typeof target !== 'string' || parameters.size !== 1)
    refuseSignature('Cover "@query-param" with a name parameter only.')
  const values: string[] = []
  for (const [name, value] of new URLSearchParams(queryValue(message))) {
    if (encodeForm(name) === target) values.push(encodeForm(value))
  }
  if (values.length !== 1)
    refuseSignature(`Cover a query parameter that occurs once; ${quoted(target)} does not.`)
  return values[0]!
}

/** Percent-encoding with the form-urlencoded set, and %20 for a space. */
function encodeForm(text: string): string {
  return encodeURIComponent(text.toWellFormed()).replace(
    /[!'()~]/g,
    char => `%${char.charCodeAt(0).toString(16).toUpperCase()}`,
  )
}

function fieldValue(message: SignedMessage, name: string, parameters: Item[1], options: BaseOptions): string {
  if (!FIELD_NAME.test(name)) refuseSignature('Name covered fields in lower case.')
  const lines = message.headers.get(name)
  if (!lines || lines.length === 0) {
    const empty =
      name === 'authorization' && parameters.size === 0 && options.absentAuthorizationIsEmpty === true
    return empty ? '' : refuseSignature(`Send the covered field ${quoted(name)}.`)
  }
  if (name === 'authorization' && lines.length > 1) refuseSignature('Send one Authorization field.')
  const values = lines.map(fieldLine)
  return parameters.size === 0 ? joinLines(values) : parameterizedField(name, values, { parameters, options })
}

function joinLines(values: readonly string[]): string {
  return values.length === 1 ? values[0]! : values.join(', ')
}

function fieldLine(line: string): string {
  const value = trimWhitespace(line.includes('\n') ? unfold(line) : line)
  if (!FIELD_CONTENT.test(value))
    refuseSignature('Send covered fields in plain ASCII without control characters.')
  return value
}

/**
 * Obsolete line folding becomes one space (RFC 9421 §2.1); a newline that folds nothing stays, to be refused.
 */
function unfold(line: string): string {
  return line
    .split(/\r?\n(?=[ \t])/)
    .map(trimWhitespace)
    .join(' ')
}

function parameterizedField(
  name: string,
  values: readonly string[],
  context: { parameters: Item[1]; options: BaseOptions },
): string {
  const { parameters, options } = context
  const [[parameter, argument] = ['', undefined], ...more] = parameters
  if (more.length > 0) refuseSignature(`Cover ${quoted(name)} with one parameter at most.`)
  if (parameter === 'key' && typeof argument === 'string') return dictionaryMember(name, values, argument)
  if (parameter === 'bs' && argument === true) return values.map(value => `:${btoa(value)}:`).join(', ')
  const type = options.structuredFields?.get(name) ?? STRUCTURED_FIELDS.get(name)
  if (parameter === 'sf' && argument === true && type) return reserialize(joinLines(values), type)
  return refuseSignature(`Cover ${quoted(name)} without the parameter ${quoted(parameter)}.`)
}

function dictionaryMember(name: string, values: readonly string[], key: string): string {
  const member = parseDictionaryField(values)?.get(key)
  if (!member) refuseSignature(`Send ${quoted(name)} as a dictionary with the covered member ${quoted(key)}.`)
  return serializeMember(member.value)
}

function reserialize(text: string, type: StructuredType): string {
  try {
    if (type === 'item') return serializeItem(parseItem(text))
    if (type === 'list') return serializeList(parseList(text))
  } catch (cause) {
    refuseSignature('Send structured fields that parse (RFC 9651).', cause)
  }
  const members = parseDictionaryField([text])
  if (!members) refuseSignature('Send structured fields that parse (RFC 9651).')
  return serializeDictionary(new Map([...members].map(([key, member]) => [key, member.value])))
}

/** Untrusted text inside our own sentence: printable, bounded. */
function quoted(text: string): string {
  return JSON.stringify(text.slice(0, 64))
}
