/**
 * Owns what a start needs that is right but for one thing: settings of each party, and what it meets around
 * it.
 */
import { chmodSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { createServer, type AddressInfo, type Server } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Client } from 'pg'
import { inject } from 'vitest'
import { stringify } from 'yaml'
import type { Database } from '../../src/storage/authority/database.ts'
import { generatePrivateJwk } from '../../src/wire/signatures/keys.ts'
import { issueCertificate, makeCa } from '../support/local-ca.ts'
import { freshDatabase } from '../support/postgres.ts'
import { startScriptedAuthority, type ScriptedAuthority } from '../support/scripted-authority.ts'
import { accountOf } from '../support/tally.ts'
import { issuerOf } from '../support/witness.ts'

export let folder: string
export let database: Database
export let empty: string
export let authority: ScriptedAuthority
export let taken: { server: Server; address: string }
export let socket: { server: Server; path: string }

const listening = async (...at: [number, string] | [string]): Promise<Server> => {
  const server = createServer(peer => peer.destroy())
  await new Promise<void>(resolve => void server.listen(...(at as [number, string]), resolve))
  return server
}

/** Opens what the rows need: databases, an authority, addresses that are taken, files. */
export async function openBed(): Promise<void> {
  folder = mkdtempSync(join(tmpdir(), 'usher-start-'))
  database = await freshDatabase()
  const url = new URL(inject('postgresUrl'))
  const name = `usher_unmigrated_${process.pid}`
  await onServer(client => client.query(`CREATE DATABASE ${name}`))
  url.pathname = `/${name}`
  empty = url.href
  authority = await startScriptedAuthority()
  authority.script('/token', { status: 401, body: { error: 'invalid_client' } })
  const server = await listening(0, '127.0.0.1')
  taken = { server, address: `127.0.0.1:${(server.address() as AddressInfo).port}` }
  const path = join(folder, 'taken.sock')
  socket = { server: await listening(path), path }
  file('keys.json', JSON.stringify({ keys: [generatePrivateJwk()] }))
  const ca = await makeCa()
  const [one, other] = [await issueCertificate(ca, 'one'), await issueCertificate(ca, 'other')]
  file('one.crt', one.cert)
  file('one.key', one.key)
  file('other.key', other.key)
}

/** Ends all of it. */
export async function closeBed(): Promise<void> {
  taken.server.close()
  socket.server.close()
  await authority.close()
  await database.close()
  await onServer(client => client.query(`DROP DATABASE ${new URL(empty).pathname.slice(1)} WITH (FORCE)`))
  rmSync(folder, { recursive: true })
}

async function onServer(work: (client: Client) => Promise<unknown>): Promise<void> {
  const client = new Client({ connectionString: inject('postgresUrl') })
  await client.connect()
  await work(client)
  await client.end()
}

/** Writes a file, and answers its path. */
export function file(name: string, content: unknown, mode = 0o600): string {
  const path = join(folder, name)
  writeFileSync(path, typeof content === 'string' ? content : stringify(content), { mode })
  chmodSync(path, mode)
  return path
}

export const at = (name: string): string => join(folder, name)

export type Environment = Record<string, string>

const server = (prefix: string): Environment => ({
  DATABASE_URL: database.url,
  [`${prefix}_ISSUER`]: 'https://here.example',
  [`${prefix}_KEYS_FILE`]: at('keys.json'),
  [`${prefix}_DATABASE_WAIT_SECONDS`]: '0',
  [`${prefix}_LISTEN`]: '127.0.0.1:0',
  [`${prefix}_METRICS_LISTEN`]: '127.0.0.1:0',
})
export const ofAuthority = (): Environment => ({ ...server('UMA_AS'), UMA_AS_OWNER_LISTEN: '127.0.0.1:0' })
export const ofOrganization = (): Environment => ({
  ...server('UMA_ORG'),
  UMA_ORG_ID: 'acme',
  UMA_ORG_NAME: 'Acme',
  UMA_ORG_ADMIN_LISTEN: '127.0.0.1:0',
  UMA_ORG_PROVISION: file('organization.yaml', { administrators: [] }),
})
export const ofTally = (): Environment => ({
  ...server('UMA_TALLY'),
  UMA_TALLY_PROVISION: file('tally.yaml', { accounts: [accountOf()] }),
})

export const ofWitness = (): Environment => ({
  ...server('UMA_WITNESS'),
  UMA_WITNESS_LOGS: file('witness.yaml', { issuers: [issuerOf()] }),
})

export const databaseWith = (change: (url: URL) => void): string => {
  const url = new URL(database.url)
  change(url)
  return url.href
}

export const alice = () => ({
  owner: 'alice',
  authority: authority.issuer,
  client_id: 'demo-tools',
  client_secret: 'not the secret of demo-tools',
  tools: [{ tool: 'read', resource_id: 'alice/book', scopes: ['read'] }],
})

/** The sidecar's file with changes, and what names it. */
export function ofSidecar(changes: object | string = {}): Environment {
  const whole = {
    public_url: 'https://tools.example',
    listen: { check: '127.0.0.1:0', http: '127.0.0.1:0' },
    keys_file: at('keys.json'),
    realm: 'tools',
    owners: [{ ...alice(), authority: 'https://as.invalid' }],
  }
  const written = typeof changes === 'string' ? changes : { ...whole, ...changes }
  return { UMA_PEP_CONFIG: file('sidecar.yaml', written), UMA_DEV_LOOPBACK: 'true' }
}
