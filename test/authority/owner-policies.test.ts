/**
 * Contract, "Owner API" (`/owner/policies*`), "Policy vocabulary and tiers", "Terms document"; and our dry
 * run.
 */
import { describe, expect, it } from 'vitest'
import type { OwnerCall } from '../support/authority.ts'
import { decide, protectionCall, testAgent } from '../support/test-agent.ts'
import { authorityStand } from '../support/stands.ts'

const authority = authorityStand({ owners: ['alice', 'bea'] })

const call = (given: OwnerCall) => authority.call(authority.alice, given)
const tier = (changes: Record<string, unknown> = {}) => ({
  id: 'closing',
  name: 'Closing',
  resources: ['alice/account'],
  ask_me: true,
  rules: [],
  terms: { purpose: 'Close it', scope: ['close'], expires_in: 60, prohibited: ['delegation'] },
  ...changes,
})
const add = (given: object) => call({ method: 'POST', target: '/owner/policies', json: given })
const edit = (id: string, given: object, headers = {}) =>
  call({ method: 'PUT', target: `/owner/policies/${id}`, json: given, headers })
const remove = (id: string, headers = {}) =>
  call({ method: 'DELETE', target: `/owner/policies/${id}`, headers })
const withoutId = ({ id: _id, ...rest }: ReturnType<typeof tier>) => rest

