/**
 * Logins in the provisioning file: contract, "Authentication" (owner at the owner API);
 * docs/configuration.md.
 */
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { stringify } from 'yaml'
import { provision } from '../../src/authority/provision.ts'
import { loadProvisionFile } from '../../src/config/provisioning/provision.ts'
import { inTransaction } from '../../src/storage/core/database.ts'
import type { Tx } from '../../src/storage/authority/database.ts'
import {
  deleteLogin,
  insertLogin,
  listLogins,
  loginId,
  ownerOfLogin,
} from '../../src/storage/authority/credentials/logins.ts'
import { insertDeviceKey } from '../../src/storage/authority/credentials/device-keys.ts'
import { generatePrivateJwk, importPrivateJwk, publicJwk } from '../../src/wire/signatures/keys.ts'
import { faultsOf } from '../support/config-files.ts'
import { coreStand } from '../support/stands.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'
import { asOwner, type Owner } from '../../src/wire/identifiers.ts'

const ISSUER = 'https://realm.example/tenant/'
const database = coreStand()
const directory = temporaryFolder('logins')

let count = 0
const newName = () => asOwner(`person${++count}`)
const login = (subject: string, more: object = {}) => ({ name: 'realm', issuer: ISSUER, subject, ...more })
const withLogins = (owner: Owner, ...logins: object[]) => ({ owner, logins })

function load(owners: object[], realmIssuer?: string) {
  const path = join(directory, 'provision.yaml')
  writeFileSync(path, stringify({ owners }))
  return loadProvisionFile(path, false, realmIssuer)
}
const faultsIn = (owners: object[], realmIssuer?: string) => faultsOf(() => load(owners, realmIssuer))
const apply = (...owners: object[]) => provision(database.db, load(owners))
const inTx = <T>(work: (tx: Tx) => Promise<T>) => inTransaction(database.db, work)

describe('A login of the provisioning file', () => {
  it('is bound to its owner', async () => {
    const owner = newName()
    const [, made] = await apply(withLogins(owner, login('sub-1')))
    expect(made).toEqual({
      owner,
      kind: 'login',
      item: loginId({ issuer: ISSUER, subject: 'sub-1' }),
      outcome: 'made',
    })
    expect(await ownerOfLogin(database.db, { issuer: ISSUER, subject: 'sub-1' })).toBe(owner)
    expect(await ownerOfLogin(database.db, { issuer: ISSUER.slice(0, -1), subject: 'sub-1' })).toBeUndefined()
  })

  it('is applied once, ever: what she removed is not bound again', async () => {
    const owner = newName()
    const file = withLogins(owner, login('sub-2'))
    await apply(file)
    await inTx(tx => deleteLogin(tx, owner, loginId({ issuer: ISSUER, subject: 'sub-2' })))
    expect(await apply(file)).toEqual([])
    expect(await listLogins(database.db, owner, { limit: 10 })).toEqual([])
  })

  it('that she bound herself before is left as it is', async () => {
    const owner = newName()
    await apply(withLogins(owner))
    await inTx(tx => insertLogin(tx, { owner, name: 'mine', issuer: ISSUER, subject: 'sub-3' }))
    const [skipped] = await apply(withLogins(owner, login('sub-3')))
    expect(skipped).toMatchObject({ kind: 'login', outcome: 'skipped', because: 'she bound it herself' })
    expect(await listLogins(database.db, owner, { limit: 10 })).toMatchObject([{ name: 'mine' }])
  })

  it('that is another owner’s stops the start', async () => {
    const owner = newName()
    await apply(withLogins(owner, login('sub-4')))
    const other = newName()
    await expect(apply(withLogins(other, login('sub-4')))).rejects.toThrow(
      /is bound already: name one of hers/,
    )
  })
})

describe('A device key of the provisioning file', () => {
  it('that she enrolled herself before is left as it is', async () => {
    const owner = newName()
    const key = importPrivateJwk(generatePrivateJwk())
    const row = { owner, kid: key.thumbprint, jwk: publicJwk(key), name: 'hers' }
    await apply({ owner })
    await inTx(tx => insertDeviceKey(tx, row))
    const [skipped] = await apply({ owner, device_keys: [{ name: 'laptop', jwk: publicJwk(key) }] })
    expect(skipped).toMatchObject({
      kind: 'device_key',
      outcome: 'skipped',
      because: 'she enrolled it herself',
    })
  })
})

describe('The provisioning file', () => {
  it('takes a login at the realm that is trusted, written as the realm writes it', () => {
    expect(faultsIn([withLogins(asOwner('alice'), login('sub-a'))], ISSUER)).toEqual([])
    expect(faultsIn([withLogins(asOwner('alice'), login('sub-a'))])).toEqual([])
  })

  it.each([
    [
      'at another realm',
      login('a', { issuer: 'https://other.example' }),
      /must be written as UMA_AS_OIDC_ISSUER/,
    ],
    ['at the realm in another spelling', login('a', { issuer: ISSUER.slice(0, -1) }), /must be written as/],
    ['without a subject', login(''), /subject/],
    ['of a subject with a control character', login('a\u0000'), /subject/],
    ['at something that is no URL', login('a', { issuer: 'realm' }), /issuer/],
    ['with an address to go by', login('a', { email: 'a@example.com' }), /email/],
    ['without a name', { issuer: ISSUER, subject: 'a' }, /name/],
  ])('refuses a login %s', (_case, given, fault) => {
    const faults = faultsIn([withLogins(asOwner('alice'), given)], ISSUER)
    expect(faults).toHaveLength(1)
    expect(faults[0]).toMatch(fault)
  })

  it('refuses a login that is listed twice, at one owner or at two', () => {
    const twice = /^logins: "a" at .* is listed twice; a login belongs to one owner\.$/
    expect(faultsIn([withLogins(asOwner('alice'), login('a'), login('a'))])).toEqual([
      expect.stringMatching(twice),
    ])
    expect(
      faultsIn([withLogins(asOwner('alice'), login('a')), withLogins(asOwner('bea'), login('a'))]),
    ).toEqual([expect.stringMatching(twice)])
  })
})
