/**
 * How the provisioning file says that a resource server proves itself. Contract: "Authentication" (resource
 * server at the token endpoint).
 */
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { stringify } from 'yaml'
import { ConfigFault } from '../../src/config.ts'
import { loadProvisionFile } from '../../src/config/provisioning/provision.ts'
import { generatePrivateJwk, importPrivateJwk, publicJwk } from '../../src/wire/signatures/keys.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'

const folder = temporaryFolder('server-proof')
const written = (name: string, content: unknown): string => {
  const path = join(folder, name)
  writeFileSync(path, typeof content === 'string' ? content : JSON.stringify(content))
  return path
}
const load = (proof: object) => {
  const server = { client_id: 'tools', name: 'Tools', resource_uri: 'https://tools.example/mcp/alice' }
  const owners = [{ owner: 'alice', resource_servers: [{ ...server, ...proof }] }]
  return loadProvisionFile(written('provision.yaml', stringify({ owners })), false)[0]!.resource_servers[0]!
}
const faultsOf = (proof: object): string[] => {
  try {
    load(proof)
    return []
  } catch (error) {
    if (error instanceof ConfigFault) return error.faults
    throw error
  }
}

const [privateJwk, another] = [generatePrivateJwk(), generatePrivateJwk()]
const [key, other] = [importPrivateJwk(privateJwk), importPrivateJwk(another)]
const [jwk, otherJwk] = [publicJwk(key), publicJwk(other)]

describe('The keys of a resource server', () => {
  it('are taken as they are written, and have their thumbprint as kid if none is written', () => {
    const bare = { kty: 'OKP', crv: 'Ed25519', x: key.x }
    expect(load({ jwks: { keys: [bare, { ...otherJwk, kid: 'second' }] } })).toMatchObject({
      secret_sha256: null,
      client_keys: [
        { x: key.x, kid: key.thumbprint },
        { x: other.x, kid: 'second' },
      ],
    })
  })

  it('are taken from a file, such as a resource server serves', () => {
    const jwks_file = written('jwks.json', { keys: [jwk, otherJwk] })
    expect(load({ jwks_file }).client_keys).toEqual([jwk, otherJwk])
  })

  it.each<[string, object, RegExp]>([
    ['beside a secret', { client_secret: 'a secret of sixteen', jwks: { keys: [jwk] } }, /exactly one of/],
    ['in two places', { jwks_file: '/x', jwks: { keys: [jwk] } }, /exactly one of/],
    ['that are none', { jwks: { keys: [] } }, /resource_servers\[0\]\.jwks\.keys: /],
    [
      'with a private half',
      { jwks: { keys: [privateJwk] } },
      /jwks\.keys\[0\]: it is a private key, which stays with the sidecar/,
    ],
    ['of another kind', { jwks: { keys: [jwk, { kty: 'RSA' }] } }, /jwks\.keys\[1\]: Use an Ed25519 key/],
    ['twice', { jwks: { keys: [jwk, jwk] } }, /jwks: the key with the x .* is listed twice/],
    [
      'of which two have one kid',
      { jwks: { keys: [jwk, { ...otherJwk, kid: jwk.kid }] } },
      /jwks: two keys have the kid .*; a signature must name one key/,
    ],
    ['with a kid that is no text', { jwks: { keys: [{ ...jwk, kid: 7 }] } }, /keys\[0\]\.kid: give 1 to 200/],
    ['with a member that nobody knows', { jwks: { keyz: [] } }, /unknown member "keyz"/],
    ['in a file that is not there', { jwks_file: '/none/jwks.json' }, /jwks_file: cannot read \/none/],
    [
      'in a file that is no key set',
      { jwks_file: written('no-set.json', jwk) },
      /jwks_file: .* must be \{"keys": \[public JWK/,
    ],
    [
      'in the private file of a sidecar',
      { jwks_file: written('private.json', { keys: [privateJwk] }) },
      /jwks_file\.keys\[0\]: it is a private key/,
    ],
  ])('%s are refused, naming the place', (_what, proof, fault) => {
    expect(faultsOf(proof)).toContainEqual(expect.stringMatching(fault))
  })
})
