/**
 * `make upgrade-package`: packs the built command of this version, and dumps the schema that it makes for
 * each party, into this folder: what every later upgrade test starts from. The same tree gives the same
 * bytes: npm writes no time into a package.
 *
 * Left out is what no upgrade runs: the modules of the libraries, their types, the documents.
 */
import { execFileSync } from 'node:child_process'
import {
  cpSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Client } from 'pg'
import { startEmbeddedPostgres } from '../../src/dev/stack/embedded-postgres.ts'
import { ROOT } from '../support/repository.ts'
import { artefact, dumpName, PARTIES, unpack, type Party } from './released.ts'
import { dumpSchema } from './schema-dump.ts'

const PACKED = ['dist/bin', 'dist/console', 'dist/envoy', 'dist/migrations', 'dist/proto']

const manifest = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8')) as Record<string, unknown>
const { name, version, license, type, engines, bin } = manifest
const file = artefact(`${String(version)}.tgz`)
const stage = mkdtempSync(join(tmpdir(), 'usher-cut-'))
try {
  execFileSync('npm', ['run', 'build', '--silent'], { cwd: ROOT, stdio: ['ignore', 'ignore', 'inherit'] })
  for (const path of PACKED) {
    mkdirSync(join(stage, path), { recursive: true })
    cpSync(join(ROOT, path), join(stage, path), { recursive: true })
  }
  const packed = { name, version, license, type, engines, bin, files: ['dist'] }
  writeFileSync(join(stage, 'package.json'), `${JSON.stringify(packed, undefined, 2)}\n`)
  const said = execFileSync('npm', ['pack', '--silent', '--ignore-scripts'], { cwd: stage, encoding: 'utf8' })
  cpSync(join(stage, said.trim()), `${file}.new`)
  renameSync(`${file}.new`, file)
  await dumpAll(file)
} finally {
  rmSync(stage, { recursive: true })
}
process.stdout.write(`${file}: ${Math.ceil(statSync(file).size / 1024)} kB\n`)

/** By the program that was packed, as an installation of it would have them. */
async function dumpAll(packed: string): Promise<void> {
  const { program, remove } = unpack(packed)
  const server = await startEmbeddedPostgres({ maxConnections: 20 })
  try {
    for (const party of Object.keys(PARTIES) as Party[]) {
      const administrator = await connected(server.url)
      await administrator.query(`CREATE DATABASE usher_${party}`)
      await administrator.end()
      const url = new URL(server.url)
      url.pathname = `/usher_${party}`
      const environment = { PATH: process.env['PATH'], DATABASE_URL: url.href }
      execFileSync(process.execPath, [...program, ...PARTIES[party]], { env: environment })
      const client = await connected(url.href)
      const text = await dumpSchema(client)
      await client.end()
      const head = `-- The schema of the ${party} of usher ${String(version)}: written by \`make upgrade-package\`, never by hand.\n`
      writeFileSync(artefact(dumpName(String(version), party)), head + text)
    }
  } finally {
    await server.stop()
    remove()
  }
}

async function connected(url: string): Promise<Client> {
  const client = new Client({ connectionString: url })
  await client.connect()
  return client
}