describe('POST, PUT and DELETE /owner/policies', () => {
  it('adds a tier over a registered, not-yet-governed resource; the ETag is the quoted template_id', async () => {
    const added = await add(tier())
    expect(added.status).toBe(201)
    expect(added.headers.get('etag')).toBe('"alice/closing/v1"')
    expect(added.body).toMatchObject({
      id: 'closing',
      ask_me: true,
      terms: { template_id: 'alice/closing/v1', per_operation: true },
      warnings: [],
    })
    expect((await add(tier())).status).toBe(409)
    expect((await add(tier({ id: 'other' }))).body.error_description).toMatch(/closing|tier/)
  })

  it('any edit makes a new version, and every version stays dereferenceable and immutable', async () => {
    const before = await authority.request('GET', '/terms/alice/closing/v1')
    const edited = await edit('closing', withoutId(tier({ name: 'Closing for good' })))
    expect(edited.headers.get('etag')).toBe('"alice/closing/v2"')
    expect((await authority.request('GET', '/terms/alice/closing/v1')).text).toBe(before.text)
    expect((await authority.request('GET', '/terms/alice/closing/v2')).body.name).toBe('Closing for good')
  })

  it('If-Match names the version she edited: a stale one is 412 and changes nothing', async () => {
    const stale = await edit('closing', withoutId(tier()), { 'if-match': '"alice/closing/v1"' })
    expect([stale.status, stale.body.error]).toEqual([412, 'precondition_failed'])
    expect((await remove('closing', { 'if-match': '"other"' })).status).toBe(412)
    expect((await edit('closing', withoutId(tier()), { 'if-match': '"alice/closing/v2"' })).status).toBe(200)
  })

  it('PUT takes a tier as GET gave it, and it stays what it was but for its version', async () => {
    const { body } = await call({ target: '/owner/policies' })
    const before = body.tiers.find(({ id }: { id: string }) => id === 'closing')
    const put = await edit('closing', before)
    expect(put.status).toBe(200)
    const { warnings: _, ...after } = put.body
    const { template_id, ...terms } = before.terms
    expect(template_id).toBe('alice/closing/v3')
    expect(after).toEqual({ ...before, terms: { template_id: 'alice/closing/v4', ...terms } })
  })

  it('PUT changes the members it names and no other; lists and rules whole', async () => {
    const rules = [{ when: ['standing.revoked_before'], then: 'refuse' }]
    const first = await edit('closing', { rules: [{ ...rules[0], when: 'standing.revoked_before' }] })
    expect(first.body).toMatchObject({ name: 'Closing', ask_me: true, rules, terms: tier().terms })
    const second = await edit('closing', { name: 'Closing it', terms: { expires_in: 30 } })
    const terms = { ...tier().terms, expires_in: 30, per_operation: true }
    expect(second.body).toMatchObject({ name: 'Closing it', ask_me: true, rules, terms })
    const third = await edit('closing', { ask_me: false })
    expect(third.body).toMatchObject({ ask_me: false, rules, terms: { ...terms, per_operation: false } })
    expect((await edit('closing', withoutId(tier()))).status).toBe(200)
  })

  it('a tier that names no scope has those of its resources', async () => {
    const { scope: _, ...terms } = tier().terms
    expect((await remove('closing')).status).toBe(200)
    expect((await add(tier({ terms }))).body.terms.scope).toEqual(['close'])
  })

  it('a tier over nothing yet may leave scopes out, and has those of the resources that it gets', async () => {
    const { scope: _, ...terms } = tier().terms
    await remove('closing')
    const added = await add(tier({ resources: [], terms }))
    expect([added.status, added.body.terms?.scope]).toEqual([201, []])
    const { warnings: __, ...read } = added.body
    expect((await edit('closing', withoutId(read))).status).toBe(200)
    const governing = await edit('closing', { resources: tier().resources })
    expect([governing.status, governing.body.terms?.scope]).toEqual([200, ['close']])
    const withNone = await edit('closing', { terms: { scope: [] } })
    expect([withNone.status, withNone.body.error_description]).toEqual([
      400,
      expect.stringContaining('scope'),
    ])
  })

  it('governing an irreversible resource without ask_me is answered with a warning sentence', async () => {
    const terms = { ...tier().terms }
    const edited = await edit('closing', withoutId(tier({ ask_me: false, terms })))
    expect(edited.status).toBe(200)
    expect(edited.body.warnings.join(' ')).toMatch(/irreversible/)
  })

  it('editing a tier leaves grants under it alive; deleting it ends them, and its resources are denied', async () => {
    const agent = testAgent(authority)
    const { rpt } = await agent.granted('statement_read')
    const active = async () =>
      (await protectionCall(authority, '/introspect', { token: rpt })).body as {
        active: boolean
        reason?: string
      }
    const { tiers } = (await call({ target: '/owner/policies' })).body as {
      tiers: { id: string; terms: Record<string, unknown> }[]
    }
    const { template_id: _version, ...terms } = tiers.find(entry => entry.id === 'statements')!.terms
    const content = { name: 'S', resources: ['alice/statements'], terms }
    expect((await edit('statements', content)).status).toBe(200)
    expect((await active()).active).toBe(true)
    expect((await remove('statements')).body).toEqual({
      deleted: 'statements',
      ungoverned: ['alice/statements'],
    })
    expect(await active()).toMatchObject({ active: false, reason: 'revoked' })
    const denied = await agent.present(await agent.ticket('statement_read'))
    expect(denied.body.error).toBe('request_denied')
    // Made again it goes on counting, and revives nothing.
    const again = await add({ ...content, id: 'statements' })
    expect(again.body.terms.template_id).toBe('alice/statements/v3')
    expect(again.body.warnings.join(' ')).toMatch(/You had a tier of this id before/)
    expect((await active()).active).toBe(false)
  })

  it.each<[string, Record<string, unknown>, RegExp]>([
    ['an unregistered resource', { resources: ['alice/none'] }, /no such resource/],
    ["another owner's resource", { resources: ['bea/account'] }, /no such resource/],
    [
      'ask_me without per_operation',
      { terms: { ...tier().terms, per_operation: false } },
      /per_operation|ask_me/,
    ],
    [
      'an auto rule with an observed condition',
      { rules: [{ when: ['standing.none'], then: 'auto' }] },
      /standing\.none/,
    ],
    [
      'an auto rule with request.reason_absent',
      { rules: [{ when: ['request.reason_absent'], then: 'auto' }] },
      /reason_absent/,
    ],
    [
      'an auto rule with request.mission_absent',
      { rules: [{ when: ['request.mission_absent'], then: 'auto' }] },
      /mission_absent/,
    ],
    ['an unknown condition', { rules: [{ when: ['standing.rich'], then: 'ask' }] }, /standing\.rich/],
    [
      'a condition without its value',
      { rules: [{ when: ['standing.age_above'], then: 'ask' }] },
      /age_above/,
    ],
    ['an unknown effect', { rules: [{ when: ['standing.none'], then: 'allow' }] }, /then/],
    ['an unknown member', { owner: 'bea' }, /owner/],
    ['no name', { name: undefined }, /name/],
    ['an id that fits no template id', { id: 'a/b' }, /id/],
    ['a NUL in the purpose', { terms: { ...tier().terms, purpose: 'a\0b' } }, /NUL/],
    [
      'no scope over a resource',
      { resources: tier().resources, terms: { ...tier().terms, scope: [] } },
      /scope/,
    ],
    ['an empty scope', { terms: { ...tier().terms, scope: [''] } }, /scope/],
    ['an expiry of zero', { terms: { ...tier().terms, expires_in: 0 } }, /expires_in/],
  ])('%s is 400 and says why', async (_, changes, why) => {
    const reply = await add(tier({ id: 'fresh', resources: [], ...changes }))
    expect([reply.status, reply.body.error]).toEqual([400, 'invalid_request'])
    expect(reply.body.error_description).toMatch(why)
  })

  it('unknown and foreign tiers answer alike', async () => {
    const asBea = (id: string) =>
      authority.call(authority.owners['bea']!, { method: 'DELETE', target: `/owner/policies/${id}` })
    const [foreign, unknown] = [await asBea('closing'), await asBea('nothing')]
    expect(foreign.status).toBe(404)
    expect(foreign.text).toBe(unknown.text)
  })

  it('a second presentation of a signed edit is refused', async () => {
    const prepared = authority.prepare(authority.alice, {
      method: 'PUT',
      target: '/owner/policies/closing',
      json: withoutId(tier()),
    })
    expect((await authority.send(prepared)).status).toBe(200)
    expect((await authority.send(prepared)).status).toBe(401)
  })
})

