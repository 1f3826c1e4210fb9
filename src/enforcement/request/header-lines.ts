/**
 * Owns how received header fields are read before anything trusts them. Contract: "Authorized call": the
 * credential and its signature travel in header fields, so a field that two readers could take differently is
 * refused.
 */
import { isUtf8 } from 'node:buffer'
import { refuse } from '../../wire/refusal.ts'
import type { HeaderLines } from '../../wire/signatures/signature-base.ts'

export type { HeaderLines }

/** Header fields to write, in order. */
export type HeaderFields = [name: string, value: string][]

const FIELD_NAME = /^[!#$%&'*+\-.^_`|~0-9a-z]+$/
// A line break or NUL in a value would forge a line of a signature base or of an upstream request.
// eslint-disable-next-line no-control-regex
const FORBIDDEN_IN_VALUE = /[\0\r\n]/
const SCHEME_AND_CREDENTIAL = /^[!#$%&'*+\-.^_`|~\w]+[ \t]+\S/
const POP_CREDENTIAL = /^pop(?:[ \t]|$)/i

/**
 * Lines by lower-case name, in order of receipt. Pseudo headers (`:path`) are passed over: the request's own
 * fields say the same. Refuses `invalid_request` for a name that is no token, a value with a line break or
 * NUL, and two credentials.
 */
export function readHeaderLines(lines: Iterable<readonly [name: string, value: string]>): HeaderLines {
  const byName = new Map<string, string[]>()
  for (const [rawName, value] of lines) {
    if (rawName.startsWith(':')) continue
    const name = rawName.toLowerCase()
    if (!FIELD_NAME.test(name)) refuse('invalid_request', 'Send header names that are tokens (RFC 9110).')
    if (FORBIDDEN_IN_VALUE.test(value)) {
      refuse('invalid_request', 'Send header values without line breaks and NUL.')
    }
    const known = byName.get(name)
    if (known) known.push(value)
    else byName.set(name, [value])
  }
  refuseSeveralCredentials(byName.get('authorization'))
  return byName
}

/**
 * The value of a field that may come once; undefined if it is absent. Refuses `invalid_request` for several
 * lines, because one reader would use the first and another the last.
 */
export function singleLine(headers: HeaderLines, name: string): string | undefined {
  const lines = headers.get(name)
  if (lines && lines.length > 1) refuse('invalid_request', `Send the header ${name} once.`)
  return lines?.[0]
}

/**
 * The text of a value's bytes: UTF-8 if they are valid UTF-8, otherwise one character per byte, so that
 * nothing is lost.
 */
export function fieldText(bytes: Buffer): string {
  return bytes.toString(isUtf8(bytes) ? 'utf8' : 'latin1')
}

/** Proxies join lines of one name with a comma, so a second credential may hide in one line. */
function refuseSeveralCredentials(lines: readonly string[] | undefined): void {
  // Nearly every call: one line without a comma is one credential.
  if (!lines || (lines.length === 1 && !lines[0]!.includes(','))) return
  const parts = lines.flatMap(line => line.split(',')).map(part => part.trim())
  const credentials = parts.filter(part => SCHEME_AND_CREDENTIAL.test(part))
  if (lines.length > 1 || credentials.length > 1 || parts.some(part => POP_CREDENTIAL.test(part))) {
    refuse('invalid_request', 'Send one credential in one Authorization header.')
  }
}
