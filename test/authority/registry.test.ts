/**
 * Contract, "Registry materialization": what lands of what resource servers publish, and how it is replaced.
 */
import { describe, expect, it } from 'vitest'
import { verifyRequest } from '../../src/wire/signatures/http-signature.ts'
import { generatePrivateJwk, importPrivateJwk, publicJwk } from '../../src/wire/signatures/keys.ts'
import { ISSUER, startTestAuthority } from '../support/authority.ts'
import { listed, pulled, registryOf, sourcesOf } from '../support/registry.ts'
import { decideServer, startResourceServer, type Twists } from '../support/resource-server.ts'
import { decide, testAgent } from '../support/test-agent.ts'
import { readRptClaims } from '../../src/wire/negotiation/tokens.ts'
import { authorityStand } from '../support/stands.ts'
import { startedOnce } from '../support/started.ts'

const authority = authorityStand({ owners: ['alice', 'bea'], environment: { UMA_DEV_LOOPBACK: 'true' } })
const tools = startedOnce(() => startResourceServer(ISSUER))
const sources = sourcesOf(authority, tools)

/**
 * What a grant of that resource says of consequences: its RPT, and introspection by the server that it is
 * for.
 */
async function consequencesOf(name: string, id: string) {
  await sources.govern(id)
  const agent = testAgent(authority)
  const { body } = await agent.present((await sources.perm(name, id)).body.ticket)
  const template = body.required_claims[0].terms_template
  const asked = await agent.agree({ ticket: body.ticket, template })
  await decide(authority, agent.handle, 'approved')
  const token = (await agent.present(asked.body.ticket)).body.access_token as string
  const introspect = async () => {
    const { active, consequence, consequences } = (
      await authority.request('POST', '/introspect', {
        headers: {
          authorization: `Bearer ${await tools.pat(authority, name)}`,
          'content-type': 'application/json',
        },
        body: JSON.stringify({ token }),
      })
    ).body
    return { active, consequence, consequences }
  }
  return { introspect, claims: readRptClaims(token) }
}

describe('Classes that a listing tells by tool', () => {
  const classes = [
    { tool: 'read', consequence: 'reversible' },
    { tool: 'drop', consequence: 'irreversible' },
    { tool: 'guess', consequence: 'harmless' },
    { tool: 'look' },
  ]

  it('are what introspection answers of a grant, as they were declared when it was given, and the RPT names the gravest', async () => {
    const name = await sources.published([listed('by-tool', { tools: classes })])
    const { introspect, claims } = await consequencesOf(name, 'by-tool')
    const consequences = { read: 'reversible', drop: 'irreversible' }
    expect(await introspect()).toEqual({ active: true, consequence: 'irreversible', consequences })
    expect(claims).toMatchObject({ consequence: 'irreversible' })
    tools.listings[name] = [listed('by-tool', { tools: [{ tool: 'read', consequence: 'compensatable' }] })]
    await sources.pullAgain(name)
    expect(await sources.resource('by-tool')).toMatchObject({ consequence: 'compensatable' })
    expect(await introspect()).toMatchObject({ consequence: 'irreversible', consequences })
  })

  it('make the resource no milder than the gravest of them, whatever it says of itself', async () => {
    await sources.published([listed('milder', { consequence: 'reversible', tools: classes })])
    expect(await sources.resource('milder')).toMatchObject({ consequence: 'irreversible' })
    await sources.published([listed('graver', { consequence: 'irreversible', tools: classes.slice(0, 1) })])
    expect(await sources.resource('graver')).toMatchObject({ consequence: 'irreversible' })
  })

  it('are not there where a resource server does not tell its tools apart: the class of the resource stands alone', async () => {
    const name = await sources.published([listed('whole', { consequence: 'compensatable' })])
    const { introspect } = await consequencesOf(name, 'whole')
    expect(await introspect()).toEqual({ active: true, consequence: 'compensatable' })
  })
})

