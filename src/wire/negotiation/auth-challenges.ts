/**
 * Owns the WWW-Authenticate grammar: several challenges in a line, each a scheme with a token68 or with
 * parameters. Contract: "Challenge (beat 1)"; RFC 9110 §11.2, §11.6.1. It is strict, because a parser that
 * guesses can be made to see another challenge than the next parser.
 */
import { refuse } from '../refusal.ts'

/** One challenge. Scheme and parameter names are lower-cased; parameter values are unquoted. */
export interface AuthChallenge {
  readonly scheme: string
  readonly token68: string | undefined
  readonly parameters: ReadonlyMap<string, string>
}

const HEADER_LENGTH_MAX = 16 * 1024

const TOKEN = /[A-Za-z0-9!#$%&'*+\-.^_`|~]+/y
const TOKEN68 = /[A-Za-z0-9\-._~+/]+=*(?=[ \t]*(?:,|$))/y
const QUOTED = /"((?:[\t \x21\x23-\x5b\x5d-\x7e]|\\[\t \x21-\x7e])*)"/y
const EQUALS = /[ \t]*=[ \t]*/y
const BLANKS = /[ \t]*/y
const SPACES = / +/y
const SEPARATORS = /(?:[ \t]*,)*[ \t]*/y

/**
 * All challenges of the header's field lines, in order. Refuses (`invalid_request`) a line that does not
 * follow the grammar, a parameter named twice in one challenge, and more than 16 KiB.
 */
export function parseAuthChallenges(fieldLines: readonly string[]): AuthChallenge[] {
  if (fieldLines.reduce((sum, line) => sum + line.length, 0) > HEADER_LENGTH_MAX) malformed()
  return fieldLines.flatMap(parseLine)
}

/**
 * One challenge with parameters, each value as a quoted-string. Refuses (`temporarily_unavailable`, since
 * nothing the caller sent is at fault) a value with characters outside printable ASCII.
 */
export function formatAuthChallenge(scheme: string, parameters: Readonly<Record<string, string>>): string {
  const formatted = Object.entries(parameters).map(([name, value]) => `${name}=${quote(name, value)}`)
  return `${scheme} ${formatted.join(', ')}`
}

/** A place in a line. Each `take` moves past the match and returns it, or returns undefined and stays. */
class Cursor {
  readonly #line: string
  #at = 0

  constructor(line: string) {
    this.#line = line
  }

  get atEnd(): boolean {
    return this.#at === this.#line.length
  }

  /** Whether the character just taken was a blank. */
  get followsBlank(): boolean {
    return this.#line[this.#at - 1] === ' '
  }

  take(pattern: RegExp): RegExpExecArray | undefined {
    pattern.lastIndex = this.#at
    const match = pattern.exec(this.#line)
    if (match) this.#at += match[0].length
    return match ?? undefined
  }

  /** Takes a comma with the blanks and empty elements around it; false at the end of the line. */
  nextElement(): boolean {
    this.take(BLANKS)
    if (this.atEnd) return false
    const separators = this.take(SEPARATORS)
    if (!separators?.[0].includes(',')) malformed()
    return !this.atEnd
  }

  /** A parameter, or undefined (and nothing is taken) if the next element opens another challenge. */
  takeParameter(): { name: string; value: string } | undefined {
    const start = this.#at
    const name = this.take(TOKEN)?.[0]
    if (name === undefined) malformed()
    if (!this.take(EQUALS)) {
      this.#at = start
      return undefined
    }
    const quoted = this.take(QUOTED)
    const value = quoted ? quoted[1]!.replace(/\\(.)/g, '$1') : this.take(TOKEN)?.[0]
    return value === undefined ? malformed() : { name: name.toLowerCase(), value }
  }
}

function parseLine(line: string): AuthChallenge[] {
  const cursor = new Cursor(line)
  const challenges: AuthChallenge[] = []
  cursor.take(SEPARATORS)
  while (!cursor.atEnd) challenges.push(parseOne(cursor))
  return challenges
}

/** Reads one challenge and the comma after it. */
function parseOne(cursor: Cursor): AuthChallenge {
  const scheme = cursor.take(TOKEN)?.[0].toLowerCase()
  if (scheme === undefined) malformed()
  const token68 = cursor.take(SPACES) ? cursor.take(TOKEN68)?.[0] : undefined
  const bare = token68 !== undefined || !cursor.followsBlank
  if (bare) {
    cursor.nextElement()
    return { scheme, token68, parameters: new Map() }
  }
  return { scheme, token68: undefined, parameters: readParameters(cursor) }
}

/**
 * The parameters up to the next challenge, which only a comma may separate from this one; there may be none.
 */
function readParameters(cursor: Cursor): Map<string, string> {
  const parameters = new Map<string, string>()
  let separated = cursor.take(SEPARATORS)?.[0].includes(',') === true
  while (!cursor.atEnd) {
    const parameter = cursor.takeParameter()
    if (!parameter) return separated ? parameters : malformed()
    if (parameters.has(parameter.name)) malformed()
    parameters.set(parameter.name, parameter.value)
    separated = cursor.nextElement()
  }
  return parameters
}

function quote(name: string, value: string): string {
  if (!/^[\x20-\x7e]*$/.test(value)) {
    refuse('temporarily_unavailable', `The challenge cannot be written: its ${name} is not printable ASCII.`)
  }
  return `"${value.replace(/["\\]/g, '\\$&')}"`
}

function malformed(): never {
  return refuse('invalid_request', 'Send WWW-Authenticate as RFC 9110 writes it, each parameter once.')
}
