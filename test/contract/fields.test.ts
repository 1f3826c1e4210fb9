/** Contract, "Resources and their fields": each field as the started authority and sidecar really send it. */
import { createServer, type AddressInfo } from 'node:net'
import { afterAll, beforeAll, describe, expect } from 'vitest'
import { decodeBase64url, encodeBase64url, s256, s256Json } from '../../src/wire/encoding.ts'
import { importPrivateJwk, generatePrivateJwk, parseJwks } from '../../src/wire/signatures/keys.ts'
import type { Challenge } from '../../src/wire/negotiation/negotiation.ts'
import { resourceMetadataUrl } from '../../src/wire/resources/resource-metadata.ts'
import { verifyReceipt } from '../../src/wire/negotiation/receipt.ts'
import type { TermsTemplate } from '../../src/wire/negotiation/terms.ts'
import { verifyRpt, type RptClaims } from '../../src/wire/negotiation/tokens.ts'
import type { Reply } from '../support/authority.ts'
import { row } from '../support/contract-row.ts'
import { startContractStand, TOOLS_URL, type ContractStand } from '../support/contract-stand.ts'
import { AGREEMENT_FORMAT, decide, protectionCall, testAgent, type TestAgent } from '../support/test-agent.ts'

const TRADE = { tool: 'place_trade', params: { symbol: 'VTI', qty: 2 } }
const resource = `${TOOLS_URL}/mcp/alice`
const json = (base64url: string) => JSON.parse(decodeBase64url(base64url).toString()) as unknown

/** Beats 1 to 4, once: each field is looked at in what they brought. */
let stand: ContractStand
let agent: TestAgent
let challenge: Challenge
let header: string
let needInfo: Reply
let claim: { claim_type: string; claim_token_format: string[]; friendly_name: string }
let template: TermsTemplate
let claimToken: string
let answer: Reply
let rpt: RptClaims
let trade: RptClaims

beforeAll(async () => {
  stand = await startContractStand()
  const { authority } = stand
  agent = testAgent(authority)
  const decision = await stand.check({})
  challenge = decision.challenge!
  header = decision.answer.denied_response!.headers!.find(one => one.header?.key === 'www-authenticate')!
    .header!.value!
  needInfo = await agent.present(challenge.ticket)
  claim = needInfo.body.required_claims[0]
  template = needInfo.body.required_claims[0].terms_template
  claimToken = agent.claimToken(template)
  const sent = { claim_token: claimToken, claim_token_format: AGREEMENT_FORMAT }
  const held = await agent.present(needInfo.body.ticket, sent)
  await decide(authority, agent.handle, 'approved')
  answer = await agent.present(held.body.ticket)
  const keys = parseJwks((await authority.request('GET', '/jwks')).body)
  rpt = verifyRpt(answer.body.access_token, keys)
  trade = verifyRpt((await agent.granted('place_trade', { operation: TRADE })).rpt, keys)
})
afterAll(() => stand?.close())

describe('Challenge (beat 1)', () => {
  row('challenge-realm', () => expect(challenge.realm).toBe('tools'))
  row('challenge-error', () => expect(header).toContain('error="insufficient_authorization"'))
  row('challenge-as-uri', () => expect(challenge.as_uri).toBe(stand.authority.issuer))
  row('challenge-ticket', () => expect(needInfo.body.error).toBe('need_info'))
  row('challenge-resource-metadata', () =>
    expect(challenge.resource_metadata).toBe(resourceMetadataUrl(resource)),
  )
  row('challenge-scope', () => expect(challenge.scope).toBe('read'))
  row('challenge-remediation', () => {
    const [, encoded] = /authorization_remediation="([^"]+)"/.exec(header)!
    expect(json(encoded!)).toEqual(challenge.authorization_remediation)
  })
  row('remediation-details', () =>
    expect(challenge.authorization_remediation.authorization_details).toEqual([
      {
        type: 'https://u4a.ai/spec/core/1.0#tool-call',
        locations: [resource],
        identifier: 'alice/portfolio_read',
        actions: ['call'],
        datatypes: ['read'],
      },
    ]),
  )
  row('remediation-reference', () => {
    const { authorization_details, authorization_reference } = challenge.authorization_remediation
    expect(authorization_reference).toBe(s256Json(authorization_details))
  })
  row('remediation-authority', () =>
    expect(challenge.authorization_remediation.authorization_server).toBe(stand.authority.issuer),
  )
  row('remediation-ticket', () => expect(challenge.authorization_remediation.ticket).toBe(challenge.ticket))
})

