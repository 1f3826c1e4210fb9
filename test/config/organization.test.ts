/**
 * The settings and the provisioning file of an organization: contract, "Limits" and "The organization's
 * authority".
 */
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { stringify } from 'yaml'
import { readOrganizationConfig } from '../../src/config.ts'
import { sha256 } from '../../src/wire/encoding.ts'
import { generatePrivateJwk, importPrivateJwk, publicJwk } from '../../src/wire/signatures/keys.ts'
import { configFolder, faultsOf } from '../support/config-files.ts'

const { folder, keysFile } = configFolder()
const key = publicJwk(importPrivateJwk(generatePrivateJwk()))
const file = (content: object, name = 'provision.yaml'): string => {
  const path = join(folder, name)
  writeFileSync(path, stringify(content))
  return path
}
const good = () => ({
  UMA_ORG_ISSUER: 'https://org.example.com',
  UMA_ORG_ID: 'acme',
  UMA_ORG_NAME: 'Acme',
  DATABASE_URL: 'postgres://x',
  UMA_ORG_KEYS_FILE: keysFile,
  UMA_ORG_PROVISION: file({ administrators: [{ name: 'ines', device_keys: [key] }] }),
})
const faults = (changes: Record<string, string | undefined>) =>
  faultsOf(() => readOrganizationConfig({ ...good(), ...changes }))

describe('The settings of an organization', () => {
  test('defaults are those of the reference page', () => {
    expect(readOrganizationConfig(good())).toMatchObject({
      listen: { host: '127.0.0.1', port: 9300 },
      adminListen: { host: '127.0.0.1', port: 9301 },
      metricsListen: { host: '127.0.0.1', port: 9302 },
      adminAuth: ['device-key'],
      realm: undefined,
      invitationSeconds: 604_800,
      migrate: true,
    })
  })

  test.each([
    [{ UMA_ORG_ISSUER: 'http://org.example.com' }, 'UMA_ORG_ISSUER'],
    [{ UMA_ORG_ISSUER: 'https://org.example.com/acme' }, 'UMA_ORG_ISSUER'],
    [{ UMA_ORG_ID: 'a/b' }, 'UMA_ORG_ID'],
    [{ UMA_ORG_AUTHORITIES: 'https://as.example/,https://as.example' }, 'UMA_ORG_AUTHORITIES'],
    [{ UMA_ORG_AUTHORITIES: 'http://as.example' }, 'UMA_ORG_AUTHORITIES'],
    [{ UMA_ORG_ADMIN_AUTH: 'oidc' }, 'UMA_ORG_OIDC_ISSUER'],
    [{ UMA_ORG_TLS_CERT_FILE: 'x.pem' }, 'UMA_ORG_TLS_KEY_FILE'],
    [{ UMA_ORG_PROVISION: undefined }, 'UMA_ORG_PROVISION'],
  ])('%j stops the start, naming the setting', (changes, name) =>
    expect(faults(changes).join('\n')).toContain(name),
  )
})

const SECRET = 'k'.repeat(32)
const POINT = {
  id: 'gateway',
  resources: ['https://tools.example/mcp/amy'],
  jwks_uri: 'https://tools.example/jwks',
}
const { jwks_uri: _keys, ...UNPROVEN } = POINT
const POINT_FAULTS: [object, string][] = [
  [UNPROVEN, 'exactly one of jwks_uri, credential and credential_file'],
  [{ ...POINT, credential: SECRET }, 'exactly one of jwks_uri, credential and credential_file'],
  [{ ...UNPROVEN, credential: 'short' }, 'the credential must be 32'],
  [{ ...UNPROVEN, credential: `${SECRET} x` }, 'the credential must be 32'],
  [{ ...UNPROVEN, credential_file: '/nowhere' }, 'enforcement_points[0].credential_file'],
  [{ ...POINT, jwks_uri: 'http://tools.example/jwks' }, 'is not https'],
  [{ ...POINT, resources: [] }, 'enforcement_points[0].resources'],
  [{ ...POINT, resources: ['https://tools.example/'] }, 'enforcement_points[0].resources'],
  [{ ...POINT, resources: ['https://tools.example/a/-'] }, 'does not end with the name of an owner'],
  [{ ...POINT, resources: [...POINT.resources, ...POINT.resources] }, 'is listed twice'],
  [{ ...POINT, id: 'a b' }, 'enforcement_points[0].id'],
]

describe('The provisioning file of an organization', () => {
  test('names enforcement points, whose resources each may ask about, and how it proves itself', () => {
    writeFileSync(join(folder, 'credential'), `${SECRET}\n`, { mode: 0o600 })
    const told = {
      id: 'told',
      resources: [{ resource: 'https://tools.example/x', owner: 'ben' }],
      credential_file: join(folder, 'credential'),
    }
    const path = file({ enforcement_points: [POINT, told] }, 'points.yaml')
    const { enforcementPoints } = readOrganizationConfig({ ...good(), UMA_ORG_PROVISION: path }).provisioned
    expect(enforcementPoints).toEqual([
      {
        id: 'gateway',
        resources: new Map([['https://tools.example/mcp/amy', 'amy']]),
        proof: { kind: 'keys', jwks_uri: POINT.jwks_uri },
      },
      {
        id: 'told',
        resources: new Map([['https://tools.example/x', 'ben']]),
        proof: { kind: 'credential', sha256: sha256(SECRET) },
      },
    ])
  })

  test.each([
    [{ charter: { name: 'A', claims: ['*/x'], envelope: { max_expires_in: 60 } } }, 'charter.claims[0]'],
    [{ charter: { name: 'A', claims: [] } }, 'charter.envelope'],
    [{ administrators: [{ name: 'a', device_keys: [{ kty: 'RSA' }] }] }, 'administrators[0].device_keys[0]'],
    [
      {
        administrators: [
          { name: 'a', device_keys: [key] },
          { name: 'b', device_keys: [key] },
        ],
      },
      'is listed twice',
    ],
    [{ administrators: [{ name: 'a' }, { name: 'a' }] }, 'is listed twice'],
    [{ administrators: [{ name: 'a', subjects: ['s', 's'] }] }, 'is listed twice'],
    [{ owners: [] }, 'owners'],
    ...POINT_FAULTS.map(([point, place]): [object, string] => [{ enforcement_points: [point] }, place]),
    [
      { enforcement_points: [POINT, { ...POINT, jwks_uri: 'https://b.example/jwks' }] },
      'gateway is listed twice',
    ],
    [
      { enforcement_points: [POINT, { ...POINT, id: 'other' }] },
      'https://tools.example/jwks is listed twice',
    ],
    [
      {
        enforcement_points: ['a', 'b'].map(id => ({ id, resources: POINT.resources, credential: SECRET })),
      },
      'a credential is listed twice',
    ],
  ])('%j stops the start, naming the place', (content, place) =>
    expect(faults({ UMA_ORG_PROVISION: file(content, 'bad.yaml') }).join('\n')).toContain(place),
  )
})
