/**
 * Software of others, unmodified, at a real authority and a real sidecar: libraries of OAuth and of RFC 9421
 * that know nothing of ours, and a client that knows only RFC 7662. contract, "Token endpoint",
 * "Introspection and consume answers", "Authorized call". The clients of MCP are driven through a real Envoy
 * in test/envoy/mcp-clients.full.test.ts, that of Python in test/agent/bridge/examples.full.test.ts.
 */
import { createSignatureSync } from 'http-message-sig'
import * as oauth from 'oauth4webapi'
import { describe, expect, it } from 'vitest'
import { generatePrivateJwk, importPrivateJwk, signEd25519 } from '../../src/wire/signatures/keys.ts'
import { toolCallBody } from '../enforcement/calls.ts'
import { CLIENT_ID } from '../support/authority.ts'
import { startContractStand, TOOLS_URL } from '../support/contract-stand.ts'
import { python } from '../support/python.ts'
import { describeWith } from '../support/requirement.ts'
import { decideServer, startResourceServer } from '../support/resource-server.ts'
import { startedOnce } from '../support/started.ts'
import { testAgent } from '../support/test-agent.ts'

const stand = startedOnce(startContractStand)

const RESOURCE = `${TOOLS_URL}/mcp/alice`
const CALL = ['@method', '@authority', '@path', 'authorization']
const nowSeconds = () => Math.floor(Date.now() / 1000)

/** Shows the sidecar a call of the tool with these fields, as Envoy would. */
async function called(token: string, fields: Record<string, string>): Promise<number> {
  const headers = Object.fromEntries(Object.entries(fields).map(([name, value]) => [name, [value]]))
  const { status } = await stand.check({ body: toolCallBody('portfolio_read'), token, headers })
  return status
}

describe('oauth4webapi', () => {
  const insecure = { [oauth.allowInsecureRequests]: true }
  const client: oauth.Client = { client_id: CLIENT_ID }

  /** The metadata, where RFC 8414 has it, and a PAT by client_credentials. */
  async function protectionAccess() {
    const issuer = new URL(stand.authority.issuer)
    const as = await oauth.processDiscoveryResponse(
      issuer,
      await oauth.discoveryRequest(issuer, { algorithm: 'oauth2', ...insecure }),
    )
    const answer = await oauth.clientCredentialsGrantRequest(
      as,
      client,
      oauth.ClientSecretBasic(stand.authority.alice.clientSecret),
      new URLSearchParams({ scope: 'uma_protection', owner: 'alice' }),
      insecure,
    )
    return { as, pat: await oauth.processClientCredentialsResponse(as, client, answer) }
  }

  it('discovers the authority and is given a PAT', async () => {
    const { as, pat } = await protectionAccess()
    expect(as.response_types_supported).toEqual([])
    expect(as.introspection_endpoint).toBe(`${stand.authority.issuer}/introspect`)
    expect(pat).toMatchObject({ token_type: 'bearer', scope: 'uma_protection' })
  })

  it('introspects a grant, and reads that it has ended', async () => {
    const { as, pat } = await protectionAccess()
    const agent = testAgent(stand.authority)
    const { rpt } = await agent.granted()
    const byPat: oauth.ClientAuth = (_as, _client, _body, headers) =>
      headers.set('authorization', `Bearer ${pat.access_token}`)
    const introspected = async () =>
      oauth.processIntrospectionResponse(
        as,
        client,
        await oauth.introspectionRequest(as, client, byPat, rpt, insecure),
      )
    expect(await introspected()).toMatchObject({
      active: true,
      sub: agent.handle,
      cnf: { jwk: { x: agent.key.x } },
      permissions: [{ resource_id: 'alice/portfolio', resource_scopes: ['read'] }],
    })
    await stand.authority.alice.client.revoke(agent.handle)
    expect(await introspected()).toMatchObject({ active: false, reason: 'connection_revoked' })
  })
})