describe('need_info answer (beat 2)', () => {
  row('need-info-claim-type', () =>
    expect(claim.claim_type).toBe('https://u4a.ai/spec/terms/1.0#myterms-agreement'),
  )
  row('need-info-formats', () =>
    expect(claim.claim_token_format).toEqual(['https://u4a.ai/spec/terms/1.0#myterms-agreement-v1+jws']),
  )
  row('need-info-friendly-name', () => expect(claim.friendly_name).toMatch(/\w+ \w+/))
  row('need-info-template', () => expect(Object.keys(template)).toHaveLength(10))
  row('template-id', () => expect(template.template_id).toBe('alice/reading/v1'))
  row('template-terms-uri', async () => {
    const path = new URL(template.terms_uri).pathname
    const { body } = await stand.authority.request('GET', path)
    expect(body).toMatchObject({ template_id: template.template_id, purpose: template.purpose })
  })
  row('template-proffered-by', () => expect(template.proffered_by).toBe(stand.authority.issuer))
  row('template-purpose', () => expect(template.purpose).toBe('For reading only'))
  row('template-scope', () => expect(template.scope).toEqual(['read']))
  row('template-expires-in', () => expect(template.expires_in).toBe(3600))
  row('template-prohibited', () => expect(template.prohibited).toEqual(['training models on it']))
  row('template-resource-id', () => expect(template.resource_id).toBe('alice/portfolio'))
  row('template-family', () => {
    expect(template.family).toMatch(/^fam_/)
    expect(rpt.family).toBe(template.family)
  })
  row('template-nonce', () => expect(decodeBase64url(template.nonce)).toHaveLength(12))
})

describe('Agreement (claim_token, beat 3)', () => {
  /** Signs the terms of a tier with one claim changed. */
  const agreed = async (claims: object, tool: 'statement_read' | 'place_trade' = 'statement_read') =>
    agent.ask(tool, claims as Record<string, unknown>)
  const refused = { status: 403, body: { error: 'request_denied' } }
  const now = () => Math.floor(Date.now() / 1000)

  row('agreement-iss', async () => {
    expect(await agreed({ iss: 'agent:anything' })).toMatchObject({ status: 200 })
    expect(await agreed({ iss: 'anything' })).toMatchObject(refused)
    expect(await agreed({ iss: undefined })).toMatchObject(refused)
  })
  row('agreement-aud', async () => {
    expect(await agreed({ aud: [stand.authority.issuer] })).toMatchObject({ status: 200 })
    expect(await agreed({ aud: 'https://other.example' })).toMatchObject(refused)
  })
  row('agreement-iat', async () => {
    expect(await agreed({ iat: now() - 50 })).toMatchObject({ status: 200 })
    expect(await agreed({ iat: now() - 65 })).toMatchObject(refused)
    expect(await agreed({ iat: String(now()) })).toMatchObject(refused)
  })
  row('agreement-reason', async () => {
    const text = 'é'.repeat(256)
    const stranger = testAgent(stand.authority)
    await stranger.ask('portfolio_read', { reason: text })
    const items = (await stand.authority.call(stand.authority.alice, { target: '/owner/pending' })).body
    expect(items).toMatchObject([{ handle: stranger.handle, reason: text }])
    await decide(stand.authority, stranger.handle, 'denied')
    expect(await agreed({ reason: `${text}.` })).toMatchObject(refused)
  })
  row('agreement-mission', async () => {
    const stranger = testAgent(stand.authority)
    // Whoever fetched it would have to connect to it.
    let connections = 0
    const approver = createServer(socket => {
      connections++
      socket.destroy()
    })
    await new Promise<void>(resolve => approver.listen(0, '127.0.0.1', resolve))
    const { port } = approver.address() as AddressInfo
    const mission = { approver: `https://127.0.0.1:${port}/`, s256: 'x'.repeat(43) }
    await stranger.ask('portfolio_read', { mission })
    const items = (await stand.authority.call(stand.authority.alice, { target: '/owner/pending' })).body
    expect(items).toMatchObject([{ handle: stranger.handle, mission }])
    await decide(stand.authority, stranger.handle, 'denied')
    await new Promise(resolve => approver.close(resolve))
    expect(connections).toBe(0)
    expect(await agreed({ mission: { ...mission, s256: 'short' } })).toMatchObject(refused)
  })
  row('agreement-operation', async () => {
    expect(await agreed({}, 'place_trade')).toMatchObject(refused)
    expect(await agreed({ operation: TRADE }, 'place_trade')).toMatchObject({
      body: { error: 'request_submitted', kind: 'operation' },
    })
    await decide(stand.authority, agent.handle, 'denied')
    expect(trade.operation).toMatchObject({ tool: TRADE.tool })
  })
})

