/** Contract, "Registry materialization": hostile and broken publications, of which nothing lands. */
import { describe, expect, it } from 'vitest'
import { signJws } from '../../src/wire/signatures/jws.ts'
import { generatePrivateJwk, importPrivateJwk } from '../../src/wire/signatures/keys.ts'
import { TYP } from '../../src/wire/names.ts'
import { ISSUER } from '../support/authority.ts'
import { listed, pulled, registryOf, sourcesOf } from '../support/registry.ts'
import { ageDecision, decideServer, startResourceServer, type Twists } from '../support/resource-server.ts'
import type { Reply } from '../support/scripted-http.ts'
import { authorityStand } from '../support/stands.ts'
import { startedOnce } from '../support/started.ts'

const authority = authorityStand({ owners: ['alice', 'bea'], environment: { UMA_DEV_LOOPBACK: 'true' } })
const tools = startedOnce(() => startResourceServer(ISSUER))
const sources = sourcesOf(authority, tools)

let count = 0

describe('Nothing lands of', () => {
  const hostile = importPrivateJwk(generatePrivateJwk())
  const forged = (plain: string): string => {
    const payload = JSON.parse(Buffer.from(plain.split('.')[1]!, 'base64url').toString()) as object
    return signJws({ typ: TYP.signedMetadata, payload }, hostile)
  }
  it.each<[string, string, Twists]>([
    ['metadata that is not signed', 'metadata_unsigned', { signed: () => undefined }],
    ['metadata that another key signed', 'metadata_signature', { signed: forged }],
    [
      'signed metadata whose text was changed',
      'metadata_signature',
      { signed: plain => `${plain.slice(0, -8)}AAAAAAAA` },
    ],
    [
      'claims that another resource issued',
      'metadata_signature',
      { claims: plain => ({ ...plain, iss: 'https://other.example/mcp' }) },
    ],
    [
      'claims about another resource',
      'metadata_signature',
      { claims: plain => ({ ...plain, resource: 'https://other.example/mcp' }) },
    ],
    [
      'claims that hold signed metadata again',
      'metadata_signature',
      { claims: plain => ({ ...plain, signed_metadata: 'x.y.z' }) },
    ],
    [
      'claims that name another authority',
      'metadata_inconsistent',
      { claims: plain => ({ ...plain, authorization_servers: ['https://other.example'] }) },
    ],
    [
      'claims whose keys are at another origin',
      'metadata_inconsistent',
      { claims: plain => ({ ...plain, jwks_uri: 'https://other.example/jwks' }) },
    ],
    [
      'claims without an endpoint, though the plain document has one',
      'endpoint_missing',
      { claims: ({ owner_resources_endpoint: _left, ...rest }) => rest },
    ],
    [
      'an endpoint at another origin',
      'endpoint_elsewhere',
      {
        claims: plain => ({ ...plain, owner_resources_endpoint: 'https://other.example/owner-resources/x' }),
      },
    ],
    [
      "another owner's listing",
      'listing_other_owner',
      { listing: () => ({ owner: 'bea', resources: [listed('x', { _id: 'bea/x' })] }) },
    ],
    [
      'a listing of hers that names resources of another',
      'listing_malformed',
      { listing: plain => ({ ...plain, resources: [listed('good'), listed('x', { _id: 'bea/x' })] }) },
    ],
    [
      'a listing that names one twice',
      'listing_malformed',
      { listing: plain => ({ ...plain, resources: [listed('twice'), listed('twice')] }) },
    ],
    [
      'a listing whose scopes are no list',
      'listing_malformed',
      { listing: plain => ({ ...plain, resources: [{ ...listed('x'), resource_scopes: 'read' }] }) },
    ],
    ['an empty listing', 'listing_malformed', { listing: () => ({}) }],
  ])('%s: %s', async (_what, fault, twists) => {
    const before = await sources.resources()
    const name = await sources.published([listed(`never-${sources.next()}`)], twists)
    expect(await sources.state(name)).toMatchObject({ landed_at: null, fault })
    expect(await sources.resources()).toEqual(before)
    expect(await sources.resources(authority.owners['bea'])).toHaveLength(4)
  })

  it.each<[string, string, Reply]>([
    ['is refused', 'listing_status', { status: 401, body: { error: 'invalid_token' } }],
    ['redirects', 'listing_status', { status: 302, headers: { location: '/elsewhere' } }],
    ['is no JSON', 'listing_malformed', { body: '<html>' }],
    ['has members twice', 'listing_malformed', { body: '{"owner":"alice","owner":"alice","resources":[]}' }],
    [
      'is over 1 MiB',
      'listing_too_large',
      { body: { owner: 'alice', resources: [], x: 'x'.repeat(1_048_576) } },
    ],
    ['breaks off', 'listing_broken', { write: response => void response.destroy() }],
  ])('a listing that %s: %s', async (_what, fault, script) => {
    tools.server.script(`/owner-resources/${sources.next()}`, script)
    const name = await sources.published([listed(`never-${sources.next()}`)])
    expect(await sources.state(name)).toMatchObject({ landed_at: null, fault })
  })

  it('nothing is asked at an address that only the plain document names', async () => {
    const other = await startResourceServer(ISSUER)
    const name = sources.next()
    const steered: Twists = {
      document: plain => ({ ...plain, owner_resources_endpoint: `${other.origin}/owner-resources/alice` }),
      claims: plain => ({ ...plain, owner_resources_endpoint: `${tools.origin}/owner-resources/${name}` }),
    }
    await sources.published([listed('signed-place')], steered)
    expect(other.server.received).toEqual([])
    expect(await sources.resource('signed-place')).toBeDefined()
    await other.close()
  })

  it('a resource server that waits for her, whatever /perm or time do', async () => {
    const name = `raw-${count++}`
    tools.listings[name] = [listed('waiting')]
    await tools.register(authority, name)
    expect(await registryOf(authority, tools.resource(name))).toMatchObject({ landed_at: null })
    expect(tools.server.to(`/owner-resources/${name}`)).toEqual([])
    expect(await sources.resource('waiting')).toBeUndefined()
  })

  it('a resource server that she withdraws while its listing is on the way, even if she approves it again', async () => {
    const name = `raw-${count++}`
    const asked = Promise.withResolvers<void>()
    const answer = Promise.withResolvers<void>()
    tools.server.script(`/owner-resources/${name}`, (_received, nth) =>
      nth > 1
        ? undefined
        : {
            write: async response => {
              asked.resolve()
              await answer.promise
              const body = JSON.stringify({ owner: 'alice', resources: [listed('too-late')] })
              response.writeHead(200, { 'content-type': 'application/json' }).end(body)
            },
          },
    )
    tools.listings[name] = [listed('in-time')]
    await tools.register(authority, name)
    await decideServer(authority, tools.resource(name), 'approved')
    await asked.promise
    await decideServer(authority, tools.resource(name), 'revoked')
    await ageDecision(authority, tools.resource(name))
    await tools.register(authority, name)
    await decideServer(authority, tools.resource(name), 'approved')
    answer.resolve()
    await pulled(authority, tools.resource(name))
    expect(await sources.resource('in-time')).toBeDefined()
    expect(await sources.resource('too-late')).toBeUndefined()
  })
})
