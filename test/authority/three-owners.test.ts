/**
 * Three owners on one authority: whatever one of them asks about what is another's is answered as if it did not exist, to the
 * letter. Contract, "Owner API" (every operation acts on the owner the credential proved) and "Grant (RPT) liveness".
 */
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { OPERATIONS } from '../../src/authority/operations.ts'
import { lockOperator } from '../../src/storage/connections.ts'
import { inTransaction } from '../../src/storage/database.ts'
import { appendEvent } from '../../src/storage/events.ts'
import { appendLedger } from '../../src/storage/ledger.ts'
import { insertDeviceKey } from '../../src/storage/owners.ts'
import { insertLogin } from '../../src/storage/logins.ts'
import { insertResourceServer } from '../../src/storage/resources.ts'
import { generatePrivateJwk, importPrivateJwk, publicJwk } from '../../src/wire/keys.ts'
import { readRptClaims, signRpt } from '../../src/wire/tokens.ts'
import { startTestAuthority, type OwnerCall, type Reply, type TestAuthority } from '../support/authority.ts'
import * as seed from '../support/seed.ts'
import { protectionCall, testAgent } from '../support/test-agent.ts'

let authority: TestAuthority
/** What bea has, by what it is called. */
const hers: Record<string, string> = {}
/** The same kind of name, of nothing at all. */
const none: Record<string, string> = {
  family: 'fam_AAAAAAAAAAA',
  handle: `jkt:${'A'.repeat(43)}`,
  origin: 'https://unheard-of.example',
  tier: 'unheard-of',
  resource: 'unheard/of',
  server: 'unheard-of',
  kid: 'B'.repeat(43),
  login: 'login_AAAAAAAAAAA',
}

beforeAll(async () => {
  authority = await startTestAuthority({ owners: ['alice', 'bea', 'carol'] })
  await furnish('bea')
})
afterAll(() => authority.close())

/** Gives an owner one of each thing that can be named. */
async function furnish(owner: string): Promise<void> {
  const { db } = authority.database
  const key = importPrivateJwk(generatePrivateJwk())
  hers['handle'] = seed.name('jkt:')
  hers['origin'] = 'https://operator.example'
  await seed.seedConnection(db, owner, hers['handle'], { operator: hers['origin'] })
  hers['family'] = (await seed.seedWaiting(db, owner, seed.name('jkt:'))).family
  hers['tier'] = 'private'
  hers['resource'] = `${owner}/account`
  const tier = {
    id: hers['tier'],
    name: 'Private',
    resources: [hers['resource']],
    terms: { purpose: 'hers', scope: ['close'], expires_in: 60 },
  }
  await authority.call(authority.owners[owner]!, { method: 'POST', target: '/owner/policies', json: tier })
  hers['server'] = 'her-tools'
  hers['kid'] = key.thumbprint
  const resource_uri = 'https://hers.example/mcp/bea'
  await inTransaction(db, async tx => {
    await insertDeviceKey(tx, { owner, kid: key.thumbprint, jwk: publicJwk(key), name: 'phone' })
    const login = { owner, name: 'realm', issuer: 'https://realm.example', subject: 'bea' }
    hers['login'] = (await insertLogin(tx, login))!.id
    await insertResourceServer(tx, {
      owner,
      client_id: hers['server']!,
      name: 'Hers',
      resource_uri,
      status: 'active',
      auth: 'secret',
      secret_sha256: seed.bytes(),
    })
    await lockOperator(tx, owner, hers['origin']!)
    await appendLedger(tx, owner, { kind: 'touched', handle: hers['handle']! })
    await appendEvent(tx, owner, 'decided', { family: 'hers' })
  })
}

const TERMS = { purpose: 'mine', scope: ['close'], expires_in: 60 }
const tierOver = (resource: string, id = 'mine') => ({
  id,
  name: 'Mine',
  resources: [resource],
  terms: TERMS,
})

