/**
 * The settings of the owners' realm: contract, "Authentication" (owner at the owner API;
 * `UMA_AS_OWNER_AUTH`).
 */
import { describe, expect, it } from 'vitest'
import { readAuthorityConfig, readClientConfig, readOwnersConfig } from '../../src/config.ts'
import { configFolder, faultsOf } from '../support/config-files.ts'

const { keysFile } = configFolder()

const read = (changes: Record<string, string | undefined>) =>
  readAuthorityConfig({
    UMA_AS_ISSUER: 'https://as.example.com',
    DATABASE_URL: 'postgres://x',
    UMA_AS_KEYS_FILE: keysFile,
    UMA_AS_OWNER_AUTH: 'oidc,device-key',
    UMA_AS_OIDC_ISSUER: 'https://realm.example/tenant/',
    UMA_AS_OIDC_AUDIENCE: 'owner-api',
    ...changes,
  })
const faults = (changes: Record<string, string | undefined>) => faultsOf(() => read(changes))

describe('The realm of the owners', () => {
  it('is taken as the deployment writes it, slash and all, with the algorithms of the decisions', () => {
    expect(read({}).realm).toEqual({
      issuer: 'https://realm.example/tenant/',
      audience: 'owner-api',
      authorizedParties: [],
      algorithms: ['RS256', 'PS256', 'ES256', 'EdDSA'],
      types: ['at+jwt', 'JWT'],
    })
  })

  it('may be told apart more narrowly', () => {
    const changes = {
      UMA_AS_OIDC_ALGORITHMS: 'ES384',
      UMA_AS_OIDC_TYPES: 'at+jwt',
      UMA_AS_OIDC_AUTHORIZED_PARTIES: 'portal, phone',
    }
    expect(read(changes).realm).toMatchObject({
      authorizedParties: ['portal', 'phone'],
      algorithms: ['ES384'],
      types: ['at+jwt'],
    })
  })

  it('is nobody’s while oidc is not among the credentials, whatever else is set', () => {
    expect(read({ UMA_AS_OWNER_AUTH: 'device-key' }).realm).toBeUndefined()
    expect(read({ UMA_AS_OWNER_AUTH: undefined }).realm).toBeUndefined()
    expect(read({ UMA_AS_OWNER_AUTH: 'oidc' }).ownerAuth).toEqual(['oidc'])
  })

  it.each([
    ['UMA_AS_OIDC_ISSUER', undefined],
    ['UMA_AS_OIDC_ISSUER', 'realm.example'],
    ['UMA_AS_OIDC_ISSUER', 'http://realm.example'],
    ['UMA_AS_OIDC_ISSUER', 'http://127.0.0.1:9300'],
    ['UMA_AS_OIDC_ISSUER', 'https://realm.example?tenant=1'],
    ['UMA_AS_OIDC_ISSUER', 'https://realm.example#x'],
    ['UMA_AS_OIDC_ISSUER', 'https://user@realm.example'],
    ['UMA_AS_OIDC_ISSUER', 'https://as.example.com'],
    ['UMA_AS_OIDC_ISSUER', 'https://as.example.com/'],
    ['UMA_AS_OIDC_AUDIENCE', undefined],
    ['UMA_AS_OIDC_ALGORITHMS', 'none'],
    ['UMA_AS_OIDC_ALGORITHMS', 'RS256,HS256'],
    ['UMA_AS_OIDC_ALGORITHMS', 'rs256'],
    ['UMA_AS_OIDC_TYPES', 'id+jwt'],
    ['UMA_AS_OIDC_AUTHORIZED_PARTIES', 'portal,,phone'],
    ['UMA_AS_OWNER_AUTH', 'oidc,password'],
    ['UMA_AS_ENROLMENT_SECONDS', '59'],
  ])('%s=%s stops the start with a sentence', (name, value) => {
    expect(faults({ [name]: value })).toEqual([expect.stringMatching(new RegExp(`${name}.*[.)]$`))])
  })

  it('may be at a literal loopback host in development', () => {
    const changes = { UMA_AS_OIDC_ISSUER: 'http://127.0.0.1:9300', UMA_DEV_LOOPBACK: 'true' }
    expect(read(changes).realm?.issuer).toBe('http://127.0.0.1:9300')
  })
})

describe('The commands', () => {
  it('`usher authority owner` needs the database alone', () => {
    const environment = { DATABASE_URL: 'postgres://x' }
    expect(readOwnersConfig(environment)).toMatchObject({
      databaseUrl: 'postgres://x',
      databaseWaitSeconds: 30,
      enrolmentSeconds: 3600,
      recoverySeconds: 86_400,
    })
    expect(() => readOwnersConfig({})).toThrow(/Set DATABASE_URL/)
  })

  it('`usher owner` takes a token from the environment', () => {
    expect(readClientConfig({ UMA_OWNER_TOKEN: 'a.b.c' }).ownerToken).toBe('a.b.c')
    expect(readClientConfig({}).ownerToken).toBeUndefined()
  })
})
