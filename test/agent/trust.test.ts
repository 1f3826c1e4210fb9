/**
 * contract, "Challenge (beat 1)", client rule, and "Grant answer (beat 4)": what does not agree is neither signed nor kept.
 */
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { createAgent, memoryStore, type AgentOptions } from '../../src/agent/index.ts'
import { signAgreement, openClaimToken } from '../../src/wire/agreement.ts'
import { s256, s256Json } from '../../src/wire/encoding.ts'
import type { JsonObject } from '../../src/wire/json.ts'
import { publicJwk } from '../../src/wire/keys.ts'
import { readRptClaims } from '../../src/wire/tokens.ts'
import type { TermsTemplate } from '../../src/wire/terms.ts'
import { startScriptedPeers, type ScriptedPeers, type Twists } from '../support/scripted-resource.ts'
import { startScriptedServer } from '../support/scripted-http.ts'
import { newKey } from '../support/wire-samples.ts'

let peers: ScriptedPeers
beforeEach(async () => {
  peers = await startScriptedPeers()
})
afterEach(() => peers.close())

const store = memoryStore()
function call(options: Partial<AgentOptions> = {}, resource = peers.resource) {
  return createAgent({ key: newKey(), allowLoopback: true, ...options }).call({
    resource,
    tool: 'portfolio_read',
  })
}

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
    await expect(call()).rejects.toMatchObject({ code: 'challenge_untrusted' })
    expect(bait.received).toEqual([])
    await bait.close()
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

describe('a grant is not kept, and no call made with it,', () => {
  const other = newKey()
  const hostile: Hostile[] = [
    ['when another key signed it', () => ({ signWith: other })],
    [
      'when it is for another resource',
      () => ({ rpt: plain => ({ ...plain, aud: 'https://other.example/mcp' }) }),
    ],
    ['when it has ended', () => ({ rpt: plain => ({ ...plain, exp: plain.iat - 1 }) })],
    [
      'when it is by another issuer',
      () => ({ rpt: plain => ({ ...plain, iss: 'https://as.elsewhere.example' }) }),
    ],
    [
      'when it is bound to another key',
      () => ({ rpt: plain => ({ ...plain, cnf: { jwk: { kty: 'OKP', crv: 'Ed25519', x: other.x } } }) }),
    ],
    [
      'when its contract is not the agreement in the receipt',
      () => ({ rpt: plain => ({ ...plain, contract: s256('x') }) }),
    ],
    [
      'when it belongs to another negotiation than its receipt',
      () => ({ rpt: plain => ({ ...plain, family: 'fam_other' }) }),
    ],
    ['when its receipt is for another grant', () => ({ receipt: plain => ({ ...plain, rpt: 'rpt_other' }) })],
    ['when its receipt names another owner', () => ({ receipt: plain => ({ ...plain, owner: 'mallory' }) })],
    [
      'when its receipt states another hash',
      () => ({ receipt: plain => ({ ...plain, agreement: s256('x') }) }),
    ],
    [
      'when its receipt states another key',
      () => ({ receipt: plain => ({ ...plain, cnf: { jkt: other.thumbprint } }) }),
    ],
    [
      'when its receipt states another family',
      () => ({ receipt: plain => ({ ...plain, family: 'fam_other' }) }),
    ],
    [
      'when its receipt states other terms',
      () => ({ receipt: plain => ({ ...plain, template_id: 'alice/reading/v2' }) }),
    ],
    [
      'when it permits nothing on the resource agreed to',
      () => ({
        rpt: plain => ({
          ...plain,
          permissions: [{ resource_id: 'alice/other', resource_scopes: ['read'], exp: plain.exp }],
        }),
      }),
    ],
    [
      'when it is for another operation',
      () => ({
        perOperation: true,
        rpt: plain => ({
          ...plain,
          operation: { tool: 'portfolio_read', params_s256: s256Json({ qty: 2000 }) },
        }),
      }),
    ],
    [
      'when its receipt embeds an agreement that another key signed',
      () => embedding(template => ({ template, key: other })),
    ],
    [
      'when its receipt embeds an agreement to more than was signed',
      () => embedding(template => ({ template: { ...template, resource_id: 'alice/everything' } })),
    ],
    [
      'when its receipt embeds an agreement about another operation',
      () => ({
        ...embedding(template => ({
          template,
          operation: { tool: 'portfolio_read', params: { qty: 2000 } },
        })),
        perOperation: true,
      }),
    ],
  ]
  it.each(hostile)('%s', async (_what, twist) => {
    Object.assign(peers.twists, twist())
    await expect(call({ store, key: agentKey })).rejects.toMatchObject({
      code: 'grant_untrusted',
      terminal: true,
    })
    expect([await store.receipts(), await store.grants(peers.resource)]).toEqual([[], []])
    expect(peers.tools.to('/mcp/alice')).toHaveLength(1)
  })
})

