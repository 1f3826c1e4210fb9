/** Every setting that names a private key or a secret: contract, "Authentication". */
import { chmodSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { stringify } from 'yaml'
import { readAuthorityConfig, readOrganizationConfig, readSidecarConfig } from '../../src/config.ts'
import { generatePrivateJwk } from '../../src/wire/signatures/keys.ts'
import { configFolder, faultsOf } from '../support/config-files.ts'
import { issueCertificate, makeCa } from '../support/local-ca.ts'

const { folder } = configFolder()
const file = (name: string, content: string, mode: number): string => {
  const path = join(folder, name)
  writeFileSync(path, content)
  chmodSync(path, mode)
  return path
}
const keys = JSON.stringify({ keys: [generatePrivateJwk()] })
const secret = 'one-of-at-least-sixteen-characters\n'
const pair = await issueCertificate(await makeCa(), 'server')

/** All of them have the mode, the certificates are everybody's. */
const privateFiles = (mode: number) => ({
  keysFile: file('keys.json', keys, mode),
  tlsKey: file('tls.key', pair.key, mode),
  secretFile: file('secret', secret, mode),
  certificate: file('tls.crt', pair.cert, 0o644),
})

const authority = (mode: number) => {
  const { keysFile, tlsKey, secretFile, certificate } = privateFiles(mode)
  const server = { client_id: 'tools', name: 'Tools', resource_uri: 'https://tools.example.com/mcp/alice' }
  const owners = [{ owner: 'alice', resource_servers: [{ ...server, client_secret_file: secretFile }] }]
  return readAuthorityConfig({
    UMA_AS_ISSUER: 'https://as.example.com',
    DATABASE_URL: 'postgres://x',
    UMA_AS_KEYS_FILE: keysFile,
    UMA_AS_TLS_CERT_FILE: certificate,
    UMA_AS_TLS_KEY_FILE: tlsKey,
    UMA_AS_PROVISION: file('owners.yaml', stringify({ owners }), 0o644),
  })
}
const organization = (mode: number) => {
  const { keysFile, tlsKey, certificate } = privateFiles(mode)
  const administrators = [{ name: 'ines', subjects: ['s'] }]
  return readOrganizationConfig({
    UMA_ORG_ISSUER: 'https://org.example.com',
    UMA_ORG_ID: 'acme',
    UMA_ORG_NAME: 'Acme',
    DATABASE_URL: 'postgres://x',
    UMA_ORG_KEYS_FILE: keysFile,
    UMA_ORG_TLS_CERT_FILE: certificate,
    UMA_ORG_TLS_KEY_FILE: tlsKey,
    UMA_ORG_PROVISION: file('organization.yaml', stringify({ administrators }), 0o644),
  })
}
const sidecar = (mode: number) => {
  const { keysFile, tlsKey, secretFile, certificate } = privateFiles(mode)
  const settings = {
    public_url: 'https://tools.example.com',
    listen: { check: '0.0.0.0:9191', http: '0.0.0.0:9192' },
    check_tls: { cert_file: certificate, key_file: tlsKey, client_ca_file: certificate },
    http_tls: { cert_file: certificate, key_file: tlsKey },
    keys_file: keysFile,
    realm: 'tools',
    owners: [
      {
        owner: 'alice',
        authority: 'https://as.example.com',
        client_id: 'tools',
        client_secret_file: secretFile,
        tools: [{ tool: 'read', resource_id: 'alice/a', scopes: ['read'] }],
      },
    ],
  }
  return readSidecarConfig(file('sidecar.yaml', stringify(settings), 0o644), {})
}

describe('Key files readable by others or writable by group or others are refused', () => {
  test.each([
    [
      'the authority',
      authority,
      ['UMA_AS_KEYS_FILE', 'UMA_AS_TLS_KEY_FILE', 'owners[0].resource_servers[0].client_secret_file'],
    ],
    ['the organization', organization, ['UMA_ORG_KEYS_FILE', 'UMA_ORG_TLS_KEY_FILE']],
    [
      'the sidecar',
      sidecar,
      ['keys_file', 'http_tls.key_file', 'check_tls.key_file', 'client_secret_file of alice'],
    ],
  ])('by %s, which names the setting, the path, the mode and the remedy of each', (_who, start, settings) => {
    for (const mode of [0o644, 0o660, 0o602]) {
      const faults = faultsOf(() => start(mode))
      expect(faults.map(fault => fault.split(': ')[0])).toEqual(settings)
      for (const fault of faults) {
        const path = /: (\S+) has the mode /.exec(fault)?.[1]
        expect(path?.startsWith(`${folder}/`), fault).toBe(true)
        expect(fault).toContain(`has the mode 0${mode.toString(8)}, so `)
        expect(fault).toContain(`: chmod 600 ${path} `)
        expect(fault).not.toContain(readFileSync(path!, 'utf8').trim())
      }
    }
  })

  test.each([
    ['the authority', authority],
    ['the organization', organization],
    ['the sidecar', sidecar],
  ])('%s takes those that its user alone, or its group too, can read', (_who, start) => {
    for (const mode of [0o600, 0o400, 0o440, 0o640]) expect(faultsOf(() => start(mode))).toEqual([])
  })
})
