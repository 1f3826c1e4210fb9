/** Contract, "Endpoints": each is described in OpenAPI 3.1, made from the schemas that validate. */
import { Validator } from '@seriousme/openapi-schema-validator'
import { describe, expect, it } from 'vitest'
import { ENDPOINTS } from '../../src/authority/endpoints.ts'
import { undescribed } from '../support/described-answers.ts'
import { authorityStand } from '../support/stands.ts'
import { typedProgram } from '../support/typed-client.ts'

const authority = authorityStand()

const fetched = {
  public: () => authority.request('GET', '/openapi.json'),
  owner: () => authority.call(authority.alice, { target: '/openapi.json', sign: false }),
}

const matches = (template: string, target: string) =>
  new RegExp(`^${template.replaceAll('.', '[.]').replaceAll(/\{\w+\}/g, '[^/]+')}$`).test(target)

describe.each(['public', 'owner'] as const)('the %s listener', listener => {
  it('serves a valid OpenAPI 3.1 document of its own endpoints only', async () => {
    const reply = await fetched[listener]()
    expect(reply.status).toBe(200)
    expect(reply.body.openapi).toMatch(/^3\.1\./)
    const { valid, errors } = await new Validator().validate(reply.body as Record<string, unknown>)
    expect(errors ?? []).toEqual([])
    expect(valid).toBe(true)
    const paths = Object.keys(reply.body.paths)
    expect(paths.some(path => path.startsWith('/owner/'))).toBe(listener === 'owner')
  })

  it('names at each path exactly the methods that are served there', async () => {
    const base = listener === 'owner' ? authority.ownerUrl : authority.publicUrl
    const mine = ENDPOINTS[listener]
    for (const path of new Set(mine.map(operation => operation.path))) {
      // `/owner/policies/preview` is also a tier's path: whatever matches it is served there.
      const target = path.replaceAll(/\{\w+\}/g, 'x')
      const methods = mine.filter(operation => matches(operation.path, target)).map(({ method }) => method)
      const expected = [...new Set(methods)].map(method => method.toUpperCase()).sort()
      const response = await fetch(base + target, { method: 'PATCH' })
      expect([path, response.status]).toEqual([path, 405])
      expect([path, response.headers.get('allow')]).toEqual([path, expected.join(', ')])
    }
  })
})

describe('the description', () => {
  it('an answer of another shape is found', () => {
    const request = { method: 'POST', target: '/perm' }
    expect(
      undescribed('public', request, { status: 201, body: { ticket: 'x', family: 'y' } }),
    ).toBeUndefined()
    expect(undescribed('public', request, { status: 201, body: {} })).toMatch(/ticket/)
    expect(undescribed('public', request, { status: 400, body: { error: 'invalid_scope' } })).toBeUndefined()
    expect(undescribed('public', request, { status: 400, body: { error: 'conflict' } })).toMatch(/`refuses`/)
    expect(undescribed('public', request, { status: 409, body: { error: 'conflict' } })).toMatch(/`refuses`/)
    expect(undescribed('public', request, { status: 418, body: 'tea' })).toMatch(/not described/)
  })
})

it('a client generated from both documents asks for a ticket, reads as the owner, and is refused by a word', async () => {
  const { faults, run } = await typedProgram<Calls>(
    { open: (await fetched.public()).body, owner: (await fetched.owner()).body },
    [
      'export async function calls(pat: string) {',
      "  const ticket = await open.POST('/perm', {",
      '    headers: { authorization: `Bearer ${pat}` },',
      "    body: { resource_id: 'alice/portfolio', resource_scopes: ['read'] },",
      '  })',
      "  const tiers = await owner.GET('/owner/policies')",
      '  const named: string[] | undefined = tiers.data?.tiers.map(tier => tier.terms.purpose)',
      "  const revoked = await owner.POST('/owner/connections/revoke', { body: { handle: 'jkt:nobody' } })",
      '  const word: string | undefined = revoked.error?.error',
      '  return { ticket: ticket.data?.ticket, named, word, status: revoked.response.status }',
      '}',
    ],
  )
  expect(faults).toEqual([])
  const { calls, sending } = await run()
  sending.send = forward
  expect(await calls(await authority.pat())).toEqual({
    ticket: expect.any(String),
    named: ['For reading only', 'For statements only', 'For trading only'],
    word: 'not_found',
    status: 404,
  })
})

interface Calls {
  sending: { send: (request: Request) => Promise<Response> }
  calls: (pat: string) => Promise<object>
}

/** To the listener that the client means; hers is signed. */
async function forward(request: Request): Promise<Response> {
  const { hostname, pathname } = new URL(request.url)
  const text = await request.text()
  if (hostname === 'open.example')
    return fetch(authority.publicUrl + pathname, {
      method: request.method,
      headers: request.headers,
      body: text,
    })
  const { url, ...init } = authority.prepare(authority.alice, {
    method: request.method as 'GET' | 'POST',
    target: pathname,
    ...(text === '' ? {} : { raw: text }),
  })
  return fetch(url, init as RequestInit)
}
