/**
 * Contract, "Authentication" (resource server at the token endpoint) and "Token endpoint": a PAT by
 * signature.
 */
import { beforeAll, describe, expect, it } from 'vitest'
import { generatePrivateJwk, importPrivateJwk } from '../../src/wire/signatures/keys.ts'
import { verifyPat } from '../../src/wire/negotiation/tokens.ts'
import { CLIENT_ID, ISSUER, startTestAuthority } from '../support/authority.ts'
import { decideServer, startResourceServer, type Signing } from '../support/resource-server.ts'
import { authorityStand } from '../support/stands.ts'
import { startedOnce } from '../support/started.ts'

const authority = authorityStand({ owners: ['alice', 'bea'], environment: { UMA_DEV_LOOPBACK: 'true' } })
const tools = startedOnce(() => startResourceServer(ISSUER))
beforeAll(async () => {
  await tools.register(authority, 'alice')
  await decideServer(authority, tools.resource('alice'), 'approved')
})

const stranger = importPrivateJwk(generatePrivateJwk())
const ago = (seconds: number) => Math.floor(Date.now() / 1000) - seconds

describe('client_credentials by signature', () => {
  it('auth-rs-token-endpoint: a PAT for the owner that is named, signed with a key published at its own origin', async () => {
    const reply = await tools.token(authority, 'alice')
    expect(reply.status).toBe(200)
    expect(reply.body).toMatchObject({ token_type: 'Bearer', expires_in: 3600, scope: 'uma_protection' })
    expect(
      verifyPat(reply.body.access_token, authority.config.keys, { issuer: authority.issuer }),
    ).toMatchObject({ sub: 'alice', azp: tools.resource('alice') })
  })

  it('the same signed request again brings another PAT: it changes nothing, so it may be sent twice', async () => {
    const sign = { nonce: 'twice', created: ago(1) }
    const replies = [
      await tools.token(authority, 'alice', { sign }),
      await tools.token(authority, 'alice', { sign }),
    ]
    expect(replies.map(({ status }) => status)).toEqual([200, 200])
  })

  it('both kinds of credential at once are 400: one way to prove oneself', async () => {
    const reply = await tools.token(authority, 'alice', { form: { client_secret: 'x'.repeat(20) } })
    expect([reply.status, reply.body.error]).toEqual([400, 'invalid_request'])
  })

  it('without client_id 401, without owner 400: there is no default', async () => {
    const nobody = await tools.token(authority, 'alice', { form: { client_id: undefined } })
    expect([nobody.status, nobody.body.error]).toEqual([401, 'invalid_client'])
    const nowhere = await tools.token(authority, 'alice', { form: { owner: undefined } })
    expect([nowhere.status, nowhere.body.error]).toEqual([400, 'invalid_request'])
  })
})

describe('client_id', () => {
  it('may be the origin of the resource, if that is one server of this owner', async () => {
    const one = await startResourceServer(ISSUER)
    await one.register(authority, 'alice')
    await decideServer(authority, one.resource('alice'), 'approved')
    const byOrigin = (form: object = {}) =>
      one.token(authority, 'alice', { form: { client_id: one.origin, ...form } })
    const reply = await byOrigin()
    expect(reply.status).toBe(200)
    expect(
      verifyPat(reply.body.access_token, authority.config.keys, { issuer: authority.issuer }),
    ).toMatchObject({ sub: 'alice', azp: one.resource('alice') })

    // For another owner, and with a key that is published elsewhere, it names nothing.
    expect((await byOrigin({ owner: 'bea' })).status).toBe(401)
    const forged = { form: { client_id: one.origin }, sign: { key: stranger } }
    expect((await one.token(authority, 'alice', forged)).status).toBe(401)
    expect((await byOrigin({ client_id: `${one.origin}/` })).status).toBe(401)

    // A second one there, though it only waits: the origin names neither, and the answer says what to name.
    await one.register(authority, 'second')
    const ambiguous = await byOrigin()
    expect([ambiguous.status, ambiguous.body.error]).toEqual([401, 'invalid_client'])
    expect(ambiguous.body.error_description).toContain('Name the resource as client_id')
    expect((await one.token(authority, 'alice')).status).toBe(200)
    await decideServer(authority, one.resource('second'), 'revoked')
    expect((await byOrigin()).status).toBe(200)
    await one.close()
  })

  it('a secret goes with the client_id of its record alone', async () => {
    const { resourceUri, clientSecret } = authority.alice
    const form = { client_id: new URL(resourceUri).origin, client_secret: clientSecret }
    expect((await tools.token(authority, 'alice', { form, sign: false })).status).toBe(401)
  })
})

describe('An empty authorization is none', () => {
  it('it may be sent and covered beside the signature', async () => {
    const components = ['@method', '@authority', '@path', 'authorization', 'content-digest']
    for (const headers of [{ authorization: '' }, {}]) {
      const reply = await tools.token(authority, 'alice', { sign: { components }, headers })
      expect(reply.status).toBe(200)
    }
    const covered = { sign: { components }, headers: { authorization: 'Basic eDp5' } }
    expect((await tools.token(authority, 'alice', covered)).status).toBe(400)
  })
})

