/**
 * Several owners on one authority: what is another's and what is nobody's get the same status, body and
 * headers, at every route of the owner API. Contract: "Owner API" (every operation acts on the owner the
 * credential proved), "Authentication".
 */
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { inTransaction } from '../../src/storage/core/database.ts'
import { insertDeviceKey } from '../../src/storage/authority/owners.ts'
import { ENDPOINTS } from '../../src/authority/endpoints.ts'
import { insertResourceServer } from '../../src/storage/authority/resources.ts'
import { generatePrivateJwk, importPrivateJwk, publicJwk } from '../../src/wire/keys.ts'
import type { OwnerCall, PreparedCall } from '../support/authority.ts'
import { declaredEndpoints } from '../support/endpoints.ts'
import { startRealmAuthority, type RealmAuthority } from '../support/realm-authority.ts'
import * as seed from '../support/seed.ts'
import { asClientId, asOwner, type Family, type Handle, type Owner } from '../../src/wire/identifiers.ts'

/** What an owner has that a request may name. `otherwise` says the same of what nobody has. */
interface Names {
  family: Family
  handle: Handle
  operator: string
  banned: string
  tier: string
  /** A second tier: alice makes one of this id herself. */
  tierToo: string
  template: string
  resource: string
  server: string
  plainServer: string
  kid: string
  login: string
}

/**
 * The names of an owner's things, and names beside them that are nobody's: as long, and in the same place of
 * any order.
 */
interface Named {
  hers: Names
  nobodys: Names
}

const FOREIGN = ['bea', 'ann'] as const
let both: RealmAuthority
const named = {} as Record<(typeof FOREIGN)[number], Named>
beforeAll(async () => {
  both = await startRealmAuthority({
    owners: ['alice', ...FOREIGN],
  })
  // Alice too has one of everything: an empty list would hide what is wrongly left out of it.
  await furnish(asOwner('alice'))
  for (const owner of FOREIGN) named[owner] = await furnish(asOwner(owner))
  await seed.seedWaiting(both.authority.database.db, asOwner('alice'), seed.name('jkt:'))
})
afterAll(() => both.close())

const call = (owner: Owner, request: OwnerCall) => both.authority.call(both.authority.owners[owner]!, request)

/** Gives an owner one of everything. */
async function furnish(owner: Owner): Promise<Named> {
  const { db } = both.authority.database
  const key = importPrivateJwk(generatePrivateJwk())
  const tier = `${owner}-${seed.name('tier')}`
  const names = {
    handle: seed.name('jkt:'),
    operator: `https://${owner}-${seed.name('op')}.example`,
    tier,
    tierToo: `${owner}-${seed.name('tier')}`,
    template: `${owner}/${tier}/v1`,
    resource: `${owner}/account`,
    banned: `https://${owner}-${seed.name('ban')}.example`,
    server: `https://${owner}-${seed.name('rs')}.example`,
    plainServer: `${owner}-${seed.name('rs')}`,
    kid: key.thumbprint,
  }
  await seed.seedConnection(db, owner, names.handle)
  const { family } = await seed.seedWaiting(db, owner, seed.name('jkt:'))
  await inTransaction(db, async tx => {
    await insertDeviceKey(tx, { owner, kid: key.thumbprint, jwk: publicJwk(key), name: 'phone' })
    for (const client_id of [names.server, names.plainServer].map(asClientId)) {
      const row = { owner, client_id, name: 'A server', status: 'active', auth: 'secret' } as const
      await insertResourceServer(tx, {
        ...row,
        resource_uri: `https://tools.example/${client_id.length}/${owner}`,
        secret_sha256: seed.bytes(),
      })
    }
  })
  await call(owner, { method: 'POST', target: '/owner/operators/block', json: { origin: names.operator } })
  await call(owner, {
    method: 'POST',
    target: '/owner/resource-servers/ban',
    json: { origin: names.banned },
  })
  for (const id of [names.tier, names.tierToo]) {
    const json = tierBody(id, [])
    expect((await call(owner, { method: 'POST', target: '/owner/policies', json })).status).toBe(201)
  }
  const { access_token } = await both.realm.login(owner)
  const login = await call(owner, {
    method: 'POST',
    target: '/owner/logins',
    json: { name: 'realm', access_token },
  })
  expect(login.status).toBe(201)
  const hers = { ...names, family, login: login.body.id as string }
  const nobodys = mapValues({ ...names, family, login: hers.login }, beside)
  return { hers, nobodys }
}

