/**
 * Owns a resource server that registers itself: a real sidecar that publishes its documents where agents call
 * it, and the requests that it signs, made by hand so that a test can make any part of them wrong.
 */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { stringify } from 'yaml'
import { readSidecarConfig } from '../../src/config.ts'
import { freePorts } from '../../src/dev/stack/ports.ts'
import { startSidecar } from '../../src/enforcement/main.ts'
import { signedPost } from '../../src/enforcement/authorities/signed-post.ts'
import { createLogger } from '../../src/http/telemetry/log.ts'
import { generatePrivateJwk, importPrivateJwk, type PrivateKey } from '../../src/wire/signatures/keys.ts'
import type { Reply, TestAuthority } from './authority.ts'

export interface RegisteringServer {
  key: PrivateKey
  /** Where agents call it for alice: its resource_uri and its client_id. */
  resource: string
  /** POST /rs/register; `claims` change the body, `key` signs in place of its own. */
  register(claims?: object, options?: { key?: PrivateKey; unsigned?: boolean }): Promise<Reply>
  /** client_credentials; `form` changes the fields. */
  askForPat(form?: Record<string, string>, options?: { key?: PrivateKey; unsigned?: boolean }): Promise<Reply>
  close(): Promise<void>
}

/**
 * Starts one for alice whose tool `read_notes` works on the resource `alice/<notes>`, published by it alone.
 */
export async function startRegisteringServer(
  authority: TestAuthority,
  notes: string,
): Promise<RegisteringServer> {
  const directory = mkdtempSync(join(tmpdir(), 'usher-rs-'))
  const jwk = generatePrivateJwk()
  const key = importPrivateJwk(jwk)
  const keysFile = join(directory, 'keys.json')
  writeFileSync(keysFile, JSON.stringify({ keys: [jwk] }), { mode: 0o600 })
  const address = `127.0.0.1:${(await freePorts(1))[0]}`
  const public_url = `http://${address}`
  const resource = `${public_url}/mcp/alice`
  const tools = [{ tool: 'read_notes', resource_id: `alice/${notes}`, scopes: ['read'] }]
  const file = join(directory, 'sidecar.yaml')
  writeFileSync(
    file,
    stringify({
      public_url,
      listen: { check: '127.0.0.1:0', http: address },
      keys_file: keysFile,
      realm: 'notes',
      owners: [{ owner: 'alice', authority: authority.issuer, client_id: resource, signature: true, tools }],
    }),
  )
  const logger = createLogger({ name: 'test', level: 'fatal' })
  const sidecar = await startSidecar(readSidecarConfig(file, { UMA_DEV_LOOPBACK: 'true' }), { logger })

  const post =
    (path: string, contentType: string, body: string): Poster =>
    ({ key: by = key, unsigned }) => {
      const signed = signedPost({ url: authority.issuer + path, contentType, body }, by, Date.now)
      const headers = unsigned === true ? { 'content-type': contentType } : (signed.headers as Headers)
      return authority.request('POST', path, { headers, body })
    }
  return {
    key,
    resource,
    register: (claims = {}, options = {}) => {
      const body = JSON.stringify({ owner: 'alice', resource_uri: resource, name: 'Notes', ...claims })
      return post('/rs/register', 'application/json', body)(options)
    },
    askForPat: (form = {}, options = {}) => {
      const fields = {
        grant_type: 'client_credentials',
        scope: 'uma_protection',
        owner: 'alice',
        client_id: resource,
        ...form,
      }
      const body = new URLSearchParams(fields).toString()
      return post('/token', 'application/x-www-form-urlencoded', body)(options)
    },
    close: async () => {
      await sidecar.close()
      rmSync(directory, { recursive: true })
    },
  }
}

type Headers = Record<string, string>
type Poster = (options: { key?: PrivateKey; unsigned?: boolean }) => Promise<Reply>