describe('The stored record says which credential applies, and the other is never one', () => {
  it.each(['x'.repeat(20), ''])(
    'a server registered by signature cannot fall back to a secret (%j)',
    async secret => {
      const form = { client_id: tools.resource('alice'), client_secret: secret }
      const reply = await tools.token(authority, 'alice', { form, sign: false })
      expect([reply.status, reply.body.error]).toEqual([401, 'invalid_client'])
    },
  )

  it('nor to HTTP Basic', async () => {
    const basic = Buffer.from(`${encodeURIComponent(tools.resource('alice'))}:`).toString('base64')
    const reply = await authority.request('POST', '/token', {
      headers: { 'content-type': 'application/x-www-form-urlencoded', authorization: `Basic ${basic}` },
      body: 'grant_type=client_credentials&scope=uma_protection&owner=alice',
    })
    expect([reply.status, reply.body.error]).toEqual([401, 'invalid_client'])
  })

  it('a server with a secret gets nothing by signature', async () => {
    const reply = await tools.token(authority, 'alice', { form: { client_id: CLIENT_ID } })
    expect([reply.status, reply.body.error]).toEqual([401, 'invalid_client'])
  })
})

describe('The order of refusals', () => {
  it('an unknown owner, an unknown client, a record with a secret and a wrong key are 401, all alike', async () => {
    const replies = [
      await tools.token(authority, 'alice', { sign: { key: stranger } }),
      await tools.token(authority, 'alice', { form: { owner: 'nobody' } }),
      await tools.token(authority, 'alice', { form: { owner: 'bea' } }),
      await tools.token(authority, 'alice', { form: { client_id: tools.resource('other') } }),
      await tools.token(authority, 'alice', { form: { client_id: CLIENT_ID } }),
    ]
    for (const reply of replies) {
      expect([reply.status, reply.body.error]).toEqual([401, 'invalid_client'])
      expect(reply.text).toBe(replies[0]!.text)
    }
  })

  it('the credential goes before the state: who cannot sign is not told that it waits', async () => {
    await tools.register(authority, 'waits')
    const reply = await tools.token(authority, 'waits', { sign: { key: stranger } })
    expect(reply.status).toBe(401)
  })

  it('error-authorization-pending: while pending, 403 authorization_pending, whatever the scope', async () => {
    await tools.register(authority, 'waits')
    const reply = await tools.token(authority, 'waits', { form: { scope: 'openid' } })
    expect([reply.status, reply.body.error]).toEqual([403, 'authorization_pending'])
  })

  it('revoked, 403 access_denied, whatever the scope', async () => {
    await tools.register(authority, 'withdrawn')
    await decideServer(authority, tools.resource('withdrawn'), 'revoked')
    const reply = await tools.token(authority, 'withdrawn', { form: { scope: undefined } })
    expect([reply.status, reply.body.error]).toEqual([403, 'access_denied'])
  })

  it('another scope is 400 invalid_scope', async () => {
    const reply = await tools.token(authority, 'alice', { form: { scope: 'openid' } })
    expect([reply.status, reply.body.error]).toEqual([400, 'invalid_scope'])
  })
})

describe('A signature that is not good is 401', () => {
  it.each<[string, Signing | false]>([
    ['none', false],
    ['of a key that is published nowhere', { key: stranger }],
    ['of another key under the published kid', { key: stranger, keyid: 'published' }],
    ['without a keyid', { keyid: false }],
    ['over another authority', { issuer: 'https://evil.example' }],
    ['too old', { created: ago(62) }],
    ['from the future', { created: ago(-600) }],
    ['that does not cover the body', { components: ['@method', '@authority', '@path'] }],
    ['over another body', { digestOf: 'grant_type=client_credentials' }],
    ['that does not cover the method', { components: ['@authority', '@path', 'content-digest'] }],
  ])('%s', async (_what, given) => {
    const sign = given !== false && given.keyid === 'published' ? { ...given, keyid: tools.key.kid } : given
    const reply = await tools.token(authority, 'alice', { sign })
    expect([reply.status, reply.body.error]).toEqual([401, 'invalid_client'])
  })

  it("one resource server's key says nothing for another's resource", async () => {
    const other = await startResourceServer(ISSUER)
    await other.register(authority, 'alice')
    await decideServer(authority, other.resource('alice'), 'approved')
    const reply = await tools.token(authority, 'alice', { form: { client_id: other.resource('alice') } })
    expect(reply.status).toBe(401)
    expect((await other.token(authority, 'alice')).status).toBe(200)
    await other.close()
  })
})

describe('Keys come from the documents of the registered resource', () => {
  /** A replica that has read nothing yet. */
  const onAnother = async (name: string): Promise<{ status: number; body: { error?: string } }> => {
    const replica = await startTestAuthority({ beside: authority })
    const reply = await tools.token(replica, name)
    await replica.close()
    return reply
  }
  const registered = async (name: string) => {
    await tools.register(authority, name)
    await decideServer(authority, tools.resource(name), 'approved')
  }

  it('if they cannot be had, 503: that may be over in a moment', async () => {
    await registered('gone')
    tools.server.script(tools.documentPath('gone'), { status: 502 })
    const reply = await onAnother('gone')
    expect([reply.status, reply.body.error]).toEqual([503, 'temporarily_unavailable'])
  })

  it('if the document does not name us any more, 401', async () => {
    await registered('left')
    tools.twists['left'] = { document: plain => ({ ...plain, authorization_servers: ['https://x.example'] }) }
    const reply = await onAnother('left')
    expect([reply.status, reply.body.error]).toEqual([401, 'invalid_client'])
  })

  it('if its keys moved to another origin, 401, and nothing is asked there', async () => {
    const other = await startResourceServer(ISSUER)
    await registered('moved')
    tools.twists['moved'] = { document: plain => ({ ...plain, jwks_uri: `${other.origin}/jwks/moved` }) }
    const reply = await onAnother('moved')
    expect([reply.status, reply.body.error]).toEqual([401, 'invalid_client'])
    expect(other.server.received).toEqual([])
    await other.close()
  })
})