describe('POST /owner/policies/preview', () => {
  it('says what a changed tier would have answered for each request in the ledger, and changes nothing', async () => {
    const agent = testAgent(authority)
    await agent.granted('portfolio_read')
    expect((await agent.ask('portfolio_read')).status).toBe(200)
    const reading = {
      id: 'reading',
      name: 'Reading',
      resources: ['alice/portfolio'],
      terms: { purpose: 'Read', scope: ['read'], expires_in: 3600 },
    }
    const preview = async (changes: object) =>
      (
        await call({
          method: 'POST',
          target: '/owner/policies/preview',
          json: { tier: { ...reading, ...changes } },
        })
      ).body as { requests: Record<string, unknown>[]; changed: number; next: number | null }
    const before = (await call({ target: '/owner/policies' })).text

    const same = await preview({})
    expect(same.requests.map(({ was, would }) => [was, would])).toEqual([
      ['ask', 'ask'],
      ['grant', 'grant'],
    ])
    expect(same).toMatchObject({ changed: 0, next: null })
    expect(same.requests[1]).toMatchObject({ handle: agent.handle, resource_id: 'alice/portfolio' })

    expect((await preview({ ask_me: true })).requests.map(entry => entry['would'])).toEqual(['ask', 'ask'])
    const strict = await preview({ rules: [{ when: ['request.reason_absent'], then: 'refuse' }] })
    expect(strict.requests.map(entry => entry['would'])).toEqual(['refuse', 'refuse'])
    expect(strict.requests[0]!['because']).toEqual(
      expect.arrayContaining([expect.stringMatching(/request\.reason_absent/)]),
    )
    expect((await preview({ clearance: { employed: ['yes'] } })).changed).toBe(2)
    expect((await call({ target: '/owner/policies' })).text).toBe(before)
  })

  it('a tier that could not be saved is not tried: 400', async () => {
    const reply = await call({
      method: 'POST',
      target: '/owner/policies/preview',
      json: { tier: { id: 'x' } },
    })
    expect([reply.status, reply.body.error]).toEqual([400, 'invalid_request'])
  })

  it('tells nothing of the requests made of another owner', async () => {
    const agent = testAgent(authority)
    await agent.ask('portfolio_read')
    await decide(authority, agent.handle, 'denied')
    const reply = await authority.call(authority.owners['bea']!, {
      method: 'POST',
      target: '/owner/policies/preview',
      json: {
        tier: {
          id: 'reading',
          name: 'R',
          resources: ['bea/portfolio'],
          terms: { purpose: 'p', scope: ['read'], expires_in: 60 },
        },
      },
    })
    expect(reply.body).toEqual({ requests: [], changed: 0, warnings: [], next: null })
  })
})
