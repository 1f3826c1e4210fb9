/** Contract, "Authentication" (TLS is the trust root between parties): what a sidecar says of its own. */
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { stringify } from 'yaml'
import { readSidecarConfig } from '../../src/config.ts'
import { startSidecar } from '../../src/enforcement/main.ts'
import { createLogger } from '../../src/http/telemetry/log.ts'
import { generatePrivateJwk } from '../../src/wire/signatures/keys.ts'
import { issueCertificate, issueExpired, makeCa, type Pair } from '../support/local-ca.ts'
import { startScriptedAuthority } from '../support/scripted-authority.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'
import { PUBLIC_URL } from './calls.ts'

const folder = temporaryFolder('sidecar-certificates')

function write(name: string, text: string): string {
  const path = join(folder, name)
  writeFileSync(path, text, { mode: 0o600 })
  return path
}

/** The warnings about certificates of a sidecar that shows this one at both listeners. */
async function warnings({ cert, key }: Pair, ca: Pair): Promise<Record<string, unknown>[]> {
  const authority = await startScriptedAuthority()
  onTestFinished(() => authority.close())
  const pair = { cert_file: write('cert.pem', cert), key_file: write('key.pem', key) }
  const file = stringify({
    public_url: PUBLIC_URL,
    listen: { check: '127.0.0.1:0', http: '127.0.0.1:0' },
    http_tls: pair,
    check_tls: { ...pair, client_ca_file: write('ca.pem', ca.cert) },
    keys_file: write('keys.json', JSON.stringify({ keys: [generatePrivateJwk()] })),
    realm: 'tools',
    owners: [
      {
        owner: 'alice',
        authority: authority.issuer,
        client_id: 'demo',
        client_secret: 'shh',
        tools: [{ tool: 'portfolio_read', resource_id: 'alice/portfolio', scopes: ['read'] }],
      },
    ],
  })
  const lines: Record<string, unknown>[] = []
  const sidecar = await startSidecar(
    readSidecarConfig(write('sidecar.yaml', file), { UMA_DEV_LOOPBACK: 'true' }),
    {
      logger: createLogger({
        name: 'test',
        level: 'info',
        write: line => lines.push(JSON.parse(line) as Record<string, unknown>),
      }),
    },
  )
  await sidecar.close()
  return lines.filter(({ setting }) => setting !== undefined)
}

test('A sidecar whose certificate has expired names the setting at each listener, and starts', async () => {
  const ca = await makeCa()
  const expired = { not_after: expect.any(String) as string }
  expect(await warnings(await issueExpired(ca, 'sidecar'), ca)).toMatchObject([
    { ...expired, setting: 'http_tls.cert_file' },
    { ...expired, setting: 'check_tls.cert_file' },
  ])
})

test('A sidecar says nothing of the names in its certificate, by which gateways alone come', async () => {
  const ca = await makeCa()
  expect(await warnings(await issueCertificate(ca, 'sidecar'), ca)).toEqual([])
})
