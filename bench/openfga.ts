/**
 * Owns OpenFGA as a peer: one store, one model, one tuple in a database of the same Postgres, and the Check
 * that is asked again and again, by gRPC.
 */
import { execFile } from 'node:child_process'
import { connect } from 'node:http2'
import { promisify } from 'node:util'
import { Client } from 'pg'
import { untilReady, type Child } from '../src/dev/stack/child-process.ts'
import { freePorts } from '../src/dev/stack/ports.ts'
import { framed, GRPC } from './cross-check.ts'

export interface OpenFga {
  version: string
  /** The Check, as h2load sends it. */
  check: { url: string; headers: Record<string, string>; body: Buffer }
}

const execute = promisify(execFile)

const TUPLE = { user: 'user:agent', relation: 'reader', object: 'document:portfolio' }
const MODEL = {
  schema_version: '1.1',
  type_definitions: [
    { type: 'user' },
    {
      type: 'document',
      relations: { reader: { this: {} } },
      metadata: { relations: { reader: { directly_related_user_types: [{ type: 'user' }] } } },
    },
  ],
}

/** What h2load does not read: that the answer is an allow. Throws for any other. */
async function checkOnce(url: string, body: Buffer): Promise<void> {
  const session = connect(new URL(url).origin)
  try {
    const stream = session.request({ ':method': 'POST', ':path': new URL(url).pathname, ...GRPC })
    let status: unknown
    stream.on('trailers', trailers => (status = trailers['grpc-status']))
    stream.on('response', headers => (status ??= headers['grpc-status']))
    stream.end(body)
    const answer = Buffer.concat(await stream.toArray())
    // `allowed` is the first member of a CheckResponse.
    if (status !== '0' || !answer.subarray(5).equals(Buffer.of(8, 1)))
      throw new Error(`OpenFGA answered a Check with status ${String(status)}: ${answer.toString('hex')}`)
  } finally {
    session.destroy()
  }
}

/** Undefined if there is none. Caches are off, as they are by default: each Check reads Postgres. */
export async function openOpenFga(
  databaseUrl: string,
  run: (name: string, command: string[]) => Child,
): Promise<OpenFga | undefined> {
  const program = process.env['OPENFGA_BIN'] ?? 'openfga'
  const version = await execute(program, ['version']).catch(() => undefined)
  if (version === undefined) return undefined
  const uri = await databaseFor(databaseUrl, 'openfga')
  const store = ['--datastore-engine', 'postgres', '--datastore-uri', uri]
  await execute(program, ['migrate', ...store], { timeout: 60_000 })
  const [http, grpc] = (await freePorts(2)) as [number, number]
  const addresses = ['--http-addr', `127.0.0.1:${http}`, '--grpc-addr', `127.0.0.1:${grpc}`]
  const quiet = ['--playground-enabled=false', '--metrics-enabled=false', '--log-level', 'none']
  const server = run('openfga', [program, 'run', ...store, ...addresses, ...quiet])
  const api = `http://127.0.0.1:${http}/stores`
  await untilReady(server, async () => (await fetch(`http://127.0.0.1:${http}/healthz`)).ok)
  const id = String((await posted(api, { name: 'bench' }))['id'])
  const { authorization_model_id } = await posted(`${api}/${id}/authorization-models`, MODEL)
  await posted(`${api}/${id}/write`, { writes: { tuple_keys: [TUPLE] }, authorization_model_id })
  const check = { tuple_key: TUPLE, authorization_model_id }
  const { allowed } = await posted(`${api}/${id}/check`, check)
  if (allowed !== true) throw new Error('OpenFGA does not allow what its tuple says')
  const url = `http://127.0.0.1:${grpc}/openfga.v1.OpenFGAService/Check`
  const body = framed(checkMessage(id, String(authorization_model_id)))
  await checkOnce(url, body)
  const told = `${version.stdout}${version.stderr}`
  return {
    version: /v\d+\.\d+\.\d+/.exec(told)?.[0] ?? 'of its own build',
    check: { url, headers: GRPC, body },
  }
}

async function databaseFor(databaseUrl: string, name: string): Promise<string> {
  const client = new Client({ connectionString: databaseUrl })
  await client.connect()
  try {
    await client.query(`DROP DATABASE IF EXISTS ${name}`)
    await client.query(`CREATE DATABASE ${name}`)
  } finally {
    await client.end()
  }
  const url = new URL(databaseUrl)
  url.pathname = `/${name}`
  url.searchParams.set('sslmode', 'disable')
  return url.href
}

async function posted(url: string, body: unknown): Promise<Record<string, unknown>> {
  const headers = { 'content-type': 'application/json' }
  const answer = await fetch(url, { method: 'POST', headers, body: JSON.stringify(body) })
  const text = await answer.text()
  if (!answer.ok) throw new Error(`OpenFGA answered ${answer.status}: ${text.slice(0, 300)}`)
  return JSON.parse(text) as Record<string, unknown>
}

/**
 * openfga.v1.CheckRequest: store_id 1, tuple_key 2 {user 1, relation 2, object 3}, authorization_model_id 4.
 */
function checkMessage(store: string, model: string): Buffer {
  const field = (n: number, value: string | Buffer): Buffer => {
    const bytes = Buffer.from(value as string)
    if (bytes.length > 127) throw new Error('too long for a length of one byte')
    return Buffer.concat([Buffer.of((n << 3) | 2, bytes.length), bytes])
  }
  const tuple = Buffer.concat([field(1, TUPLE.user), field(2, TUPLE.relation), field(3, TUPLE.object)])
  return Buffer.concat([field(1, store), field(2, tuple), field(4, model)])
}
