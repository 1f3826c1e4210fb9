/**
 * Whatever is sent to whichever endpoint, the answer is one of the contract's: a status below 500, a word of
 * the table and a sentence. Contract, "Endpoints" and "Errors". The list of endpoints is the one that OpenAPI
 * is made from.
 */
import fc from 'fast-check'
import { afterAll, beforeAll, describe, test } from 'vitest'
import { ENDPOINTS, type AuthorityListener } from '../../src/authority/endpoints.ts'
import { signedPost } from '../../src/enforcement/authorities/signed-post.ts'
import { generatePrivateJwk, importPrivateJwk } from '../../src/wire/signatures/keys.ts'
import { startContractStand, type ContractStand } from '../support/contract-stand.ts'
import { hostileText } from '../support/hostile.ts'
import {
  attempts,
  bytesOf,
  expectCoded,
  expectCodedElsewhere,
  HOSTILE_RUNS,
  targetOf,
  visible,
  type Attempt,
} from '../support/hostile-requests.ts'

type Operation = (typeof ENDPOINTS)[AuthorityListener][number] & { listener: AuthorityListener }

let stand: ContractStand
let pat: string
const key = importPrivateJwk(generatePrivateJwk())
beforeAll(async () => {
  stand = await startContractStand()
  pat = await stand.authority.pat()
})
afterAll(() => stand?.close())

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

describe.each(['public', 'owner'] as const)('the %s listener answers whatever it is sent', listener => {
  const listed = ENDPOINTS[listener].map(one => ({ ...one, listener }))
  test.each(listed.map(operation => [operation.method, operation.path, operation] as const))(
    'at %s %s',
    async (_method, _path, operation) => {
      await fc.assert(
        fc.asyncProperty(attempts(operation), async attempt => expectCoded(await send(operation, attempt))),
        { numRuns: HOSTILE_RUNS },
      )
    },
  )

  test('at any other path, with any method', () =>
    expectCodedElsewhere(listener === 'owner' ? stand.authority.ownerUrl : stand.authority.publicUrl))
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
      { numRuns: HOSTILE_RUNS },
    )
  })
})
