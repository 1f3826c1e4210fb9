/**
 * Owns how a request's body and query become a value. Contract: "Endpoints" ("All bodies are JSON unless
 * stated") and RFC 6749 §3.2 for forms: a repeated parameter is refused, an empty one counts as absent.
 */
import { isUtf8 } from 'node:buffer'
import { z } from 'zod'
import { memberPath } from '../../wire/json-members.ts'
import { parseJson, type Json } from '../../wire/json.ts'
import { refuse } from '../../wire/refusal.ts'

/** The JSON document in a body; undefined for an empty body. Refuses `invalid_request` (see `parseJson`). */
export function readJsonBody(raw: Uint8Array): Json | undefined {
  return raw.byteLength === 0 ? undefined : parseJson(raw)
}

/**
 * The parameters of a form body. Refuses `invalid_request` for a repeated parameter or bytes that are no
 * form.
 */
export function readFormBody(raw: Uint8Array): Record<string, string> {
  if (!isUtf8(raw)) refuse('invalid_request', 'Send the form in UTF-8, percent-encoded.')
  return readForm(Buffer.from(raw.buffer, raw.byteOffset, raw.byteLength).toString('utf8'))
}

/**
 * The parameters of an `application/x-www-form-urlencoded` text, without those that are empty (RFC 6749
 * §3.2).
 */
function readForm(text: string): Record<string, string> {
  const parameters = new Map<string, string>()
  for (const pair of text.split('&')) {
    if (pair === '') continue
    const at = pair.indexOf('=')
    const name = decodePart(at < 0 ? pair : pair.slice(0, at))
    if (parameters.has(name)) refuse('invalid_request', `Send the parameter ${quote(name)} once.`)
    parameters.set(name, at < 0 ? '' : decodePart(pair.slice(at + 1)))
  }
  return Object.fromEntries([...parameters].filter(([, value]) => value !== ''))
}

function decodePart(text: string): string {
  try {
    return decodeURIComponent(text.replaceAll('+', ' '))
  } catch (cause) {
    refuse('invalid_request', 'Percent-encode parameters as UTF-8.', { cause })
  }
}

/**
 * The body as the schema describes it. Refuses `invalid_request` naming the member at fault; a schema made
 * with `z.strictObject` refuses unknown members.
 */
export function parseBody<T>(schema: z.ZodType<T>, body: unknown): T {
  if (body === undefined || body === null) refuse('invalid_request', 'Send a body: this endpoint needs one.')
  return parseWith(schema, body)
}

/** The query of a request target as the schema describes it, by the rules of `readForm`. */
export function parseQuery<T>(schema: z.ZodType<T>, target: string): T {
  const at = target.indexOf('?')
  return parseWith(schema, at < 0 ? {} : readForm(target.slice(at + 1)))
}

function parseWith<T>(schema: z.ZodType<T>, value: unknown): T {
  const result = schema.safeParse(value)
  if (result.success) return result.data
  // The fault is reported for the form that was meant, because nothing useful can be said about all forms at
  // once.
  const meant =
    schema instanceof z.ZodUnion ? formMeant(schema.options, value)?.safeParse(value).error : undefined
  refuse('invalid_request', describeIssue(innermost((meant ?? result.error).issues[0]!), value))
}

/**
 * The form that a value was most likely meant to have: that of an array, or of the object with most of its
 * members.
 */
function formMeant(forms: readonly z.core.$ZodType[], value: unknown): z.ZodType | undefined {
  if (Array.isArray(value)) return forms.find(form => form instanceof z.ZodArray)
  if (typeof value !== 'object' || value === null) return undefined
  const members = Object.keys(value)
  const shared = ({ shape }: z.ZodObject) => members.filter(member => Object.hasOwn(shape, member)).length
  return forms
    .filter(form => form instanceof z.ZodObject)
    .toSorted((one, other) => shared(other) - shared(one))[0]
}

/**
 * The fault within a member that may have several forms: in the form that matched furthest; if none matched
 * at all, what each form needs.
 */
function innermost(issue: z.core.$ZodIssue): z.core.$ZodIssue {
  if (issue.code !== 'invalid_union') return issue
  const [furthest, ...others] = issue.errors
    .flatMap(faults => faults.slice(0, 1))
    .toSorted((one, other) => other.path.length - one.path.length)
  if (furthest === undefined) return issue
  const path = [...issue.path, ...furthest.path]
  if (furthest.path.length > 0) return innermost({ ...furthest, path })
  return { ...furthest, path, message: [furthest, ...others].map(({ message }) => message).join(', or ') }
}

/** One sentence saying which member is wrong and what it must be. */
function describeIssue(issue: z.core.$ZodIssue, value: unknown): string {
  const member = issue.path.length === 0 ? 'the body' : `the member ${quote(memberPath(issue.path))}`
  if (issue.code === 'unrecognized_keys') {
    const inside = issue.path.length === 0 ? '' : ` of ${quote(memberPath(issue.path))}`
    return `Remove the unknown member ${quote(issue.keys[0] ?? '')}${inside}.`
  }
  if (issue.path.length > 0 && valueAt(value, issue.path) === undefined) return `Send ${member}.`
  return `Correct ${member}: ${issue.message.replace(/\.$/, '')}.`
}

function valueAt(value: unknown, path: readonly PropertyKey[]): unknown {
  return path.reduce<unknown>(
    (at, step) =>
      typeof at === 'object' && at !== null && Object.hasOwn(at, step)
        ? at[step as keyof typeof at]
        : undefined,
    value,
  )
}

/** Names come from strangers: they are shown as JSON text, cut short. */
function quote(name: string): string {
  return JSON.stringify(name.length > 64 ? `${name.slice(0, 64)}…` : name)
}
