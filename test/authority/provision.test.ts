/**
 * The provisioning file: what it may say, its faults, and that each item is applied once. contract, "Policy
 * vocabulary and tiers".
 */
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { sql } from 'kysely'
import { describe, expect, it } from 'vitest'
import { stringify } from 'yaml'
import { logProvisioned, provision } from '../../src/authority/provision.ts'
import { ConfigFault } from '../../src/config.ts'
import { loadProvisionFile, type ProvisionedOwner } from '../../src/config/provisioning/provision.ts'
import { inTransaction } from '../../src/storage/core/database.ts'
import { readDeviceKey, revokeDeviceKey } from '../../src/storage/authority/credentials/device-keys.ts'
import { readResourceServer } from '../../src/storage/authority/registry/resources.ts'
import {
  deleteTier,
  insertTier,
  readTier,
  tierOfResource,
  updateTier,
} from '../../src/storage/authority/policies/tiers.ts'
import { sha256 } from '../../src/wire/encoding.ts'
import { generatePrivateJwk, importPrivateJwk, publicJwk } from '../../src/wire/signatures/keys.ts'
import { provisionDocument, type ProvisionDocument } from '../support/authority.ts'
import { coreStand } from '../support/stands.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'
import { asClientId, asOwner, type Owner } from '../../src/wire/identifiers.ts'

const SECRET = 'a secret of sixteen or more'
const directory = temporaryFolder('provision')
const database = coreStand()

let count = 0
const newOwner = () => asOwner(`owner${++count}`)
function documentOf(...names: Owner[]): ProvisionDocument {
  return provisionDocument(
    names.map(owner => ({
      owner,
      key: importPrivateJwk(generatePrivateJwk()),
      clientSecret: SECRET,
      resourceUri: `https://tools.example/mcp/${owner}`,
    })),
  )
}
function load(document: unknown): ProvisionedOwner[] {
  const path = join(directory, 'provision.yaml')
  writeFileSync(path, typeof document === 'string' ? document : stringify(document))
  return loadProvisionFile(path, false)
}
function faultsOf(document: unknown): string[] {
  try {
    load(document)
  } catch (error) {
    if (error instanceof ConfigFault) return error.faults
    throw error
  }
  return []
}
const apply = (document: unknown) => provision(database.db, load(document))