describe('On approval', () => {
  it('the listing lands at once, each resource with its scopes and its consequence class', async () => {
    const name = await sources.published([
      listed('notes', { name: 'Notes', resource_scopes: ['read', 'write'], consequence: 'compensatable' }),
      listed('files'),
    ])
    expect(await sources.state(name)).toEqual({
      landed_at: expect.any(String),
      failed_at: null,
      fault: null,
      conflicts: 0,
    })
    expect(await sources.resource('notes')).toEqual({
      _id: 'alice/notes',
      name: 'Notes',
      type: 'tool',
      resource_scopes: ['read', 'write'],
      consequence: 'compensatable',
      tier: null,
      tier_name: null,
      ask_me: null,
      source: 'pulled',
      client_id: tools.resource(name),
      approval: null,
    })
    expect(await sources.resource('files')).toMatchObject({ consequence: null })
  })

  it.each(['harmless', 'Irreversible', 'IRREVERSIBLE'])(
    'an unknown consequence class is undeclared: %s',
    async consequence => {
      const id = `odd-${consequence}`
      await sources.published([listed(id, { consequence })])
      expect(await sources.resource(id)).toMatchObject({ consequence: null })
    },
  )

  it('auth-authority-at-resource: the listing is asked for with a signature by the key that the authority publishes', async () => {
    const name = await sources.published([])
    const [query] = tools.server.to(`/owner-resources/${name}`)
    const verified = verifyRequest(
      {
        method: 'GET',
        scheme: 'http',
        authority: new URL(tools.origin).host,
        path: query!.path,
        query: query!.query,
        headers: query!.lines,
      },
      {
        // Sent empty and covered: the verifier has no reading of its own for an absent one.
        requiredComponents: ['@method', '@authority', '@path', 'authorization'],
        now: Math.floor(Date.now() / 1000),
        keyidRequired: true,
        findKey: keyid => authority.config.keys.find(({ kid }) => kid === keyid),
      },
    )
    expect(verified.key.x).toBe(authority.config.keys[0]!.x)
  })

  it('the query of an endpoint is signed too', async () => {
    const claims: Twists['claims'] = plain => ({
      ...plain,
      owner_resources_endpoint: `${String(plain['owner_resources_endpoint'])}?of=alice`,
    })
    const name = await sources.published([listed('asked')], { claims })
    expect(tools.server.to(`/owner-resources/${name}`)[0]).toMatchObject({ query: 'of=alice' })
    expect(tools.server.to(`/owner-resources/${name}`)[0]!.headers['signature-input']).toContain('"@query"')
    expect(await sources.resource('asked')).toBeDefined()
  })

  it('behaviour-ungoverned-denied: what landed is governed by nothing, so it is denied until she says otherwise', async () => {
    const name = await sources.published([listed('secret')])
    const { body } = await sources.perm(name, 'secret')
    const agent = testAgent(authority)
    const before = await agent.present(body.ticket)
    expect([before.status, before.body.error]).toEqual([403, 'request_denied'])
    await sources.govern('secret')
    const ticket = (await sources.perm(name, 'secret')).body.ticket as string
    expect((await agent.present(ticket)).body.error).toBe('need_info')
  })
})

describe('A listing replaces what the same source listed before', () => {
  it('new ones come, changed ones change, others go', async () => {
    const name = await sources.published([listed('one'), listed('two', { consequence: 'reversible' })])
    tools.listings[name] = [
      listed('two', { resource_scopes: ['write'], consequence: 'irreversible' }),
      listed('three'),
    ]
    await sources.pullAgain(name)
    expect(await sources.resource('one')).toBeUndefined()
    expect(await sources.resource('two')).toMatchObject({
      resource_scopes: ['write'],
      consequence: 'irreversible',
    })
    expect(await sources.resource('three')).toBeDefined()
    tools.listings[name] = []
    await sources.pullAgain(name)
    expect(await sources.resource('two')).toBeUndefined()
  })

  it('and nothing of another source, or of what was provisioned', async () => {
    const other = await sources.published([listed('theirs')])
    const name = await sources.published([listed('ours')])
    tools.listings[name] = []
    await sources.pullAgain(name)
    expect(await sources.resource('theirs')).toBeDefined()
    expect((await sources.resources()).filter(({ source }) => source === 'provisioned')).toHaveLength(4)
    expect(await sources.state(other)).toMatchObject({ fault: null })
  })

  it('a resource under a tier keeps its tier, whatever changes about it', async () => {
    const name = await sources.published([listed('kept')])
    await sources.govern('kept')
    tools.listings[name] = [listed('kept', { name: 'Renamed', consequence: 'irreversible' })]
    await sources.pullAgain(name)
    expect(await sources.resource('kept')).toMatchObject({ name: 'Renamed', tier: 'tier-kept' })
  })

  it('one under a tier that is listed no more has no scopes left, and its tier when it comes back', async () => {
    const name = await sources.published([listed('away')])
    await sources.govern('away')
    tools.listings[name] = []
    await sources.pullAgain(name)
    expect(await sources.resource('away')).toMatchObject({ resource_scopes: [], tier: 'tier-away' })
    const gone = await sources.perm(name, 'away')
    expect([gone.status, gone.body.error]).toEqual([400, 'invalid_resource_id'])
    tools.listings[name] = [listed('away')]
    await sources.pullAgain(name, 'away')
    expect(await sources.resource('away')).toMatchObject({ resource_scopes: ['read'], tier: 'tier-away' })
    expect((await sources.perm(name, 'away')).status).toBe(201)
  })

  it('a pull that fails leaves what landed before', async () => {
    const name = await sources.published([listed('stays')])
    tools.server.script(`/owner-resources/${name}`, { status: 500 })
    await sources.pullAgain(name)
    expect(await sources.state(name)).toMatchObject({
      landed_at: expect.any(String),
      failed_at: expect.any(String),
      fault: 'listing_status',
    })
    expect(await sources.resource('stays')).toBeDefined()
  })
})