describe('Grant answer (beat 4)', () => {
  row('grant-access-token', () => {
    expect(json(answer.body.access_token.split('.')[0])).toMatchObject({ typ: 'at+jwt', alg: 'EdDSA' })
    expect(rpt.cnf.jwk.x).toBe(agent.key.x)
  })
  row('grant-token-type', () => expect(answer.body.token_type).toBe('PoP'))
  row('grant-expires-in', () => expect(answer.body.expires_in).toBe(3600))
  row('grant-receipt', async () => {
    const keys = parseJwks((await stand.authority.request('GET', '/jwks')).body)
    const compact = decodeBase64url(claimToken).toString()
    const { claims } = verifyReceipt(answer.body.receipt, keys, {
      issuer: stand.authority.issuer,
      now: Date.now() / 1000,
      agreement: s256(compact),
    })
    expect(json(answer.body.receipt.split('.')[0])).toMatchObject({ typ: 'myterms-receipt+jws' })
    expect(claims).toMatchObject({
      agreement_jws: compact,
      terms_uri: template.terms_uri,
      agreement: s256(compact),
      cnf: { jkt: agent.key.thumbprint },
      family: template.family,
    })
  })
})

describe('RPT claims', () => {
  row('rpt-iss', () => expect(rpt.iss).toBe(stand.authority.issuer))
  row('rpt-sub', () => expect(rpt.sub).toBe(agent.handle))
  row('rpt-client-id', () => expect(rpt.client_id).toBe(agent.handle))
  row('rpt-aud', () => expect(rpt.aud).toBe(resource))
  row('rpt-jti', () => expect(rpt.jti).toMatch(/^rpt_.+/))
  row('rpt-exp', () => expect(rpt.exp).toBe(rpt.iat + 3600))
  row('rpt-cnf', () => expect(rpt.cnf).toEqual({ jwk: { kty: 'OKP', crv: 'Ed25519', x: agent.key.x } }))
  row('rpt-permissions', () =>
    expect(rpt.permissions).toEqual([
      { resource_id: 'alice/portfolio', resource_scopes: ['read'], exp: rpt.exp },
    ]),
  )
  row('rpt-contract', () => expect(rpt.contract).toBe(s256(decodeBase64url(claimToken).toString())))
  row('rpt-owner', () => {
    expect(rpt.owner).toBe('alice')
    expect(json(answer.body.receipt.split('.')[1])).toMatchObject({ owner: 'alice' })
  })
  row('rpt-single-use', () => {
    expect(trade.single_use).toBe(true)
    expect(rpt).not.toHaveProperty('single_use')
  })
  row('rpt-operation', () => {
    expect(trade.operation).toEqual({ tool: 'place_trade', params_s256: s256Json(TRADE.params) })
    expect(rpt).not.toHaveProperty('operation')
  })
})

describe('Introspection and consume answers', () => {
  const ask = async (path: string, token: string) =>
    (await protectionCall(stand.authority, path, { token })).body

  row('introspection-answer', async () => {
    const { access_token } = answer.body
    expect(await ask('/introspect', access_token)).toMatchObject({
      active: true,
      permissions: rpt.permissions,
    })
    const forged = `${access_token.slice(0, -4)}AAAA`
    expect(await ask('/introspect', forged)).toEqual({
      active: false,
      reason: 'invalid_signature',
      error: 'invalid_signature',
    })
  })
  row('consume-answer', async () => {
    const { rpt: token } = await agent.granted('place_trade', { operation: TRADE })
    expect(await ask('/consume', token)).toMatchObject({ consumed: true })
    expect(await ask('/consume', token)).toEqual({ consumed: false, error: 'already_consumed' })
    expect(await ask('/consume', answer.body.access_token)).toEqual({
      consumed: false,
      error: 'not_single_use',
    })
  })
})

describe('Connection', () => {
  row('handle-pseudonymous', () => {
    const canonical = `{"crv":"Ed25519","kty":"OKP","x":"${agent.key.x}"}`
    expect(rpt.sub).toBe(`jkt:${s256(canonical).slice('s256:'.length)}`)
    expect(importPrivateJwk(generatePrivateJwk()).thumbprint).not.toBe(agent.key.thumbprint)
  })
})

describe('Versioning', () => {
  row('version-identifiers', () => {
    const { type } = challenge.authorization_remediation.authorization_details[0]!
    for (const uri of [type, claim.claim_type, ...claim.claim_token_format]) expect(uri).toContain('/1.0#')
    expect(claim.claim_token_format[0]).toMatch(/-v1\+jws$/)
    expect(json(decodeBase64url(claimToken).toString().split('.')[0]!)).toMatchObject({
      typ: 'myterms-agreement-v1+jws',
    })
    expect(claimToken).toBe(encodeBase64url(decodeBase64url(claimToken)))
  })
})
