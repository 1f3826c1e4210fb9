/**
 * Owns what a request may not say about its own method and path. Contract: "Authorized call": exactly what
 * was signed and judged is executed. A server or framework that obeys a header field or a parameter instead
 * would execute another call.
 */
import { unescape } from 'node:querystring'
import { isJsonObject, type Json } from '../../wire/json.ts'
import { refuse } from '../../wire/refusal.ts'
import type { HeaderLines } from './header-lines.ts'
import { foldedName } from '../identity-headers.ts'

const OVERRIDING_HEADERS: ReadonlySet<string> = new Set([
  'x-http-method-override',
  'x-http-method',
  'x-method-override',
  'x-original-url',
  'x-original-uri',
  'x-rewrite-url',
])

/** Refuses `invalid_request` for a header field that names another method or path. */
export function refuseOverridingHeaders(headers: HeaderLines): void {
  const found = [...headers.keys()].find(name => OVERRIDING_HEADERS.has(foldedName(name)))
  if (found !== undefined)
    refuse('invalid_request', `Send the method and the path themselves, not in ${found}.`)
}

/** Refuses `invalid_request` for a parameter by which some frameworks take another method. */
function refuseOverridingNames(names: Iterable<string>): void {
  for (const name of names) {
    if (parameterName(name) === '_method')
      refuse('invalid_request', 'Send the method itself, not as _method.')
  }
}

/** The same for a raw query, also as servers read it that split it at `;`. */
export function refuseOverridingQuery(query: string): void {
  refuseOverridingNames(fieldNames(query))
}

/** The same for the members of a JSON body. */
export function refuseOverridingMembers(value: Json): void {
  if (isJsonObject(value)) refuseOverridingNames(Object.keys(value))
}

/** The same for a body that is a form, or that a framework treats as one because it has no type. */
export function refuseOverridingForm(type: string, bytes: Buffer): void {
  if (/multipart\//i.test(type)) refuseOverridingNames(partNames(bytes.toString('latin1')))
  else if (type === '' || /x-www-form-urlencoded/i.test(type))
    refuseOverridingNames(fieldNames(bytes.toString('latin1')))
}

function fieldNames(text: string): string[] {
  return text.split(/[&;]/).map(piece => unescape(piece.split('=', 1)[0]!.replaceAll('+', ' ')))
}

/**
 * Checks everything that could be read as the name of a part, even inside the parts, because we do not know
 * what a reader takes for a header.
 */
const PART_NAME = /\bname(\*?)[ \t\r\n]*=[ \t\r\n]*(?:"((?:[^"\\]|\\[^])*)"|([^;"\r\n]*))/gi

function partNames(text: string): string[] {
  return [...text.matchAll(PART_NAME)].map(([, extended, quoted, plain]) => {
    const name = quoted?.replaceAll('\\', '') ?? plain!.trim()
    return extended === '' ? name : unescape(name.replace(/^[^']*'[^']*'/, ''))
  })
}

/**
 * A name as some readers see it: they cut it at a NUL or a bracket, and write `_` for characters that a
 * variable name cannot contain.
 */
function parameterName(name: string): string {
  const text = name.split('\0', 1)[0]!.trimStart()
  return text.replace(/^\[/, '_').split('[', 1)[0]!.replaceAll(/[ .]/g, '_').toLowerCase()
}