const tierBody = (id: string, resources: string[]) => ({
  id,
  name: 'A tier',
  resources,
  terms: { purpose: 'assist', scope: ['close'], expires_in: 60 },
})

/** The text with another last letter of its own kind, so that nothing else about it differs. */
function beside(text: string): string {
  const last = text.at(-1)!
  return text.slice(0, -1) + (last === 'e' || last === 'a' ? 'b' : 'a')
}

function mapValues<T extends object>(object: T, map: (value: string) => string): T {
  return Object.fromEntries(Object.entries(object).map(([name, value]) => [name, map(value as string)])) as T
}

const list = (path: string, name: (names: Names) => string) => (names: Names) => ({
  target: `${path}?after=${encodeURIComponent(name(names))}`,
})
const post = (path: string, body: (names: Names) => unknown) => (names: Names) => ({
  method: 'POST' as const,
  target: path,
  json: body(names),
})
const TIER = { name: 'A tier', resources: [], terms: { purpose: 'x', scope: ['read'], expires_in: 60 } }

/** At each route, requests of alice that name what another owner has, or what nobody has. */
const PROBES: Record<string, ((names: Names) => OwnerCall)[]> = {
  'GET /owner/pending': [list('/owner/pending', ({ family }) => family)],
  'POST /owner/pending/{}/decision': (['approved', 'denied'] as const).map(decision => ({ family }) => ({
    method: 'POST',
    target: `/owner/pending/${family}/decision`,
    json: { decision },
  })),
  // Positions in the ledger, among the receipts and the events are each owner's own, from 1: no number is
  // another's.
  'GET /owner/ledger': [({ handle }) => ({ target: `/owner/ledger?handle=${encodeURIComponent(handle)}` })],
  'GET /owner/events': [],
  'GET /owner/receipts': [],
  'GET /owner/policies': [list('/owner/policies', ({ tier }) => tier)],
  'POST /owner/policies': [
    post('/owner/policies', ({ tierToo, resource }) => tierBody(tierToo, [resource])),
    post('/owner/policies', ({ resource }) => tierBody('mine', [resource])),
    post('/owner/policies', ({ tierToo }) => tierBody(tierToo, [])),
  ],
  'PUT /owner/policies/{}': [
    ({ tier }) => ({ method: 'PUT', target: `/owner/policies/${tier}`, json: TIER }),
    ({ resource }) => ({
      method: 'PUT',
      target: '/owner/policies/reading',
      json: { ...TIER, resources: [resource] },
    }),
    ({ template }) => ({
      method: 'PUT',
      target: '/owner/policies/reading',
      json: { ...TIER, resources: ['alice/portfolio'] },
      headers: { 'if-match': `"${template}"` },
    }),
  ],
  'DELETE /owner/policies/{}': [
    ({ tier }) => ({ method: 'DELETE', target: `/owner/policies/${tier}` }),
    ({ template }) => ({
      method: 'DELETE',
      target: '/owner/policies/reading',
      headers: { 'if-match': `"${template}"` },
    }),
  ],
  'POST /owner/policies/preview': [
    post('/owner/policies/preview', ({ tier, resource }) => ({ tier: tierBody(tier, [resource]) })),
  ],
  'GET /owner/policy-vocabulary': [() => ({ target: '/owner/policy-vocabulary' })],
  'GET /owner/resources': [list('/owner/resources', ({ resource }) => resource)],
  'GET /owner/resource-servers': [list('/owner/resource-servers', ({ server }) => server)],
  'POST /owner/resource-servers/decision': (['approved', 'revoked'] as const).map(decision =>
    post('/owner/resource-servers/decision', ({ server }) => ({ client_id: server, decision })),
  ),
  'GET /owner/resource-servers/banned': [list('/owner/resource-servers/banned', ({ banned }) => banned)],
  // Before ban: alice herself has banned it from then on.
  'POST /owner/resource-servers/unban': [
    post('/owner/resource-servers/unban', ({ banned }) => ({ origin: banned })),
  ],
  'POST /owner/resource-servers/ban': [
    post('/owner/resource-servers/ban', ({ banned }) => ({ origin: banned })),
  ],
  // Which organization an owner may join is between her and that one, by a code that is good for her alone.
  'GET /owner/organization': [() => ({ target: '/owner/organization' })],
  ...Object.fromEntries(
    (['POST /owner/organization', 'POST /owner/organization/preview'] as const).map(route => [
      route,
      [post(route.slice(5), ({ plainServer: code }) => ({ code, agreed: true, charter_version: 1 }))],
    ]),
  ),
  'PUT /owner/organization': [
    () => ({ method: 'PUT', target: '/owner/organization', json: { administrators_may: [] } }),
  ],
  'POST /owner/organization/decline': [
    post('/owner/organization/decline', ({ server: issuer }) => ({ issuer })),
  ],
  'DELETE /owner/organization': [() => ({ method: 'DELETE', target: '/owner/organization' })],
  'POST /owner/resource-servers/{}/revoke': [
    ({ plainServer }) => ({ method: 'POST', target: `/owner/resource-servers/${plainServer}/revoke` }),
    ({ server }) => ({
      method: 'POST',
      target: `/owner/resource-servers/${encodeURIComponent(server)}/revoke`,
    }),
  ],
  'GET /owner/connections': [list('/owner/connections', ({ handle }) => handle)],
  'PUT /owner/connections/label': (['mine', null] as const).map(label => ({ handle }) => ({
    method: 'PUT',
    target: '/owner/connections/label',
    json: { handle, label },
  })),
  'POST /owner/connections/revoke': [post('/owner/connections/revoke', ({ handle }) => ({ handle }))],
  'GET /owner/operators': [list('/owner/operators', ({ operator }) => operator)],
  // Before block: alice herself knows an operator from then on.
  'POST /owner/operators/unblock': [
    post('/owner/operators/unblock', ({ operator }) => ({ origin: operator })),
  ],
  'POST /owner/operators/disclaim': [
    post('/owner/operators/disclaim', ({ operator }) => ({ origin: operator })),
  ],
  'POST /owner/operators/claim': [post('/owner/operators/claim', ({ operator }) => ({ origin: operator }))],
  'POST /owner/operators/block': [post('/owner/operators/block', ({ operator }) => ({ origin: operator }))],
  'GET /owner/device-keys': [list('/owner/device-keys', ({ kid }) => kid)],
  // A key or a login that is taken is 409 whoever has it; only who holds the key or the token can ask
  // (below).
  'POST /owner/device-keys': [],
  'DELETE /owner/device-keys/{}': [({ kid }) => ({ method: 'DELETE', target: `/owner/device-keys/${kid}` })],
  'GET /owner/logins': [list('/owner/logins', ({ login }) => login)],
  'POST /owner/logins': [],
  'DELETE /owner/logins/{}': [({ login }) => ({ method: 'DELETE', target: `/owner/logins/${login}` })],
  // Acts on the owner of the code, whoever asks: test/authority/enrolment.test.ts.
  'POST /owner/enrolment': [],
}

