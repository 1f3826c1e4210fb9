/**
 * Contract, "Algorithms": anybody with a common library can read what we sign. Other libraries get our JWKS
 * as it is published, and RPT, receipt and signed metadata as they were issued; several know Ed25519 by its
 * older name alone.
 */
import { createLocalJWKSet, jwtVerify, type JSONWebKeySet } from 'jose'
import * as oauth from 'oauth4webapi'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { signJws } from '../../src/wire/signatures/jws.ts'
import { WORLD, startTestAuthority, type TestAuthority } from '../support/authority.ts'
import { python } from '../support/python.ts'
import { startRegisteringServer, type RegisteringServer } from '../support/registering-server.ts'
import { describeWith } from '../support/requirement.ts'
import { testAgent } from '../support/test-agent.ts'

interface Signed {
  jwks: JSONWebKeySet
  jws: string
  typ: string
}

const KINDS = ['the RPT', 'the receipt', 'the signed metadata'] as const
let authority: TestAuthority
let server: RegisteringServer
let metadata: Record<string, unknown>
let signed: Record<(typeof KINDS)[number], Signed>

beforeAll(async () => {
  authority = await startTestAuthority({ environment: { UMA_DEV_LOOPBACK: 'true' } })
  server = await startRegisteringServer(authority, 'notes')
  const { rpt, receipt } = await testAgent(authority).granted(WORLD[0].tool)
  const { origin, pathname } = new URL(server.resource)
  metadata = await get(`${origin}/.well-known/oauth-protected-resource${pathname}`)
  const ofAuthority = await get<JSONWebKeySet>(`${authority.publicUrl}/jwks`)
  const ofResource = await get<JSONWebKeySet>(metadata['jwks_uri'] as string)
  signed = {
    'the RPT': { jwks: ofAuthority, jws: rpt, typ: 'at+jwt' },
    'the receipt': { jwks: ofAuthority, jws: receipt, typ: 'myterms-receipt+jws' },
    'the signed metadata': {
      jwks: ofResource,
      jws: metadata['signed_metadata'] as string,
      typ: 'oauth-protected-resource+jwt',
    },
  }
})
afterAll(async () => {
  await server?.close()
  await authority?.close()
})

async function get<Body = Record<string, unknown>>(url: string): Promise<Body> {
  const answer = await fetch(url)
  return (await answer.json()) as Body
}

/** What everybody can read of a JWS without a key. */
function parts(jws: string): { header: unknown; payload: unknown } {
  const [header, payload] = jws
    .split('.', 2)
    .map(part => JSON.parse(Buffer.from(part, 'base64url').toString()))
  return { header, payload }
}

/** The same document with another signature. */
function tampered({ jws, ...rest }: Signed): Signed {
  const at = jws.lastIndexOf('.') + 10
  return { ...rest, jws: jws.slice(0, at) + (jws[at] === 'A' ? 'B' : 'A') + jws.slice(at + 1) }
}

describeWith(python('jose'), 'a JWS uses Ed25519 or EdDSA: libraries of Python', found => {
  describe.each(['PyJWT', 'authlib', 'jwcrypto', 'joserfc'])('%s', library => {
    it.each(KINDS)('verifies %s under the keys that are published', async kind => {
      const answer = await found.ask('jose.py', { library, ...signed[kind] })
      expect(answer).toEqual(parts(signed[kind].jws))
      expect(answer).toMatchObject({ header: { typ: signed[kind].typ } })
    })

    it.each(KINDS)('refuses %s with another signature', async kind => {
      const answer = await found.ask('jose.py', { library, ...tampered(signed[kind]) })
      expect(answer).toMatchObject({ error: expect.stringMatching(/signature/i) })
    })
  })
})

describe('a JWS uses Ed25519 or EdDSA: libraries of JavaScript', () => {
  it.each(KINDS)('jose verifies %s under the keys that are published', async kind => {
    const { jwks, jws, typ } = signed[kind]
    const { payload, protectedHeader } = await jwtVerify(jws, createLocalJWKSet(jwks), { typ })
    expect({ header: protectedHeader, payload }).toEqual(parts(jws))
    await expect(jwtVerify(tampered(signed[kind]).jws, createLocalJWKSet(jwks))).rejects.toThrow(/signature/)
  })

  /** As a resource server asks it about a bearer token of ours. */
  async function validated(token: string): Promise<unknown> {
    const at = await get<oauth.AuthorizationServer>(`${authority.publicUrl}/.well-known/agents-configuration`)
    const request = new Request('https://tools.example/', { headers: { authorization: `Bearer ${token}` } })
    return oauth.validateJwtAccessToken(at, request, authority.alice.resourceUri, {
      [oauth.customFetch]: url => fetch(url.replace(authority.issuer, authority.publicUrl)),
    })
  }

  it('oauth4webapi verifies an access token of our key; of the RPT it knows all but the way in which it is bound', async () => {
    const { payload } = parts(signed['the RPT'].jws) as { payload: Record<string, unknown> }
    await expect(validated(signed['the RPT'].jws)).rejects.toThrow('unsupported JWT Confirmation method')
    const { cnf: _bound, ...claims } = payload
    const bearer = signJws({ typ: 'at+jwt', payload: claims }, authority.config.keys[0]!)
    expect(await validated(bearer)).toEqual(claims)
    const other = tampered({ jwks: { keys: [] }, jws: bearer, typ: '' }).jws
    await expect(validated(other)).rejects.toThrow(/signature/)
  })

  it('oauth4webapi reads the metadata of the authority and of the resource', async () => {
    const issuer = new URL(authority.issuer)
    const found = await fetch(`${authority.publicUrl}/.well-known/agents-configuration`)
    expect(await oauth.processDiscoveryResponse(issuer, found)).toMatchObject({ issuer: authority.issuer })
    const read = await oauth.processResourceDiscoveryResponse(
      new URL(server.resource),
      Response.json(metadata),
    )
    expect(read).toMatchObject({ authorization_servers: [authority.issuer] })
  })
})