describe('The provisioning file', () => {
  const rule = (condition: string, then: string) => ({ when: [condition], then })
  // oxlint-disable-next-line typescript/no-explicit-any -- the table breaks the document on purpose
  const FAULTS: [string, (owner: any, document: any) => void, RegExp][] = [
    ['an unknown member', owner => (owner.tires = []), /^owners\[0\]: unknown member "tires"/],
    ['no owners', (_, document) => (document.owners = []), /^owners: /],
    ['a name that cannot stand in a path', owner => (owner.owner = 'a/b'), /^owners\[0\]\.owner: /],
    [
      'a device key with its private half',
      owner => (owner.device_keys[0].jwk.d = 'x'),
      /^owners\[0\]\.device_keys\[0\]\.jwk: /,
    ],
    [
      'a device key that is no key',
      owner => (owner.device_keys[0].jwk = { kty: 'RSA' }),
      /device_keys\[0\]\.jwk: /,
    ],
    [
      'a device key twice',
      owner => owner.device_keys.push(owner.device_keys[0]),
      /is listed twice; a device key belongs to one owner/,
    ],
    [
      'a short secret',
      owner => (owner.resource_servers[0].client_secret = 'short'),
      /resource_servers\[0\]: the secret must be 16/,
    ],
    [
      'no secret',
      owner => delete owner.resource_servers[0].client_secret,
      /exactly one of client_secret, client_secret_file, jwks and jwks_file/,
    ],
    ['two secrets', owner => (owner.resource_servers[0].client_secret_file = '/x'), /exactly one of/],
    [
      'a resource_uri that is not https',
      owner => (owner.resource_servers[0].resource_uri = 'http://a.example/x'),
      /resource_uri: .* is not https/,
    ],
    [
      'a resource_uri that is no URL',
      owner => (owner.resource_servers[0].resource_uri = 'tools'),
      /resource_uri: /,
    ],
    [
      'a resource of another owner',
      owner => (owner.resources[0].id = 'bea/portfolio'),
      /resources\[0\]\.id: it must start with/,
    ],
    [
      'a resource of an unlisted server',
      owner => (owner.resources[0].client_id = 'other'),
      /no resource server other is listed/,
    ],
    ['a resource twice', owner => owner.resources.push(owner.resources[0]), /resources: .* is listed twice/],
    ['a resource without scopes', owner => (owner.resources[0].resource_scopes = []), /resource_scopes: /],
    ['an unknown consequence', owner => (owner.resources[0].consequence = 'grave'), /consequence: /],
    ['a tier twice', owner => owner.tiers.push(owner.tiers[0]), /tiers: reading is listed twice/],
    [
      'a tier over an unknown resource',
      owner => owner.tiers[0].resources.push('alice/none'),
      /tiers\[0\]\.resources\[1\]: no such resource/,
    ],
    [
      'a resource governed by two tiers',
      owner => owner.tiers[1].resources.push(owner.tiers[0].resources[0]),
      /tiers\[1\]\.resources\[1\]: the tier `reading` governs it/,
    ],
    [
      'an unknown condition',
      owner => (owner.tiers[0].rules = [rule('moon.full', 'ask')]),
      /tiers\[0\]\.rules\[0\]: `moon\.full` is not a condition/,
    ],
    [
      'an auto rule on an observed condition',
      owner => (owner.tiers[0].rules = [rule('request.reason_absent', 'auto')]),
      /`request\.reason_absent` cannot be in an `auto` rule/,
    ],
    [
      'a tier that names an allowance',
      owner => (owner.tiers[2].rules = [rule('operation.beyond:weekend', 'ask')]),
      /tiers\[2\]\.rules: leave out `operation\.beyond:weekend`/,
    ],
    [
      'a lifetime that is none',
      owner => (owner.tiers[0].terms.expires_in = 0),
      /tiers\[0\]\.terms\.expires_in: /,
    ],
    ['text for a number', owner => (owner.tiers[0].terms.expires_in = '60'), /terms\.expires_in: /],
    ['control characters in a name', owner => (owner.tiers[0].name = 'a\u0000b'), /tiers\[0\]\.name: /],
    [
      'per_operation said a second time',
      owner => (owner.tiers[0].terms.per_operation = true),
      /unknown member "per_operation"/,
    ],
  ]
  it.each(FAULTS)('with %s is refused, naming the place', (_case, spoil, fault) => {
    const document = documentOf(asOwner('alice'))
    spoil(document.owners[0], document)
    expect(faultsOf(document)).toContainEqual(expect.stringMatching(fault))
  })

  it('lists all its faults at once', () => {
    const document = documentOf(asOwner('alice'), asOwner('bea'))
    document.owners[0]!.resource_servers[0]!.client_secret = 'short'
    document.owners[0]!.tiers[0]!.resources.push('alice/none')
    document.owners[1]!.resources[0]!.client_id = 'other'
    expect(faultsOf(document)).toHaveLength(3)
  })

  it.each([
    ['no YAML', '{{'],
    ['a member twice', 'owners: []\nowners: []\n'],
    ['two documents', '---\nowners: []\n---\nowners: []\n'],
    ['an alias', 'owners: &a []\nmore: *a\n'],
    ['nothing', ''],
  ])('with %s is refused', (_case, text) => {
    expect(faultsOf(text).length).toBeGreaterThan(0)
  })

  it('takes a secret from a file that holds it as its only line', () => {
    const path = join(directory, 'secret')
    writeFileSync(path, `${SECRET}\n`, { mode: 0o600 })
    const document = documentOf(asOwner('alice'))
    const server: Record<string, unknown> = document.owners[0]!.resource_servers[0]!
    delete server['client_secret']
    server['client_secret_file'] = path
    expect(load(document)[0]!.resource_servers[0]!.secret_sha256).toEqual(sha256(SECRET))
    server['client_secret_file'] = join(directory, 'none')
    expect(faultsOf(document)).toContainEqual(expect.stringMatching(/client_secret_file: cannot read/))
  })
})

