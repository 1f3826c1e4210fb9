/**
 * Several owners on one authority: for things of another owner and for things that do not exist, every route
 * of the owner API answers with the same status, body and headers. Contract: "Owner API" (every operation
 * acts on the owner the credential proved), "Authentication".
 */
import { randomBytes } from 'node:crypto'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { inTransaction } from '../../src/storage/core/database.ts'
import { insertDeviceKey } from '../../src/storage/authority/credentials/device-keys.ts'
import { ENDPOINTS } from '../../src/authority/endpoints.ts'
import { insertPasskey } from '../../src/storage/authority/credentials/passkeys.ts'
import { insertSubscription } from '../../src/storage/authority/notifications/subscriptions.ts'
import { insertResourceServer } from '../../src/storage/authority/registry/resources.ts'
import { generatePrivateJwk, importPrivateJwk, publicJwk } from '../../src/wire/signatures/keys.ts'
import type { OwnerCall, PreparedCall } from '../support/authority.ts'
import { declaredEndpoints } from '../support/endpoints.ts'
import { notifying } from '../support/notifications.ts'
import { PROBES, tierBody, type Names } from '../support/owner-probes.ts'
import { startRealmAuthority, type RealmAuthority } from '../support/realm-authority.ts'
import { newPasskey, RP_ID } from '../support/passkeys.ts'
import * as seed from '../support/seed.ts'
import { asClientId, asOwner, type Owner } from '../../src/wire/identifiers.ts'

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
  both = await startRealmAuthority({ owners: ['alice', ...FOREIGN], environment: notifying() })
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
    allowance: `${owner}-${randomBytes(6).toString('hex')}`,
    allowanceToo: `${owner}-${randomBytes(6).toString('hex')}`,
    banned: `https://${owner}-${seed.name('ban')}.example`,
    server: `https://${owner}-${seed.name('rs')}.example`,
    plainServer: `${owner}-${seed.name('rs')}`,
    kid: key.thumbprint,
    subscription: seed.name('sub_'),
    passkey: seed.name('passkey'),
  }
  await seed.seedConnection(db, owner, names.handle)
  const { family } = await seed.seedWaiting(db, owner, seed.name('jkt:'))
  await inTransaction(db, async tx => {
    await insertDeviceKey(tx, { owner, kid: key.thumbprint, jwk: publicJwk(key), name: 'phone' })
    const { x, y } = newPasskey().jwk
    const passkey = { id: names.passkey, jwk: { kty: 'EC', crv: 'P-256', x, y }, rp_id: RP_ID } as const
    await insertPasskey(tx, { owner, ...passkey, name: 'ring' })
    const webhook = { kind: 'webhook', name: 'relay', p256dh: null, auth: null } as const
    const origin = `https://hooks-of-${owner}.example`
    const endpoint = `${origin}/${names.subscription}`
    const timing = { quiet_hours: null, digest_minutes: null }
    await insertSubscription(tx, { ...webhook, ...timing, owner, id: names.subscription, origin, endpoint })
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
  for (const id of [names.allowance, names.allowanceToo]) {
    const target = `/owner/allowances/${id}`
    expect((await call(owner, { method: 'PUT', target, json: {} })).status).toBe(201)
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

/** The text with another last letter of its own kind, so that nothing else about it differs. */
function beside(text: string): string {
  const last = text.at(-1)!
  return text.slice(0, -1) + (last === 'e' || last === 'a' ? 'b' : 'a')
}

function mapValues<T extends object>(object: T, map: (value: string) => string): T {
  return Object.fromEntries(Object.entries(object).map(([name, value]) => [name, map(value as string)])) as T
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

/** The present state: everything that an owner's lists show her. */
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

  it('and alice is shown nothing of theirs', async () => {
    const { alice } = both.authority
    const shown = JSON.stringify(await everythingOf(asOwner('alice')))
    for (const owner of FOREIGN) {
      const {
        operator: _blockedByAliceToo,
        banned: _bannedByAliceToo,
        tierToo: _madeByAliceToo,
        allowanceToo: _allowedByAliceToo,
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

/** What is sent proves whose request it is, so that it is read first. */
const PROVEN_INSIDE: ReadonlySet<string> = new Set([
  'POST /owner/enrolment',
  'POST /owner/passkeys/options',
  'POST /owner/passkeys/login',
])

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
    expect([...answers][0]).toMatch(PROVEN_INSIDE.has(route) ? /^400\n/ : /^401\n/)
  })
})