/** Every route under /owner, as it is declared: one that is new must say how it is probed. */
const ROUTES = declaredEndpoints(ENDPOINTS.owner, 'authority')
  .filter(({ path }) => path.startsWith('/owner'))
  .map(({ method, path }) => `${method} ${path}`)

it('every route of the owner API is probed here', () => {
  expect(Object.keys(PROBES).sort()).toEqual(ROUTES.sort())
})

/**
 * What can be told apart in an answer: all of it but the time, and the names that the request itself sent.
 */
async function seen(prepared: PreparedCall, names: Names): Promise<string> {
  const gone = new AbortController()
  const { url, method, headers, body } = prepared
  const response = await fetch(url, { method, headers, body: body as string, signal: gone.signal })
  const streams = response.headers.get('content-type')?.startsWith('text/event-stream') === true
  const text = streams ? await firstEvent(response) : await response.text()
  gone.abort()
  const lines = [...response.headers].filter(([name]) => name !== 'date').map(line => line.join(': '))
  return withoutNames([response.status, ...lines, text].join('\n'), names)
}

async function firstEvent(response: Response): Promise<string> {
  let text = ''
  const decoder = new TextDecoder()
  for await (const chunk of response.body!) {
    text += decoder.decode(chunk, { stream: true })
    if (text.includes('\n\n')) break
  }
  return text
}