/** Each operation that can be asked about something by name, and how; by method and path. */
const NAMING: Record<string, (named: Record<string, string>) => OwnerCall> = {
  'post /owner/pending/{family}/decision': ({ family }) => ({
    method: 'POST',
    target: `/owner/pending/${family}/decision`,
    json: { decision: 'approved' },
  }),
  'put /owner/policies/{tier_id}': ({ tier }) => ({
    method: 'PUT',
    target: `/owner/policies/${tier}`,
    json: { name: 'Mine', resources: [], terms: TERMS },
  }),
  'delete /owner/policies/{tier_id}': ({ tier }) => ({ method: 'DELETE', target: `/owner/policies/${tier}` }),
  'post /owner/policies': ({ resource }) => ({
    method: 'POST',
    target: '/owner/policies',
    json: tierOver(resource!),
  }),
  'post /owner/policies/preview': ({ resource }) => ({
    method: 'POST',
    target: '/owner/policies/preview',
    json: { tier: tierOver(resource!) },
  }),
  'post /owner/connections/revoke': ({ handle }) => ({
    method: 'POST',
    target: '/owner/connections/revoke',
    json: { handle },
  }),
  ...Object.fromEntries(
    ['block', 'unblock', 'claim', 'disclaim'].map(verb => [
      `post /owner/operators/${verb}`,
      ({ origin }: Record<string, string>): OwnerCall => ({
        method: 'POST',
        target: `/owner/operators/${verb}`,
        json: { origin },
      }),
    ]),
  ),
  'post /owner/resource-servers/decision': ({ server }) => ({
    method: 'POST',
    target: '/owner/resource-servers/decision',
    json: { client_id: server, decision: 'approved' },
  }),
  'post /owner/resource-servers/{id}/revoke': ({ server }) => ({
    method: 'POST',
    target: `/owner/resource-servers/${server}/revoke`,
  }),
  'delete /owner/device-keys/{kid}': ({ kid }) => ({ method: 'DELETE', target: `/owner/device-keys/${kid}` }),
  'delete /owner/logins/{id}': ({ login }) => ({ method: 'DELETE', target: `/owner/logins/${login}` }),
  'get /owner/pending': ({ family }) => ({ target: `/owner/pending?after=${family}` }),
  'get /owner/connections': ({ handle }) => ({
    target: `/owner/connections?after=${encodeURIComponent(handle!)}`,
  }),
  'get /owner/operators': ({ origin }) => ({ target: `/owner/operators?after=${origin}` }),
  'get /owner/policies': ({ tier }) => ({ target: `/owner/policies?after=${tier}` }),
  'get /owner/resources': ({ resource }) => ({ target: `/owner/resources?after=${resource}` }),
  'get /owner/resource-servers': ({ server }) => ({ target: `/owner/resource-servers?after=${server}` }),
  'get /owner/device-keys': ({ kid }) => ({ target: `/owner/device-keys?after=${kid}` }),
  'get /owner/logins': ({ login }) => ({ target: `/owner/logins?after=${login}` }),
  'get /owner/ledger': ({ handle }) => ({ target: `/owner/ledger?handle=${encodeURIComponent(handle!)}` }),
}

/** Those that name nothing of anybody's: what they make or tell is the caller's own. */
const NAMELESS = new Set([
  'get /owner/policy-vocabulary',
  // Told apart by nothing but its own id: owner-events.test.ts.
  'get /owner/events',
  // A key or login that is enrolled is refused whoever's it is: below, and owner-oidc.test.ts.
  'post /owner/device-keys',
  'post /owner/logins',
  'post /owner/enrolment',
])

/** Status, body and headers as they came, the name asked about and the time left out. */
function told(reply: Reply, named: Record<string, string>) {
  const headers = Object.fromEntries([...reply.headers].filter(([name]) => name !== 'date'))
  const text = Object.values(named).reduce((rest, name) => rest.replaceAll(name, '<name>'), reply.text)
  return { status: reply.status, text, headers: { ...headers, 'content-length': '-' } }
}

const OWNERS_OWN = OPERATIONS.filter(({ auth }) => auth === 'owner').map(
  ({ method, path }) => `${method} ${path}`,
)

