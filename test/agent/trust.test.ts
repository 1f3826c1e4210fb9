/**
 * contract, "Challenge (beat 1)", client rule, and "need_info answer (beat 2)": what does not agree is not
 * signed.
 */
import { describe, expect, it } from 'vitest'
import { createAgent, type AgentOptions } from '../../src/agent/index.ts'
import { openClaimToken } from '../../src/wire/negotiation/agreement.ts'
import { s256, s256Json } from '../../src/wire/encoding.ts'
import type { JsonObject } from '../../src/wire/json.ts'
import { publicJwk } from '../../src/wire/signatures/keys.ts'
import { readRptClaims } from '../../src/wire/negotiation/tokens.ts'
import type { TermsTemplate } from '../../src/wire/negotiation/terms.ts'
import { startScriptedPeers, type Twists } from '../support/scripted-resource.ts'
import { startScriptedServer } from '../support/scripted-http.ts'
import { startedForEach } from '../support/started.ts'
import { newKey } from '../support/wire-samples.ts'
import { agentWith } from './agents.ts'

const peers = startedForEach(startScriptedPeers)
const call = (options: Partial<AgentOptions> = {}) =>
  agentWith(options).call({ resource: peers.resource, tool: 'portfolio_read' })

type Hostile = [what: string, twist: () => Twists]

describe('a challenge is not believed, and nothing is presented,', () => {
  const elsewhere = 'http://127.0.0.1:9/elsewhere'
  const hostile: Hostile[] = [
    [
      'when it points to metadata that is not where RFC 9728 puts that of the resource called',
      () => ({
        challenge: plain => ({
          ...plain,
          resource_metadata: `${peers.tools.origin}/.well-known/oauth-protected-resource`,
        }),
      }),
    ],
    [
      'when the resource does not name its authority',
      () => ({ resourceMetadata: plain => ({ ...plain, authorization_servers: [elsewhere] }) }),
    ],
    [
      'when the resource names no authority at all',
      () => ({ resourceMetadata: ({ resource }) => ({ resource: resource! }) }),
    ],
    [
      'when the metadata is about a resource that differs by a slash',
      () => ({ resourceMetadata: plain => ({ ...plain, resource: `${peers.resource}/` }) }),
    ],
    [
      'when the authority gives itself another issuer',
      () => ({ authorityMetadata: plain => ({ ...plain, issuer: `${peers.issuer}/` }) }),
    ],
    [
      'when the authority is named but for a slash',
      () => ({ resourceMetadata: plain => ({ ...plain, authorization_servers: [`${peers.issuer}/`] }) }),
    ],
    [
      'when the remediation names another authority',
      () => ({
        challenge: plain => ({
          ...plain,
          authorization_remediation: { ...plain.authorization_remediation, authorization_server: elsewhere },
        }),
      }),
    ],
    [
      'when the remediation carries another ticket',
      () => ({
        challenge: plain => ({
          ...plain,
          authorization_remediation: { ...plain.authorization_remediation, ticket: 'tag~tkt_other' },
        }),
      }),
    ],
    [
      'when its reference is not the hash of its details',
      () => ({
        challenge: plain => ({
          ...plain,
          authorization_remediation: {
            ...plain.authorization_remediation,
            authorization_reference: s256('x'),
          },
        }),
      }),
    ],
    [
      'when it is about another resource',
      () => ({
        challenge: plain => {
          const [detail] = plain.authorization_remediation.authorization_details
          const authorization_details = [{ ...detail!, locations: ['https://other.example/mcp'] }]
          return {
            ...plain,
            authorization_remediation: {
              ...plain.authorization_remediation,
              authorization_details,
              authorization_reference: s256Json(authorization_details),
            },
          }
        },
      }),
    ],
  ]
  it.each(hostile)('%s', async (_what, twist) => {
    Object.assign(peers.twists, twist())
    await expect(call()).rejects.toMatchObject({ code: 'challenge_untrusted', terminal: true, local: true })
    expect(peers.tokenForms()).toEqual([])
  })

  it('and the address it points to is never fetched', async () => {
    const bait = await startScriptedServer(() => ({ body: {} }))
    peers.twists.challenge = plain => ({
      ...plain,
      resource_metadata: `${bait.origin}/.well-known/oauth-protected-resource/mcp/alice`,
    })
    // The usual reason is a resource of the reader's own whose address is configured as another.
    await expect(call()).rejects.toMatchObject({
      code: 'challenge_untrusted',
      detail: expect.stringMatching(
        `${bait.origin}/.*metadata of the called resource is at ${new URL(peers.resource).origin}/.*set public_url`,
      ) as string,
    })
    expect(bait.received).toEqual([])
    await bait.close()
  })

  it('and an authority without this profile’s discovery is read at its uma2-configuration, the issuer judged alike', async () => {
    const [profile, uma] = ['/.well-known/agents-configuration', '/.well-known/uma2-configuration']
    const members = {
      issuer: peers.issuer,
      token_endpoint: `${peers.issuer}/token`,
      jwks_uri: `${peers.issuer}/jwks`,
    }
    peers.authority.script(profile, { status: 404, body: {} })
    peers.authority.script(uma, { body: members })
    await expect(call()).resolves.toMatchObject({ grant: { as_uri: peers.issuer } })

    peers.authority.script(uma, { body: { ...members, issuer: elsewhere } })
    await expect(call()).rejects.toMatchObject({ code: 'challenge_untrusted' })
    // Absent at both: the profile's own address is the one that is told.
    peers.authority.script(uma, { status: 404, body: {} })
    await expect(call()).rejects.toMatchObject({ code: 'unreachable', status: 404 })
    // An outage is not absence: nothing else is asked instead.
    peers.authority.script(profile, { status: 503, headers: { 'retry-after': '0' }, body: {} })
    peers.authority.script(uma, { body: members })
    await expect(call()).rejects.toMatchObject({ code: 'temporarily_unavailable', status: 503 })
  })

  it('and an authority that the resource has only just taken on is believed', async () => {
    const agent = createAgent({ key: newKey(), allowLoopback: true, now: () => Date.now() / 1000 + clock })
    let clock = 0
    peers.twists.resourceMetadata = plain => ({ ...plain, authorization_servers: [elsewhere] })
    const options = { resource: peers.resource, tool: 'portfolio_read' }
    await expect(agent.call(options)).rejects.toMatchObject({ code: 'challenge_untrusted' })
    delete peers.twists.resourceMetadata
    clock = 2
    await expect(agent.call(options)).resolves.toMatchObject({ grant: { as_uri: peers.issuer } })
  })
})

