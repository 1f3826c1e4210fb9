/**
 * Clients of the official SDKs that know OAuth alone, at a resource whose authority speaks UMA. RFC 8414 §2:
 * they read its metadata; contract, "Authorization server metadata members".
 */
import { auth as auth1 } from '@modelcontextprotocol/sdk/client/auth.js'
import { auth as auth2 } from '@modelcontextprotocol/client'
import { expect, test } from 'vitest'
import { authorizationServerMetadata } from '../../src/wire/resources/authorization-server-metadata.ts'
import { DEFAULT_SPEC_NS } from '../../src/wire/names.ts'
import { startScriptedServer } from '../support/scripted-http.ts'
import { startedForEach } from '../support/started.ts'

const server = startedForEach(() => startScriptedServer(() => undefined))

/** A client that nobody has registered. */
const provider = {
  redirectUrl: 'http://127.0.0.1/callback',
  clientMetadata: { client_name: 'test', redirect_uris: ['http://127.0.0.1/callback'] },
  clientInformation: () => undefined,
  tokens: () => undefined,
  saveTokens: () => undefined,
  saveClientInformation: () => undefined,
  redirectToAuthorization: () => undefined,
  saveCodeVerifier: () => undefined,
  codeVerifier: () => '',
}

test.each<[string, typeof auth1]>([
  ['1.x', auth1],
  ['2.x', auth2],
])(
  'the SDK %s says that the authority registers no clients, and not which member is missing',
  async (_sdk, auth) => {
    const issuer = server.origin
    const resource = `${issuer}/mcp/alice`
    server.script('/.well-known/oauth-protected-resource/mcp/alice', {
      body: { resource, authorization_servers: [issuer] },
    })
    server.script('/.well-known/oauth-authorization-server', {
      body: authorizationServerMetadata({ issuer, specNs: DEFAULT_SPEC_NS }),
    })
    const refused = await auth(provider, { serverUrl: resource }).then(
      () => undefined,
      (error: unknown) => error as Error,
    )
    expect(refused?.name).toBe('Error')
    expect(refused?.message).toBe('Incompatible auth server: does not support dynamic client registration')
  },
)