describe('every owner-scoped operation', () => {
  it('is asked here, or names nothing', () => {
    expect(OWNERS_OWN.filter(one => NAMING[one] === undefined && !NAMELESS.has(one))).toEqual([])
    expect(Object.keys(NAMING).filter(one => !OWNERS_OWN.includes(one))).toEqual([])
  })

  it.each(Object.keys(NAMING))('%s: unknown and foreign get the same status, body and headers', async of => {
    const ask = async (named: Record<string, string>) =>
      told(await authority.call(authority.alice, NAMING[of]!(named)), named)
    // Carol is as much a stranger to it as alice.
    const asCarol = async (named: Record<string, string>) =>
      told(await authority.call(authority.owners['carol']!, NAMING[of]!(named)), named)
    // A page goes on after a name that nobody has too: here, one that sorts next to hers.
    const beside = Object.fromEntries(Object.entries(hers).map(([what, name]) => [what, `${name}x`]))
    const unknown = of.startsWith('get ') ? beside : none
    expect(await ask(hers)).toEqual(await ask(unknown))
    expect(await asCarol(hers)).toEqual(await asCarol(unknown))
  })

  it('left all of hers as it was', async () => {
    const bea = authority.owners['bea']!
    const get = async (target: string) => (await authority.call(bea, { target })).body
    expect(await get('/owner/pending')).toMatchObject([{ family: hers['family'] }])
    expect(await get('/owner/connections')).toMatchObject([{ handle: hers['handle'], status: 'active' }])
    expect(await get('/owner/operators')).toMatchObject([{ origin: hers['origin'], blocked: false }])
    expect((await get('/owner/policies')).tiers).toContainEqual(expect.objectContaining({ id: 'private' }))
    expect(await get('/owner/resource-servers')).toContainEqual(
      expect.objectContaining({ client_id: 'her-tools', status: 'active' }),
    )
    expect(await get('/owner/device-keys')).toContainEqual(
      expect.objectContaining({ kid: hers['kid'], revoked_at: null }),
    )
    expect(await get('/owner/logins')).toMatchObject([{ id: hers['login'] }])
  })

  it('a device key enrolled by another owner is refused like one of her own', async () => {
    const enrol = async (owner: string, key = authority.owners['bea']!.key) =>
      told(
        await authority.call(authority.owners[owner]!, {
          method: 'POST',
          target: '/owner/device-keys',
          json: { name: 'again', jwk: publicJwk(key) },
        }),
        {},
      )
    expect(await enrol('alice')).toEqual(await enrol('alice', authority.alice.key))
  })
})

describe('with a PAT for one owner', () => {
  /** As if it had been issued here, over her resources, and never was. */
  const neverIssued = (rpt: string) =>
    signRpt({ ...readRptClaims(rpt), jti: 'rpt_never' }, authority.config.keys[0]!)
  const grant = async (): Promise<string> => (await testAgent(authority).granted()).rpt

  it.each(['/introspect', '/consume'])('%s tells a foreign grant from none by nothing', async path => {
    const token = await grant()
    for (const owner of ['bea', 'carol']) {
      const foreign = told(await protectionCall(authority, path, { token }, owner), {})
      const unknown = told(await protectionCall(authority, path, { token: neverIssued(token) }, owner), {})
      expect(foreign).toEqual(unknown)
      expect(foreign.text).toContain('unknown_token')
    }
  })

  it('/audit/access records nothing of a foreign grant, as of none', async () => {
    const { jti, family } = readRptClaims(await grant())
    const report = { id: 'one', family, jti, tool: 'portfolio_read', summary: 's256:x', at: 1_700_000_000 }
    const foreign = told(await protectionCall(authority, '/audit/access', report, 'bea'), {})
    const unknown = { ...report, jti: 'rpt_never', family: 'fam_never' }
    expect(foreign).toEqual(told(await protectionCall(authority, '/audit/access', unknown, 'bea'), {}))
    expect(foreign.text).toContain('"recorded":0')
  })

  it('/perm knows no resource of another owner', async () => {
    const ask = async (resource_id: string) =>
      told(await protectionCall(authority, '/perm', { resource_id, resource_scopes: ['read'] }), {
        resource_id,
      })
    const foreign = await ask('bea/portfolio')
    expect(foreign).toEqual(await ask('unheard/of'))
    expect(foreign).toMatchObject({ status: 400 })
  })
})