describe('A client that knows RFC 7662 alone', () => {
  it('has by a form the state of a token, and of one that nobody issued that it is inactive', async () => {
    const { rpt } = await testAgent(stand.authority).granted()
    const pat = await stand.authority.pat()
    const ask = async (token: string) => {
      const headers = { authorization: `Bearer ${pat}`, accept: 'application/json' }
      const body = new URLSearchParams({ token, token_type_hint: 'access_token' })
      const answer = await fetch(`${stand.authority.issuer}/introspect`, { method: 'POST', headers, body })
      return [answer.status, await answer.json()]
    }
    expect(await ask(rpt)).toEqual([200, expect.objectContaining({ active: true, aud: RESOURCE })])
    expect(await ask('nobody')).toEqual([200, expect.objectContaining({ active: false })])
  })
})

describe('http-message-sig', () => {
  it('signs a call that the sidecar lets through, and none for another path or by another key', async () => {
    const agent = testAgent(stand.authority)
    const { rpt } = await agent.granted()
    const signed = (path: string, key = agent.key) => {
      const { signature, signatureInput } = createSignatureSync(
        {
          kind: 'request',
          method: 'POST',
          targetUri: TOOLS_URL + path,
          requestTarget: path,
          fields: [{ name: 'authorization', value: `PoP ${rpt}` }],
        },
        {
          label: 'theirs',
          components: CALL,
          parameters: { created: nowSeconds() },
          signer: { algorithm: 'ed25519', sign: data => signEd25519(data, key) },
        },
      )
      return { signature, 'signature-input': signatureInput }
    }
    expect(await called(rpt, signed('/mcp/alice'))).toBe(200)
    expect(await called(rpt, signed('/mcp/bea'))).toBe(401)
    expect(await called(rpt, signed('/mcp/alice', importPrivateJwk(generatePrivateJwk())))).toBe(401)
  })
})

describeWith(python('rfc9421'), 'http-message-signatures, of Python', found => {
  interface ToSign {
    method: string
    url: string
    headers: Record<string, string>
    key: { d: string; keyid: string }
    components: string[]
    body?: string
  }
  const sign = ({ key, ...request }: ToSign) =>
    found.ask('rfc9421.py', { ...request, ...key }) as Promise<Record<string, string>>

  it('signs a call that the sidecar lets through, and none by another key', async () => {
    const [jwk, other] = [generatePrivateJwk(), generatePrivateJwk()]
    const agent = testAgent(stand.authority, { key: importPrivateJwk(jwk) })
    const { rpt } = await agent.granted()
    const signedBy = ({ d }: { d: string }) =>
      sign({
        method: 'POST',
        url: RESOURCE,
        headers: { Authorization: `PoP ${rpt}` },
        key: { d, keyid: agent.key.thumbprint },
        components: CALL,
      })
    expect(await called(rpt, await signedBy(jwk))).toBe(200)
    expect(await called(rpt, await signedBy(other))).toBe(401)
  })

  it('signs for a resource server, known by its origin, that is given a PAT', async () => {
    const jwk = generatePrivateJwk()
    const server = await startResourceServer(stand.authority.issuer, importPrivateJwk(jwk))
    await server.register(stand.authority, 'alice')
    await decideServer(stand.authority, server.resource('alice'), 'approved')
    const form = { grant_type: 'client_credentials', scope: 'uma_protection', owner: 'alice' }
    const body = new URLSearchParams({ ...form, client_id: server.origin }).toString()
    const url = `${stand.authority.issuer}/token`
    const headers = {
      Authorization: '',
      'Content-Type': 'application/x-www-form-urlencoded',
    }
    const fields = await sign({
      method: 'POST',
      url,
      headers,
      key: { d: jwk.d, keyid: server.key.kid },
      components: CALL,
      body,
    })
    const answer = await fetch(url, { method: 'POST', headers: { ...headers, ...fields }, body })
    expect([answer.status, await answer.json()]).toEqual([
      200,
      expect.objectContaining({ scope: 'uma_protection' }),
    ])
    await server.close()
  })
})