describe('a receipt of a request that waited already', () => {
  it('may embed an earlier agreement of our own to the same terms, resource and operation', async () => {
    const earlier = embedding(template => ({
      template: { ...template, nonce: 'earlier', family: 'fam_earlier' },
      reason: 'first time',
    }))
    Object.assign(peers.twists, earlier)
    const { receipt, grant } = await call({ key: agentKey })
    expect(receipt!.family).toBe('fam_earlier')
    expect(grant!.contract).not.toBe(peers.agreements[0]!.hash)
  })
})

const agentKey = newKey()

/** A grant and receipt, consistent between them, around another agreement than the one presented. */
function embedding(
  change: (template: TermsTemplate) => {
    template: TermsTemplate
    key?: typeof agentKey
    operation?: { tool: string; params: JsonObject }
    reason?: string
  },
): Twists {
  const embedded = (): { compact: string; template: TermsTemplate; jkt: string } => {
    const { jwk: _jwk, iss: _iss, aud, iat, ...claims } = peers.agreements.at(-1)!.claims
    const { key = agentKey, ...content } = change(claims as unknown as TermsTemplate)
    const signed = signAgreement({ aud: aud as string, iat: iat as number, ...content }, key)
    return { compact: openClaimToken(signed).compact, template: content.template, jkt: key.thumbprint }
  }
  return {
    rpt: plain => {
      const { compact, template } = embedded()
      return { ...plain, contract: s256(compact), family: template.family }
    },
    receipt: plain => {
      const { compact, template, jkt } = embedded()
      return {
        ...plain,
        agreement: s256(compact),
        agreement_jws: compact,
        family: template.family,
        cnf: { jkt },
      }
    },
  }
}

describe('an address', () => {
  it.each([
    ['http://tools.example.com/mcp', 'is not https'],
    ['http://192.168.1.7/mcp', 'is in a private network, without TLS'],
    ['http://127.0.0.1.nip.io/mcp', 'only looks like loopback'],
    ['https://user:pw@tools.example.com/mcp', 'carries user information'],
    ['https://tools.example.com/mcp#a', 'carries a fragment'],
    ['file:///etc/passwd', 'is no web address'],
    ['tools', 'is no address'],
  ])('%s is not called, since it %s', async resource => {
    await expect(call({}, resource)).rejects.toMatchObject({ code: 'address_refused', local: true })
  })

  it('that is http and loopback is not called unless that was switched on', async () => {
    await expect(call({ allowLoopback: false })).rejects.toMatchObject({ code: 'address_refused' })
    expect(peers.tools.received).toEqual([])
  })

  it.each(['token_endpoint', 'jwks_uri'])('of the authority is held to the same rule: %s', async name => {
    peers.twists.authorityMetadata = plain => ({ ...plain, [name]: 'http://as.example.com/x' })
    await expect(call()).rejects.toMatchObject({ code: 'challenge_untrusted' })
    expect(peers.tokenForms()).toEqual([])
  })

  const redirect = { status: 307, headers: { location: 'http://127.0.0.1:9/elsewhere' } }
  it.each([
    ['the resource', () => peers.tools.script('/mcp/alice', redirect)],
    ['its metadata', () => peers.tools.script('/.well-known/oauth-protected-resource/mcp/alice', redirect)],
    ["the authority's metadata", () => peers.authority.script('/.well-known/agents-configuration', redirect)],
    ['the token endpoint', () => peers.authority.script('/token', redirect)],
    ["the authority's keys", () => peers.authority.script('/jwks', redirect)],
  ])('that %s redirects to is not followed', async (_where, script) => {
    script()
    await expect(call()).rejects.toMatchObject({ code: 'redirect_refused', status: 307, terminal: true })
  })
})

describe('an answer is read no further than its bound', () => {
  const big = {
    status: 200,
    headers: { 'content-type': 'application/json' },
    body: `{"a":"${'x'.repeat(200_000)}"}`,
  }
  it.each([
    ['the metadata', () => peers.tools.script('/.well-known/oauth-protected-resource/mcp/alice', big)],
    ["the authority's metadata", () => peers.authority.script('/.well-known/agents-configuration', big)],
    ["the authority's keys", () => peers.authority.script('/jwks', big)],
    ['the token endpoint', () => peers.authority.script('/token', big)],
  ])('by %s', async (_where, script) => {
    script()
    await expect(call()).rejects.toMatchObject({ code: 'answer_too_large', local: true })
  })

  it('by a tool that never stops', async () => {
    let stopped = false
    peers.tools.script('/mcp/alice', () => ({
      write: response => {
        response.writeHead(200, { 'content-type': 'application/json' })
        const more = (): void => {
          if (!response.destroyed && response.write(Buffer.alloc(1 << 20, 0x20))) setImmediate(more)
        }
        response.on('drain', more).on('close', () => (stopped = true))
        more()
      },
    }))
    await expect(call()).rejects.toMatchObject({ code: 'answer_too_large' })
    await expect.poll(() => stopped).toBe(true)
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
