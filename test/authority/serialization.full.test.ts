/**
 * A serialization failure (40001) at each statement in turn: some engines answer so at any time, and then
 * the same is asked again. Contract: "What the service does" (atomicity), "Errors": nobody is told of it.
 */
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { startTestAuthority, type Reply, type TestAuthority } from '../support/authority.ts'
import { freshDatabase } from '../support/postgres.ts'
import { refusingLink, type RefusingLink } from '../support/refusing-link.ts'
import { callWithPat, testAgent, type PendingItem } from '../support/test-agent.ts'
import { generatePrivateJwk, importPrivateJwk, publicJwk } from '../../src/wire/signatures/keys.ts'
import type { TermsTemplate } from '../../src/wire/negotiation/terms.ts'
import { readRptClaims } from '../../src/wire/negotiation/tokens.ts'

let link: RefusingLink
let authority: TestAuthority
const closing: (() => Promise<void>)[] = []
beforeAll(async () => {
  const database = await freshDatabase()
  link = await refusingLink(database.url)
  authority = await startTestAuthority({ environment: { DATABASE_URL: link.url } })
  closing.push(
    () => authority.close(),
    () => link.close(),
    () => database.close(),
  )
})
afterAll(async () => {
  for (const close of closing) await close()
})

const own = (method: 'GET' | 'POST' | 'PUT' | 'DELETE', target: string, json?: object): Promise<Reply> =>
  authority.call(authority.alice, { method, target, ...(json && { json }) })
const post = (target: string, json: object) => own('POST', target, json)
const protection = (pat: string, target: string, json: object): Promise<Reply> =>
  callWithPat(authority, pat, target, json)

/** What must be the same whatever was refused on the way. */
const outcomeOf = ({ status, body }: Reply): unknown => {
  const { error, active, consumed, decision } = (body ?? {}) as Record<string, unknown>
  return { status, error, active, consumed, decision }
}

let trades = 0

/** One negotiation from its permission to its end, a request at a time. */
function story(): [string, () => Promise<Reply>][] {
  const agent = testAgent(authority)
  const operation = { tool: 'place_trade', params: { order: ++trades } }
  const origin = `https://operator-${trades}.example`
  let [pat, family, ticket, rpt, offered] = ['', '', '', '', {} as TermsTemplate]
  let policy: { id: string; terms: Record<string, unknown> }[] = []
  const phone = importPrivateJwk(generatePrivateJwk())
  const resource = { resource_id: `${authority.alice.owner}/trades`, resource_scopes: ['trade'] }
  return [
    [
      'a PAT',
      async () => {
        pat = await authority.pat()
        return protection(pat, '/introspect', { token: 'none' })
      },
    ],
    [
      'a permission',
      async () => {
        const reply = await protection(pat, '/perm', resource)
        ticket = reply.body.ticket
        return reply
      },
    ],
    [
      'the terms',
      async () => {
        const reply = await agent.present(ticket)
        ticket = reply.body.ticket
        offered = reply.body.required_claims[0].terms_template
        return reply
      },
    ],
    [
      'an agreement',
      async () => {
        const reply = await agent.agree({ ticket, template: offered }, { operation })
        ticket = reply.body.ticket
        return reply
      },
    ],
    [
      'what waits',
      async () => {
        const reply = await own('GET', '/owner/pending?limit=1000')
        family = (reply.body as PendingItem[]).find(({ handle }) => handle === agent.handle)!.family
        return reply
      },
    ],
    ['a decision', () => post(`/owner/pending/${family}/decision`, { decision: 'approved' })],
    [
      'the grant',
      async () => {
        const reply = await agent.present(ticket)
        rpt = reply.body.access_token
        return reply
      },
    ],
    ['its introspection', () => protection(pat, '/introspect', { token: rpt })],
    ['its consume', () => protection(pat, '/consume', { token: rpt })],
    ['another consume', () => protection(pat, '/consume', { token: rpt })],
    [
      'a report of the call',
      () => {
        const { jti } = readRptClaims(rpt)
        const report = { id: `r${trades}`, family, jti, tool: 'place_trade', summary: 's256:x' }
        return protection(pat, '/audit/access', report)
      },
    ],
    ['a label', () => own('PUT', '/owner/connections/label', { handle: agent.handle, label: 'Trader' })],
    ['the connections', () => own('GET', '/owner/connections?limit=2')],
    [
      'her policy',
      async () => {
        const reply = await own('GET', '/owner/policies')
        policy = reply.body.tiers
        return reply
      },
    ],
    [
      'an edited tier',
      () => {
        const tier = policy.find(({ id }) => id === 'reading')!
        const { template_id: _version, per_operation: _implied, ...terms } = tier.terms
        const json = { ...tier, terms: { ...terms, purpose: `No. ${trades}` } }
        return own('PUT', '/owner/policies/reading', json)
      },
    ],
    ['a device key', () => post('/owner/device-keys', { name: `phone ${trades}`, jwk: publicJwk(phone) })],
    ['its end', () => own('DELETE', `/owner/device-keys/${phone.thumbprint}`)],
    ['the ledger', () => own('GET', '/owner/ledger?first=newest&limit=3')],
    ['a revoke', () => post('/owner/connections/revoke', { handle: agent.handle })],
    ['introspection after it', () => protection(pat, '/introspect', { token: rpt })],
    ['a block', () => post('/owner/operators/block', { origin })],
    ['the end of the block', () => post('/owner/operators/unblock', { origin })],
  ]
}

describe('A serialization failure at any statement', () => {
  it('changes no answer of a negotiation, a call, a revoke', async () => {
    const expected: unknown[] = []
    const statements: number[] = []
    for (const [, step] of story()) {
      link.refuse(0, '40001')
      expected.push(outcomeOf(await step()))
      statements.push(link.count())
    }
    expect(statements.every(count => count > 0)).toBe(true)
    // In the nth story, the nth statement of each request, so that every one has its turn.
    for (let nth = 1; nth <= Math.max(...statements); nth++)
      for (const [place, [name, step]] of story().entries()) {
        link.refuse(nth <= statements[place]! ? nth : 0, '40001')
        const answer = await step().then(outcomeOf, (error: unknown) => error)
        expect(answer, `${name}, without its statement ${nth}: ${link.refused.at(-1)}`).toEqual(
          expected[place],
        )
      }
    expect(link.refused.length).toBeGreaterThan(3 * statements.length)
  }, 180_000)
})
