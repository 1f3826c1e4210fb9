/**
 * Whatever is sent to whichever endpoint, the answer is one of the contract's: a status below 500, a word of
 * the table and a sentence. Contract, "Endpoints" and "Errors". The list of endpoints is the one that OpenAPI
 * is made from.
 */
import fc from 'fast-check'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { ENDPOINTS, type Listener } from '../../src/authority/endpoints.ts'
import { signedPost } from '../../src/enforcement/authorities/signed-post.ts'
import { generatePrivateJwk, importPrivateJwk } from '../../src/wire/keys.ts'
import { REFUSALS } from '../../src/wire/refusal.ts'
import { startContractStand, type ContractStand } from '../support/contract-stand.ts'
import { hostileBody, hostileJson, hostileText } from '../support/hostile.ts'

/** Per endpoint; UMA_TEST_RUNS asks for more. */
const RUNS = Number(process.env['UMA_TEST_RUNS'] ?? 40)

type Operation = (typeof ENDPOINTS)[Listener][number] & { listener: Listener }

let stand: ContractStand
let pat: string
const key = importPrivateJwk(generatePrivateJwk())
beforeAll(async () => {
  stand = await startContractStand()
  pat = await stand.authority.pat()
})
afterAll(() => stand?.close())

interface Attempt {
  /** Of each path parameter. */
  names: string[]
  query: [string, string][]
  body: { type: string; bytes: string | Uint8Array } | undefined
  headers: Record<string, string>
}

const FORM = 'application/x-www-form-urlencoded'

/** Requests to an operation as its own description has them, and less and less so. */
function attempts(operation: Operation): fc.Arbitrary<Attempt> {
  const { path, query, reads: headers, body, method } = operation
  const parameters = [...path.matchAll(/\{\w+\}/g)]
  const known = Object.keys(query?.shape ?? {})
  return fc.record({
    names: fc.tuple(...parameters.map(() => hostileText())),
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

function bodies(body: Operation['body']): fc.Arbitrary<Attempt['body']> {
  const json = (value: unknown) => ({ type: 'application/json', bytes: JSON.stringify(value) ?? 'null' })
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
        type: fc.constantFrom('application/json', FORM, 'text/plain', 'multipart/form-data; boundary=x'),
        bytes: fc.uint8Array({ maxLength: 60 }),
      }),
    },
    { weight: 1, arbitrary: fc.constant(undefined) },
  )
}

/** What may stand in a header line at all. */
function visible(text: string): string {
  // oxlint-disable-next-line no-control-regex -- leaving them out is the purpose
  return text.replaceAll(/[^\x20-\x7e\x80-\xff]/g, '').trim()
}

function targetOf({ path }: Operation, { names, query }: Attempt): string {
  let nth = 0
  const filled = path.replaceAll(/\{\w+\}/g, () => encodeURIComponent(names[nth++]!.toWellFormed()))
  const asked = query.map(pair => pair.map(text => encodeURIComponent(text.toWellFormed())).join('='))
  return filled + (asked.length === 0 ? '' : `?${asked.join('&')}`)
}

/** Called with valid credentials, because the request is hostile, not the credential. */
const proves = ({ credential }: Operation, name: string): boolean => credential?.names.includes(name) === true

function send(operation: Operation, attempt: Attempt): Promise<Response> {
  const { authority } = stand
  const target = targetOf(operation, attempt)
  const method = operation.method.toUpperCase()
  const { body } = attempt
  const headers = { ...attempt.headers, ...(body === undefined ? {} : { 'content-type': body.type }) }
  if (proves(operation, 'owner')) {
    const raw = body === undefined ? {} : { raw: body.bytes }
    const call = { method: method as 'GET', target, headers, ...raw }
    const prepared = authority.prepare(authority.alice, call)
    return fetch(prepared.url, { method, headers: prepared.headers, ...bytesOf(body) })
  }
  if (proves(operation, 'pat')) Object.assign(headers, { authorization: `Bearer ${pat}` })
  if (proves(operation, 'signature') && typeof body?.bytes === 'string') {
    const url = authority.issuer + operation.path
    Object.assign(
      headers,
      signedPost({ url, contentType: body.type, body: body.bytes }, key, Date.now).headers,
    )
  }
  const base = operation.listener === 'owner' ? authority.ownerUrl : authority.publicUrl
  return fetch(base + target, { method, headers, ...bytesOf(body) })
}

function bytesOf(body: Attempt['body']): { body?: string | Buffer } {
  if (body === undefined) return {}
  return { body: typeof body.bytes === 'string' ? body.bytes : Buffer.from(body.bytes) }
}

/**
 * A refusal has a known word and a sentence; whatever it is, its type is said and no browser may guess
 * another.
 */
async function expectCoded(response: Response): Promise<void> {
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

describe.each(['public', 'owner'] as const)('the %s listener answers whatever it is sent', listener => {
  const listed = ENDPOINTS[listener].map(one => ({ ...one, listener }))
  test.each(listed.map(operation => [operation.method, operation.path, operation] as const))(
    'at %s %s',
    async (_method, _path, operation) => {
      await fc.assert(
        fc.asyncProperty(attempts(operation), async attempt => expectCoded(await send(operation, attempt))),
        { numRuns: RUNS },
      )
    },
  )

  test('at any other path, with any method', async () => {
    const base = listener === 'owner' ? stand.authority.ownerUrl : stand.authority.publicUrl
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
      { numRuns: RUNS },
    )
  })
})

describe('the documents of the sidecar are served whatever is asked', () => {
  test.each([
    '/.well-known/oauth-protected-resource',
    '/.well-known/oauth-protected-resource/mcp/',
    '/owner-resources/',
    '/jwks',
    '/health',
    '/',
  ])('at %s', async path => {
    await fc.assert(
      fc.asyncProperty(hostileText(), hostileText(), hostileText(), async (name, query, header) => {
        const encoded = encodeURIComponent(name.toWellFormed())
        const url = `http://${stand.sidecar.httpAddress}${path}${encoded}?${encodeURIComponent(query.toWellFormed())}`
        const headers = {
          signature: visible(header),
          'signature-input': visible(query),
          accept: visible(name),
        }
        await expectCoded(await fetch(url, { headers }))
      }),
      { numRuns: RUNS },
    )
  })
})