describe('terms are not signed', () => {
  const other = 'https://as.elsewhere.example'
  const hostile: [string, (plain: TermsTemplate) => TermsTemplate, string][] = [
    ['that another authority proffers', plain => ({ ...plain, proffered_by: other }), 'terms_untrusted'],
    [
      'whose document stands elsewhere',
      plain => ({ ...plain, terms_uri: `${other}/terms/1` }),
      'terms_untrusted',
    ],
    ['without a scope', plain => ({ ...plain, scope: [] }), 'answer_malformed'],
    ['without a nonce', plain => ({ ...plain, nonce: '' }), 'answer_malformed'],
    ['that never end', plain => ({ ...plain, expires_in: 0 }), 'answer_malformed'],
  ]
  it.each(hostile)('%s', async (_what, template, code) => {
    peers.twists.template = template
    await expect(call()).rejects.toMatchObject({ code })
    expect(peers.agreements).toEqual([])
  })

  it('in a format that the agent does not know', async () => {
    peers.authority.script('/token', () => ({
      status: 403,
      body: {
        error: 'need_info',
        ticket: 'tag~tkt_b',
        required_claims: [{ claim_token_format: ['urn:ietf:params:oauth:token-type:id-jag'] }],
      },
    }))
    await expect(call()).rejects.toMatchObject({
      code: 'unsupported_claim',
      detail: expect.stringContaining('id-jag') as string,
    })
  })

  it('for ever: an authority that changes them with every answer is left', async () => {
    peers.authority.script('/token', ({ form }, nth) => {
      if (!form.has('claim_token')) return undefined
      const template = JSON.parse(
        Buffer.from(openClaimToken(form.get('claim_token')!).compact.split('.')[1]!, 'base64url').toString(),
      ) as JsonObject
      const formats = ['https://u4a.ai/spec/terms/1.0#myterms-agreement-v1+jws']
      return {
        status: 403,
        body: {
          error: 'need_info',
          ticket: `tag~tkt_${nth}`,
          required_claims: [{ claim_token_format: formats, terms_template: template }],
        },
      }
    })
    await expect(call()).rejects.toMatchObject({ code: 'terms_untrusted' })
    expect(peers.tokenForms().filter(form => form['claim_token'])).toHaveLength(3)
  })
})

describe("the authority's keys", () => {
  it('are fetched anew when a grant is signed by one that was published since', async () => {
    const next = newKey()
    const agent = createAgent({ key: newKey(), allowLoopback: true, now: () => Date.now() / 1000 + clock })
    let clock = 0
    await agent.call({ resource: peers.resource, tool: 'portfolio_read' })
    peers.twists.signWith = next
    peers.authority.script('/jwks', { body: { keys: [publicJwk(next)] } })
    clock = 2
    const { grant } = await agent.call({ resource: peers.resource, tool: 'another' })
    expect(grant!.jti).toBe(peers.grants[1]!.jti)
    expect(peers.authority.to('/jwks')).toHaveLength(2)
    expect(readRptClaims(peers.tools.to('/mcp/alice').at(-1)!.headers.authorization!.slice(4)).jti).toBe(
      grant!.jti,
    )
  })
})