describe('An id belongs to one resource server', () => {
  it('that of another active one is not taken, the rest lands, and she is told', async () => {
    const first = await sources.published([listed('mine')])
    await sources.govern('mine')
    const second = await sources.published([listed('mine', { name: 'Stolen' }), listed('own')])
    expect(await sources.state(second)).toMatchObject({ landed_at: expect.any(String), conflicts: 1 })
    expect(await sources.resource('mine')).toMatchObject({ name: 'mine', tier: 'tier-mine' })
    expect(await sources.resource('own')).toBeDefined()
    expect((await sources.perm(second, 'mine')).body.error).toBe('invalid_resource_id')
    expect((await sources.perm(first, 'mine')).status).toBe(201)
  })

  it('a provisioned one is not taken either', async () => {
    const name = await sources.published([listed('portfolio', { resource_scopes: ['read', 'everything'] })])
    expect(await sources.state(name)).toMatchObject({ conflicts: 1 })
    expect(await sources.resource('portfolio')).toMatchObject({
      source: 'provisioned',
      resource_scopes: ['read'],
    })
  })

  it('that of a withdrawn one changes hands, ungoverned: her terms were for the other', async () => {
    const first = await sources.published([listed('handed')])
    await sources.govern('handed')
    await decideServer(authority, tools.resource(first), 'revoked')
    await sources.published([listed('handed', { name: 'New' })])
    expect(await sources.resource('handed')).toMatchObject({ name: 'New', tier: null })
  })

  it('a place without scopes under a tier is not taken either', async () => {
    const first = await sources.published([listed('place')])
    await sources.govern('place')
    tools.listings[first] = []
    await sources.pullAgain(first)
    const second = await sources.published([listed('place')])
    expect(await sources.state(second)).toMatchObject({ conflicts: 1 })
    expect(await sources.resource('place')).toMatchObject({ resource_scopes: [], tier: 'tier-place' })
  })
})

describe('A provisioned resource server', () => {
  it('that publishes is pulled from too: its listing says how what it names is, the rest stays as declared', async () => {
    tools.listings['provisioned'] = [listed('portfolio', { name: 'Portfolio', consequence: 'irreversible' })]
    const other = await startTestAuthority({
      environment: { UMA_DEV_LOOPBACK: 'true' },
      provision: document => {
        const [server] = document.owners[0]!.resource_servers
        Object.assign(server!, { resource_uri: tools.resource('provisioned'), publishes: true })
        return document
      },
    })
    await pulled(other, 'demo-tools')
    const { body } = await other.call(other.alice, { target: '/owner/resources' })
    expect(body).toMatchObject([
      { _id: 'alice/account', source: 'provisioned' },
      {
        _id: 'alice/portfolio',
        name: 'Portfolio',
        consequence: 'irreversible',
        source: 'pulled',
        tier: 'reading',
      },
      { _id: 'alice/statements', source: 'provisioned' },
      { _id: 'alice/trades', source: 'provisioned', tier: 'trading' },
    ])
    await other.close()
  })

  it('that does not is never asked', async () => {
    const reply = await authority.request('POST', '/perm', {
      headers: { authorization: `Bearer ${await authority.pat()}`, 'content-type': 'application/json' },
      body: '{"resource_id":"alice/none","resource_scopes":["read"]}',
    })
    expect([reply.status, reply.body.error]).toEqual([400, 'invalid_resource_id'])
    expect(await registryOf(authority, 'demo-tools')).toBeNull()
  })
})

describe('Keys', () => {
  it('the metadata is verified by the key it names, of all that are published', async () => {
    const other = importPrivateJwk(generatePrivateJwk())
    const keys: Twists['keys'] = () => ({ keys: [publicJwk(other), publicJwk(tools.key)] })
    const name = await sources.published([listed('two-keys')], { keys })
    expect(await sources.state(name)).toMatchObject({ fault: null })
  })
})