function withoutNames(text: string, names: Names): string {
  return Object.values(names)
    .filter(name => typeof name === 'string')
    .reduce((left, name) => left.replaceAll(name, '…').replaceAll(encodeURIComponent(name), '…'), text)
}

/** As it stands: all that an owner's lists show her. */
async function everythingOf(owner: Owner): Promise<unknown> {
  const lists = ROUTES.filter(route => route.startsWith('GET ') && route !== 'GET /owner/events')
  return Promise.all(lists.map(async route => (await call(owner, { target: route.slice(4) })).text))
}

describe('What is another owner’s is to alice what nobody’s is, byte for byte', () => {
  let before: unknown[]
  beforeAll(async () => {
    before = await Promise.all(FOREIGN.map(owner => everythingOf(asOwner(owner))))
  })

  const probes = Object.entries(PROBES).flatMap(([route, requests]) =>
    requests.map((request, n) => [requests.length === 1 ? route : `${route} (${n + 1})`, request] as const),
  )
  it.each(probes)('%s', async (_route, request) => {
    const { authority } = both
    for (const owner of FOREIGN) {
      const { hers, nobodys } = named[owner]
      const foreign = await seen(authority.prepare(authority.alice, request(hers)), hers)
      const unknown = await seen(authority.prepare(authority.alice, request(nobodys)), nobodys)
      expect(foreign).toBe(unknown)
    }
  })

  it('and nothing of theirs was changed by any of it', async () => {
    expect(await Promise.all(FOREIGN.map(owner => everythingOf(asOwner(owner))))).toEqual(before)
  })

  it('nor is anything of theirs among what alice is shown', async () => {
    const { alice } = both.authority
    const shown = JSON.stringify(await everythingOf(asOwner('alice')))
    for (const owner of FOREIGN) {
      const {
        operator: _blockedByAliceToo,
        banned: _bannedByAliceToo,
        tierToo: _madeByAliceToo,
        ...names
      } = named[owner].hers
      for (const name of Object.values(names).filter(name => typeof name === 'string'))
        expect(shown).not.toContain(name)
    }
    expect(shown).toContain(alice.key.thumbprint)
  })
})

describe('A key or a login that is taken', () => {
  it('is the same 409 to alice whether bea has it, ann has it, or she herself', async () => {
    const replies = []
    for (const owner of ['alice', ...FOREIGN]) {
      const { key } = both.authority.owners[owner]!
      const json = { name: 'phone', jwk: publicJwk(key) }
      replies.push(await call(asOwner('alice'), { method: 'POST', target: '/owner/device-keys', json }))
    }
    expect(replies.map(({ status }) => status)).toEqual([409, 409, 409])
    expect(new Set(replies.map(({ text }) => text)).size).toBe(1)
  })

  it('as is a login', async () => {
    const { access_token } = await both.realm.login('alice-at-realm')
    const add = async (token: string) =>
      call(asOwner('alice'), {
        method: 'POST',
        target: '/owner/logins',
        json: { name: 'realm', access_token: token },
      })
    expect((await add(access_token)).status).toBe(201)
    const tokens = [access_token]
    for (const owner of FOREIGN) tokens.push((await both.realm.login(owner)).access_token)
    const replies = []
    for (const token of tokens) replies.push(await add(token))
    expect(replies.map(({ status }) => status)).toEqual([409, 409, 409])
    expect(new Set(replies.map(({ text }) => text)).size).toBe(1)
  })
})

describe('Without a credential of hers', () => {
  it.each(ROUTES)('%s tells nobody whether it is there', async route => {
    const [method, path] = route.split(' ') as ['GET', string]
    const json = method === 'GET' ? {} : { json: {} }
    const answers = new Set<string>()
    for (const id of [named.bea.hers.family, named.bea.hers.kid, 'unknown']) {
      const request = { method, target: path.replace('{}', id), ...json, sign: false } as const
      const prepared = both.authority.prepare(both.authority.alice, request)
      answers.add(await seen(prepared, named.bea.hers))
    }
    expect(answers.size).toBe(1)
    expect([...answers][0]).toMatch(route === 'POST /owner/enrolment' ? /^400\n/ : /^401\n/)
  })
})
