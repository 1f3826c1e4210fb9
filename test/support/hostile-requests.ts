/**
 * Owns hostile requests to an endpoint, made from its own description, for tests; and what every answer to
 * them must be.
 */
import fc from 'fast-check'
import { expect } from 'vitest'
import type { Described } from '../../src/http/servers/endpoint.ts'
import { REFUSALS } from '../../src/wire/refusal.ts'
import { hostileBody, hostileJson, hostileText } from './hostile.ts'
import { inputsOfLayer } from './layer.ts'

/** Per endpoint; UMA_TEST_RUNS asks for more. */
export const HOSTILE_RUNS = Number(process.env['UMA_TEST_RUNS'] ?? inputsOfLayer(40))

export interface Attempt {
  /** Of each path parameter, in the order of the path. */
  names: string[]
  query: [string, string][]
  body: { type: string; bytes: string | Uint8Array } | undefined
  headers: Record<string, string>
}

const FORM = 'application/x-www-form-urlencoded'
const JSON_TYPE = 'application/json'

/** Requests to an operation as its own description has them, and less and less so. */
export function attempts(operation: Described): fc.Arbitrary<Attempt> {
  const { query, reads: headers, body, method } = operation
  const known = Object.keys(query?.shape ?? {})
  return fc.record({
    names: fc.tuple(...parametersOf(operation).map(() => hostileText())),
    query: fc.array(fc.tuple(fc.oneof(fc.constantFrom('x', ...known), hostileText()), hostileText()), {
      maxLength: 2,
    }),
    body: method === 'get' || method === 'delete' ? fc.constant(undefined) : bodies(body),
    headers: fc.dictionary(
      fc.constantFrom('accept', ...Object.keys(headers ?? {})),
      hostileText().map(visible),
    ),
  })
}

/** The names of the parameters of its path. */
function parametersOf({ path }: Described): string[] {
  return [...path.matchAll(/\{(\w+)\}/g)].map(([, name]) => name!)
}

function bodies(body: Described['body']): fc.Arbitrary<Attempt['body']> {
  const json = (value: unknown) => ({ type: JSON_TYPE, bytes: JSON.stringify(value) ?? 'null' })
  const fitting = body === undefined ? hostileJson() : hostileBody(body.schema)
  const form = fitting.map(value => ({
    type: FORM,
    bytes: new URLSearchParams(
      Object.entries(value ?? {}).map(([name, member]): [string, string] => [
        name.toWellFormed(),
        (typeof member === 'string' ? member : (JSON.stringify(member) ?? '')).toWellFormed(),
      ]),
    ).toString(),
  }))
  return fc.oneof(
    { weight: 6, arbitrary: fitting.map(json) },
    { weight: body?.form === true ? 4 : 1, arbitrary: form },
    { weight: 1, arbitrary: hostileJson().map(json) },
    {
      weight: 1,
      arbitrary: fc.record({
        type: fc.constantFrom(JSON_TYPE, FORM, 'text/plain', 'multipart/form-data; boundary=x'),
        bytes: fc.uint8Array({ maxLength: 60 }),
      }),
    },
    { weight: 1, arbitrary: fc.constant(undefined) },
  )
}

/** Values that mean something to the server, by the name of a parameter, member or header. */
export type Known = Readonly<Record<string, unknown>>

/** The attempt with such a value wherever it has a place for one, so that the rest of it is read at all. */
export function knowing(operation: Described, attempt: Attempt, known: Known): Attempt {
  const textOf = (name: string, otherwise: string): string => {
    const value = known[name]
    return typeof value === 'string' || typeof value === 'number' ? String(value) : otherwise
  }
  const read = Object.keys(operation.reads ?? {}).filter(name => name in known)
  return {
    names: parametersOf(operation).map((name, at) => textOf(name, attempt.names[at]!)),
    query: attempt.query.map(([name, value]) => [name, textOf(name, value)]),
    body: attempt.body && knowingBody(attempt.body, known),
    headers: { ...attempt.headers, ...Object.fromEntries(read.map(name => [name, textOf(name, '')])) },
  }
}

function knowingBody(body: NonNullable<Attempt['body']>, known: Known): NonNullable<Attempt['body']> {
  const { type, bytes } = body
  if (typeof bytes !== 'string') return body
  if (type === FORM) {
    const pairs = [...new URLSearchParams(bytes)].map(([name, value]) => [
      name,
      typeof known[name] === 'string' ? known[name] : value,
    ])
    return { type, bytes: new URLSearchParams(pairs as [string, string][]).toString() }
  }
  const value: unknown = JSON.parse(bytes)
  if (value === null || typeof value !== 'object' || Array.isArray(value)) return body
  const members = Object.entries(value).map(([name, member]) => [
    name,
    Object.hasOwn(known, name) ? known[name] : (member as unknown),
  ])
  return { type, bytes: JSON.stringify(Object.fromEntries(members)) }
}

/** What may stand in a header line at all. */
export function visible(text: string): string {
  // oxlint-disable-next-line no-control-regex -- leaving them out is the purpose
  return text.replaceAll(/[^\x20-\x7e\x80-\xff]/g, '').trim()
}

/** Path and query of the request in the spelling in which `fetch` sends them, for signatures cover it. */
export function targetOf({ path }: Described, { names, query }: Attempt): string {
  let nth = 0
  const filled = path.replaceAll(/\{\w+\}/g, () => encodeURIComponent(names[nth++]!.toWellFormed()))
  const asked = query.map(pair => pair.map(text => encodeURIComponent(text.toWellFormed())).join('='))
  const { pathname, search } = new URL(`http://any.example${filled}?${asked.join('&')}`)
  return pathname + search
}

/** The body as `fetch` takes it. */
export function bytesOf(body: Attempt['body']): { body?: string | Buffer } {
  if (body === undefined) return {}
  return { body: typeof body.bytes === 'string' ? body.bytes : Buffer.from(body.bytes) }
}

/**
 * A refusal has a known word and a sentence; whatever it is, its type is said and no browser may guess
 * another.
 */
export async function expectCoded(response: Response): Promise<void> {
  expect(response.status).toBeLessThan(500)
  const type = response.headers.get('content-type') ?? ''
  if (type.startsWith('text/event-stream')) return response.body?.cancel()
  expect(response.headers.get('x-content-type-options')).toBe('nosniff')
  const text = await response.text()
  if (response.status < 400) return
  expect(type).toMatch(/^application\/json/)
  const body = JSON.parse(text) as { error: string; error_description?: string }
  expect(Object.keys(REFUSALS)).toContain(body.error)
  if (body.error !== 'need_info' && body.error !== 'request_submitted')
    expect(body.error_description).toMatch(/\S/)
}

/** Every other path of the listener at `base`, with any method, is refused in the same way. */
export async function expectCodedElsewhere(base: string): Promise<void> {
  await fc.assert(
    fc.asyncProperty(
      hostileText(),
      fc.constantFrom('GET', 'POST', 'PUT', 'DELETE', 'PATCH', 'OPTIONS'),
      async (path, method) => {
        const target = `/${encodeURIComponent(path.toWellFormed())}`
        // An empty name, `.` and `..` all mean `/`, where the owner's listener serves her page.
        fc.pre(new URL(target, base).pathname !== '/')
        const response = await fetch(base + target, { method })
        expect(response.status).toBeGreaterThanOrEqual(400)
        await expectCoded(response)
      },
    ),
    { numRuns: HOSTILE_RUNS },
  )
}
