/**
 * What an authority takes, and tells, of other software's names for what the contract names: nothing unless
 * its operator lists them (`UMA_AS_ALIASES`), and then each by itself. Contract, "need_info answer (beat 2)",
 * "Agreement (claim_token, beat 3)", "Authorization server metadata members".
 */
import { describe, expect, it } from 'vitest'
import { signJws } from '../../src/wire/signatures/jws.ts'
import { generatePrivateJwk, importPrivateJwk } from '../../src/wire/signatures/keys.ts'
import { ALIAS, ALIAS_AGREEMENT_CLAIM } from '../../src/wire/names.ts'
import type { TestAuthority } from '../support/authority.ts'
import { authorityStand } from '../support/stands.ts'
import { AGREEMENT_FORMAT, testAgent } from '../support/test-agent.ts'

const plain = authorityStand()
const aliased = authorityStand({ environment: { UMA_AS_ALIASES: Object.values(ALIAS).join(',') } })
const CONFIGURATION = '/.well-known/agents-configuration'

/** Beat 3 in a format of the caller's choice. */
async function agreeIn(authority: TestAuthority, claim_token_format: string | undefined, claims = {}) {
  const agent = testAgent(authority)
  const { ticket, template } = await agent.offer()
  return agent.present(ticket, {
    claim_token: agent.claimToken(template, claims),
    ...(claim_token_format === undefined ? {} : { claim_token_format }),
  })
}

const introducedAs = (typ: string, authority: TestAuthority) => {
  const [by, newcomer] = [generatePrivateJwk(), generatePrivateJwk()].map(jwk => importPrivateJwk(jwk))
  const iat = Math.floor(Date.now() / 1000)
  const payload = { sub: newcomer!.thumbprint, aud: authority.issuer, iat, exp: iat + 60, jti: 'i' }
  const introduction = signJws({ typ, kid: false, header: { jwk: by!.jwk }, payload }, by!)
  return testAgent(authority, { key: newcomer! }).ask('portfolio_read', { introduction })
}

describe('Without UMA_AS_ALIASES', () => {
  it('the 400 of a format says which it was given and which it takes, and the answer rotates the ticket', async () => {
    const reply = await agreeIn(plain, ALIAS.agreementFormat)
    expect([reply.status, reply.body.error]).toEqual([400, 'invalid_request'])
    expect(reply.body.error_description).toBe(
      `Send claim_token together with claim_token_format=${AGREEMENT_FORMAT}; the format given was "${ALIAS.agreementFormat}".`,
    )
    expect(reply.body.ticket).toMatch(/~tkt_/)
    expect((await agreeIn(plain, undefined)).body.error_description).toContain('the format given was none')
    const long = (await agreeIn(plain, `\u202e"${'x'.repeat(4_000)}`)).body.error_description as string
    expect(long.length).toBeLessThan(400)
  })

  it('no other name is told or taken', async () => {
    const { body } = await plain.request('GET', CONFIGURATION)
    expect(body.claim_token_formats_supported).toEqual([AGREEMENT_FORMAT])
    expect((await plain.request('GET', ALIAS.configuration)).status).toBe(404)
    const offered = await testAgent(plain).present(await testAgent(plain).ticket())
    expect(offered.body.required_claims).toHaveLength(1)
    const named = await agreeIn(plain, AGREEMENT_FORMAT, { iss: 'aauth:agent:me' })
    expect([named.status, named.body.error]).toEqual([403, 'request_denied'])
    expect((await introducedAs(ALIAS.introductionTyp, plain)).body.error).toBe('request_denied')
  })
})

describe('With every alias on', () => {
  it('the format is told beside the contract’s, under its own claim type, and an agreement in either is taken', async () => {
    const agent = testAgent(aliased)
    const { body } = await agent.present(await agent.ticket())
    const [ours, other] = body.required_claims
    expect(ours.claim_token_format).toEqual([AGREEMENT_FORMAT, ALIAS.agreementFormat])
    expect(other).toEqual({
      ...ours,
      claim_type: ALIAS_AGREEMENT_CLAIM,
      claim_token_format: [ALIAS.agreementFormat],
    })
    expect((await aliased.request('GET', CONFIGURATION)).body.claim_token_formats_supported).toEqual([
      AGREEMENT_FORMAT,
      ALIAS.agreementFormat,
    ])
    for (const format of [AGREEMENT_FORMAT, ALIAS.agreementFormat])
      expect((await agreeIn(aliased, format)).body).toMatchObject({ error: 'request_submitted' })
    const neither = await agreeIn(aliased, 'urn:other')
    expect(neither.status).toBe(400)
    expect(neither.body.error_description).toBe(
      `Send claim_token together with claim_token_format=${AGREEMENT_FORMAT} or ${ALIAS.agreementFormat}; the format given was "urn:other".`,
    )
  })

  it('an agreement whose iss begins with aauth:agent: is taken, and no other beginning', async () => {
    const taken = await agreeIn(aliased, AGREEMENT_FORMAT, { iss: 'aauth:agent:me@example.com' })
    expect(taken.body.error).toBe('request_submitted')
    const refused = await agreeIn(aliased, AGREEMENT_FORMAT, { iss: 'aauth:me@example.com' })
    expect(refused.body).toMatchObject({ error: 'request_denied' })
    expect(refused.body.error_description).toContain('iss:')
  })

  it('an introduction of the other typ is read, and one of a third typ denies the request', async () => {
    // The introducer is nobody she knows, so what is read falls back to first contact.
    for (const typ of [ALIAS.introductionTyp, 'ext-introduction-v1+jws'])
      expect((await introducedAs(typ, aliased)).body).toMatchObject({ error: 'request_submitted' })
    expect((await introducedAs('other-introduction+jws', aliased)).body.error).toBe('request_denied')
  })

  it('the metadata stands at the other address too', async () => {
    const [ours, other] = await Promise.all(
      [CONFIGURATION, ALIAS.configuration].map(path => aliased.request('GET', path)),
    )
    expect(other!.status).toBe(200)
    expect(other!.text).toBe(ours!.text)
  })
})

describe('One alias', () => {
  const one = authorityStand({ environment: { UMA_AS_ALIASES: ALIAS.agentIssuerPrefix } })

  it('brings none of the others', async () => {
    expect((await agreeIn(one, AGREEMENT_FORMAT, { iss: 'aauth:agent:me' })).body.error).toBe(
      'request_submitted',
    )
    expect((await agreeIn(one, ALIAS.agreementFormat)).status).toBe(400)
    expect((await one.request('GET', ALIAS.configuration)).status).toBe(404)
  })
})