describe('Provisioning', () => {
  it('makes owners, keys, resource servers, resources and tiers, the secret stored as its SHA-256', async () => {
    const owner = newOwner()
    const document = documentOf(owner)
    const done = await apply(document)
    expect(done.map(({ kind, outcome }) => `${kind} ${outcome}`)).toEqual([
      'owner made',
      'device_key made',
      'resource_server made',
      ...Array.from({ length: 4 }, () => 'resource made'),
      ...Array.from({ length: 3 }, () => 'tier made'),
    ])
    expect(await readResourceServer(database.db, owner, asClientId('demo-tools'))).toMatchObject({
      status: 'active',
      auth: 'secret',
      secret_sha256: sha256(SECRET),
    })
    expect(await readTier(database.db, owner, 'trading')).toMatchObject({
      ask_me: true,
      terms: { per_operation: true },
    })
  })

  it('warns in the log of what was skipped, and of a tier that agents use at once', () => {
    const lines: string[] = []
    const at = (level: string) => (fields: object) =>
      void lines.push(`${level} ${(fields as { item: string }).item}`)
    const line = { owner: newOwner(), kind: 'tier' } as const
    logProvisioned({ info: at('info'), warn: at('warn') }, [
      { ...line, item: 'asks', outcome: 'made' },
      { ...line, item: 'open', outcome: 'made', because: '1 agent that she let in may use it' },
      { ...line, item: 'stands', outcome: 'skipped', because: 'a tier of this id stands' },
      { ...line, item: 'renamed', outcome: 'changed', because: 'name' },
    ])
    expect(lines).toEqual(['info asks', 'warn open', 'warn stands', 'info renamed'])
  })

  it('is applied once: a second start makes nothing', async () => {
    const document = documentOf(newOwner())
    await apply(document)
    expect(await apply(document)).toEqual([])
  })

  it('applies what is new in the file', async () => {
    const owner = newOwner()
    const document = documentOf(owner)
    const tiers = document.owners[0]!.tiers.splice(2)
    await apply(document)
    expect(await tierOfResource(database.db, owner, `${owner}/trades`)).toBeUndefined()
    document.owners[0]!.tiers.push(...tiers)
    expect(await apply(document)).toEqual([{ owner, kind: 'tier', item: 'trading', outcome: 'made' }])
  })

  it('never makes again what the owner deleted or revoked', async () => {
    const owner = newOwner()
    const document = documentOf(owner)
    await apply(document)
    const kid = load(document)[0]!.device_keys[0]!.key.thumbprint
    await inTransaction(database.db, async tx => {
      await deleteTier(tx, owner, 'reading', undefined)
      await revokeDeviceKey(tx, owner, kid)
      await sql`UPDATE resource_servers SET status = 'revoked' WHERE owner = ${owner}`.execute(tx)
    })
    expect(await apply(document)).toEqual([])
    // An entry that changed is gone through item by item.
    const another = importPrivateJwk(generatePrivateJwk())
    const jwk = publicJwk(another, another.thumbprint)
    document.owners[0]!.device_keys.push({ name: 'another', jwk })
    expect(await apply(document)).toMatchObject([{ kind: 'device_key', outcome: 'made' }])
    expect(await readTier(database.db, owner, 'reading')).toBeUndefined()
    expect((await readDeviceKey(database.db, kid))?.revoked_at).not.toBeNull()
    expect((await readResourceServer(database.db, owner, asClientId('demo-tools')))?.status).toBe('revoked')
  })

  it('never undoes what the owner edited', async () => {
    const owner = newOwner()
    const document = documentOf(owner)
    await apply(document)
    const before = (await readTier(database.db, owner, 'reading'))!
    const edited = { ...before, name: 'Hers', resources: [], terms: { ...before.terms, expires_in: 5 } }
    const { purpose, scope, prohibited, per_operation, expires_in } = edited.terms
    const terms = { purpose, scope, prohibited, per_operation, expires_in }
    await inTransaction(database.db, tx =>
      updateTier(
        tx,
        {
          owner,
          tier_id: 'reading',
          name: 'Hers',
          ask_me: false,
          rules: [],
          clearance: {},
          resources: [],
          terms,
        },
        undefined,
      ),
    )
    await apply(document)
    expect(await readTier(database.db, owner, 'reading')).toMatchObject({
      name: 'Hers',
      version: 2,
      resources: [],
    })
    expect(await tierOfResource(database.db, owner, `${owner}/portfolio`)).toBeUndefined()
  })

  it('a tier whose resource the owner governs herself is skipped for good, also when she lets go of it', async () => {
    const owner = newOwner()
    const document = documentOf(owner)
    const [reading] = document.owners[0]!.tiers.splice(0, 1)
    await apply(document)
    const hers = {
      owner,
      tier_id: 'mine',
      name: 'Mine',
      ask_me: true,
      rules: [],
      clearance: {},
      resources: [`${owner}/portfolio`],
      terms: { purpose: 'x', scope: ['read'], expires_in: 60, prohibited: [], per_operation: true },
    }
    await inTransaction(database.db, tx => insertTier(tx, hers))
    document.owners[0]!.tiers.unshift(reading!)
    expect(await apply(document)).toMatchObject([{ item: 'reading', outcome: 'skipped' }])
    await inTransaction(database.db, tx => deleteTier(tx, owner, 'mine', undefined))
    expect(await apply(document)).toEqual([])
    expect(await tierOfResource(database.db, owner, `${owner}/portfolio`)).toBeUndefined()
  })

  it('a device key already enrolled for another owner stops the start, and nothing of hers stays', async () => {
    const [one, two] = [newOwner(), newOwner()]
    const document = documentOf(one)
    await apply(document)
    const other = documentOf(two)
    other.owners[0]!.device_keys = document.owners[0]!.device_keys
    await expect(apply(other)).rejects.toThrow(/already enrolled/)
    expect(await readResourceServer(database.db, two, asClientId('demo-tools'))).toBeUndefined()
  })

  it('each item is made by one of many replicas that start at once', async () => {
    const owners = load(documentOf(newOwner(), newOwner(), newOwner()))
    const done = await Promise.all(Array.from({ length: 12 }, () => provision(database.db, owners)))
    expect(done.flat().filter(({ outcome }) => outcome === 'made')).toHaveLength(3 * 10)
    expect(done.flat().filter(({ outcome }) => outcome === 'skipped')).toEqual([])
  })
})
