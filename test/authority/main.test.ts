/** The process: how it starts, refuses to, and ends. contract, "Parties", "Health"; docs/configuration.md. */
import { spawn, type ChildProcess } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { Agent, get } from 'node:http'
import { join } from 'node:path'
import { Client } from 'pg'
import { afterAll, afterEach, beforeAll, describe, expect, inject, it, vi } from 'vitest'
import { ConfigFault, readAuthorityConfig } from '../../src/config.ts'
import { inTransaction } from '../../src/storage/core/database.ts'
import type { Database } from '../../src/storage/authority/database.ts'
import { insertOwner, spendSignature } from '../../src/storage/authority/owners/owners.ts'
import { generatePrivateJwk } from '../../src/wire/signatures/keys.ts'
import { issueCertificate, makeCa } from '../support/local-ca.ts'
import { freshDatabase } from '../support/postgres.ts'
import { severableLink } from '../support/severable-link.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'
import { until } from '../support/until.ts'
import { asOwner, type Owner } from '../../src/wire/identifiers.ts'
import { usherProgram } from '../support/usher-program.ts'

const CLI = usherProgram()
const directory = temporaryFolder('main')
let database: Database
let environment: Record<string, string>
const children = new Set<ChildProcess>()

beforeAll(async () => {
  database = await freshDatabase()
  const keysFile = join(directory, 'keys.json')
  writeFileSync(keysFile, JSON.stringify({ keys: [generatePrivateJwk()] }), { mode: 0o600 })
  environment = {
    UMA_AS_ISSUER: 'https://as.example',
    UMA_AS_KEYS_FILE: keysFile,
    UMA_AS_LISTEN: '127.0.0.1:0',
    UMA_AS_OWNER_LISTEN: '127.0.0.1:0',
    UMA_AS_METRICS_LISTEN: '127.0.0.1:0',
    UMA_AS_DRAIN_MS: '0',
    DATABASE_URL: database.url,
  }
})
afterEach(() => {
  for (const child of children) child.kill('SIGKILL')
  children.clear()
})
afterAll(() => database.close())

interface Run {
  child: ChildProcess
  output(): string
  exit: Promise<number | null>
}

function usher(args: string[], more: Record<string, string> = {}): Run {
  const env = { PATH: process.env['PATH'] ?? '', ...environment, ...more }
  const child = spawn(process.execPath, [CLI, ...args], { env, stdio: ['ignore', 'pipe', 'pipe'] })
  children.add(child)
  let output = ''
  child.stdout.on('data', chunk => (output += String(chunk)))
  child.stderr.on('data', chunk => (output += String(chunk)))
  const exit = new Promise<number | null>(resolve => child.on('close', code => resolve(code)))
  return { child, output: () => output, exit }
}

/** The line that says where it serves, when it is there. */
const serving = (run: Run) =>
  vi.waitFor(
    () => {
      const line = run
        .output()
        .split('\n')
        .find(text => text.includes('the authority is serving'))
      expect(line, run.output()).toBeDefined()
      return JSON.parse(line!) as { public: string; owner: Owner }
    },
    { timeout: 60_000, interval: 20 },
  )

describe('usher authority', () => {
  it('on SIGTERM goes on answering, also on connections that stood idle, and closes each with its answer', async () => {
    const run = usher(['authority'], { UMA_AS_DRAIN_MS: '3000' })
    const addresses = await serving(run)
    const agent = new Agent({ keepAlive: true, maxSockets: 1 })
    const ask = (path: string) =>
      new Promise<{ status: number | undefined; connection: string | undefined; reused: boolean }>(
        (resolve, reject) => {
          const request = get(`http://${addresses.public}${path}`, { agent }, response => {
            const { statusCode: status, headers } = response
            const { connection } = headers
            response.resume().once('end', () => resolve({ status, connection, reused: request.reusedSocket }))
          }).once('error', reject)
        },
      )
    expect(await ask('/health')).toMatchObject({ status: 200, connection: 'keep-alive' })
    run.child.kill('SIGTERM')
    await until(async () => (await fetch(`http://${addresses.public}/health`)).status === 503)
    expect(await ask('/jwks')).toEqual({ status: 200, connection: 'close', reused: true })
    expect(await run.exit).toBe(0)
    agent.destroy()
  })

  it('serves on two addresses, and on SIGTERM ends in order with exit status 0', async () => {
    const run = usher(['authority'])
    const addresses = await serving(run)
    expect((await fetch(`http://${addresses.public}/health`)).status).toBe(200)
    expect((await fetch(`http://${addresses.owner}/health`)).status).toBe(200)
    expect(addresses.public).not.toBe(addresses.owner)
    run.child.kill('SIGTERM')
    expect(await run.exit, run.output()).toBe(0)
  })

  it('says loudly that development mode is on', async () => {
    const run = usher(['authority'], { UMA_DEV_LOOPBACK: 'true', UMA_AS_ISSUER: 'http://127.0.0.1:9100' })
    await serving(run)
    expect(run.output()).toMatch(/"level":"warn".*UMA_DEV_LOOPBACK IS ON/)
  })

  it('that does TLS by itself warns if nothing says where owners reach their API', async () => {
    const pair = await issueCertificate(await makeCa(), 'server')
    const file = (name: string, content: string) => {
      writeFileSync(join(directory, name), content, { mode: 0o600 })
      return join(directory, name)
    }
    const run = usher(['authority'], {
      UMA_AS_TLS_CERT_FILE: file('tls.crt', pair.cert),
      UMA_AS_TLS_KEY_FILE: file('tls.key', pair.key),
    })
    await serving(run)
    expect(run.output()).toMatch(/"level":"warn".*UMA_AS_OWNER_URL: it is not set/)
  })

  it('names, in development, the address of its owner API', async () => {
    const run = usher(['authority'], { UMA_DEV_LOOPBACK: 'true', UMA_AS_ISSUER: 'http://127.0.0.1:9100' })
    const addresses = await serving(run)
    const answer = await fetch(`http://${addresses.public}/.well-known/agents-configuration`)
    expect(await answer.json()).toMatchObject({ owner_endpoint: `http://${addresses.owner}/owner` })
  })

  it('says in its log that its clock is off, and by how much', async () => {
    const ahead = 'const now = Date.now; Date.now = () => now() + 120_000'
    const run = usher(['authority'], {
      NODE_OPTIONS: `--import=data:text/javascript,${encodeURIComponent(ahead)}`,
    })
    await serving(run)
    expect(run.output()).toMatch(
      /"level":"error".*clock of this replica is 120\.\d s ahead of .*issues nothing/,
    )
  })

  it('sweeps rows that no answer depends on any more', async () => {
    const spent = async () => {
      const { rows } = await database.pool.query(`SELECT count(*) AS n FROM spent_signatures`)
      return (rows[0] as { n: number }).n
    }
    await inTransaction(database.db, async tx => {
      await insertOwner(tx, { owner: asOwner('alice'), tag: 'tag' })
      await spendSignature(tx, asOwner('alice'), Buffer.alloc(32), -1)
      await spendSignature(tx, asOwner('alice'), Buffer.alloc(32, 1), 600)
    })
    usher(['authority'], { UMA_AS_SWEEP_SECONDS: '1' })
    await vi.waitFor(async () => expect(await spent()).toBe(1), { timeout: 60_000, interval: 50 })
  })

  it('does not start on a faulty configuration, and lists every fault', async () => {
    const run = usher(['authority'], { UMA_AS_LISTEN: 'nowhere', UMA_AS_POLL_SECONDS: 'often' })
    expect(await run.exit).toBe(2)
    expect(run.output()).toMatch(/UMA_AS_LISTEN/)
    expect(run.output()).toMatch(/UMA_AS_POLL_SECONDS/)
  })

  it('does not start without its database, and says so without a stack on the terminal', async () => {
    const run = usher(['authority'], {
      DATABASE_URL: 'postgres://nobody:secret@127.0.0.1:1/none',
      UMA_AS_DATABASE_WAIT_SECONDS: '0',
    })
    expect(await run.exit).not.toBe(0)
    expect(run.output()).toMatch(/DATABASE_URL: no primary answered at 127\.0\.0\.1:1\/none .*ECONNREFUSED/)
    expect(run.output()).not.toMatch(/secret|at .*\.ts:/)
  })

  it('waits for a database that says nothing, tells what it waits for after a second, and starts once it answers', async () => {
    const link = await severableLink(database.url)
    link.silence()
    const run = usher(['authority'], { DATABASE_URL: link.url })
    const line = /"level":"warn".*waiting for the database at 127\.0\.0\.1:\d+\/usher_\w+ \(DATABASE_URL\)/
    await until(() => line.test(run.output()))
    link.mend()
    await serving(run)
    await link.close()
  })

  it.each([['authority'], ['migrate'], ['authority', 'enrol', '--owner', 'alice']])(
    'gives up a database that says nothing once the time for it is over: usher %s',
    async (...args) => {
      const link = await severableLink(database.url)
      link.silence()
      const run = usher(
        args.filter(argument => argument !== undefined),
        { DATABASE_URL: link.url, UMA_AS_DATABASE_WAIT_SECONDS: '2' },
      )
      expect(await run.exit).not.toBe(0)
      expect(run.output()).toMatch(/waiting for the database at/)
      expect(run.output()).toMatch(/DATABASE_URL: no primary answered at .* within 2 s/)
      await link.close()
    },
  )

  it('does not wait if its database refuses it', async () => {
    const url = new URL(database.url)
    url.password = 'wrong'
    const run = usher(['authority'], { DATABASE_URL: url.href })
    expect(await run.exit).not.toBe(0)
    expect(run.output()).toMatch(
      /DATABASE_URL: the database at .* refuses us: password authentication failed/,
    )
  })

  it('two started at once on an empty database both serve', async () => {
    const name = `usher_empty_${process.pid}`
    const url = new URL(inject('postgresUrl'))
    const server = new Client({ connectionString: url.href })
    await server.connect()
    await server.query(`CREATE DATABASE ${name}`)
    url.pathname = `/${name}`
    const runs = [1, 2].map(() => usher(['authority'], { DATABASE_URL: url.href }))
    for (const run of runs) await serving(run)
    for (const run of runs) run.child.kill('SIGTERM')
    expect(await Promise.all(runs.map(run => run.exit))).toEqual([0, 0])
    await server.query(`DROP DATABASE ${name} WITH (FORCE)`)
    await server.end()
  })
})

describe('usher migrate', () => {
  it('needs nothing but the database', async () => {
    const child = spawn(process.execPath, [CLI, 'migrate'], {
      env: { PATH: process.env['PATH'] ?? '', DATABASE_URL: database.url },
    })
    children.add(child)
    let output = ''
    child.stdout.on('data', chunk => (output += String(chunk)))
    expect(await new Promise(resolve => child.on('close', resolve))).toBe(0)
    expect(output).toBe('The database is up to date.\n')
  })
})

describe('The settings', () => {
  const faults = (more: Record<string, string>) => {
    try {
      readAuthorityConfig({ ...environment, ...more })
    } catch (error) {
      if (error instanceof ConfigFault) return error.faults
      throw error
    }
    return []
  }
  it.each([
    ['an http issuer', { UMA_AS_ISSUER: 'http://as.example' }, /not https/],
    ['an issuer with a path', { UMA_AS_ISSUER: 'https://as.example/uma' }, /scheme and authority only/],
    [
      'a loopback name in development',
      { UMA_AS_ISSUER: 'http://localhost:1', UMA_DEV_LOOPBACK: 'true' },
      /not https/,
    ],
    ['oidc without a realm', { UMA_AS_OWNER_AUTH: 'oidc' }, /Set UMA_AS_OIDC_ISSUER/],
    [
      'oidc without an audience',
      { UMA_AS_OWNER_AUTH: 'device-key,oidc', UMA_AS_OIDC_ISSUER: 'https://realm.example' },
      /Set UMA_AS_OIDC_AUDIENCE/,
    ],
    [
      'an http realm',
      {
        UMA_AS_OWNER_AUTH: 'oidc',
        UMA_AS_OIDC_ISSUER: 'http://realm.example',
        UMA_AS_OIDC_AUDIENCE: 'owner-api',
      },
      /UMA_AS_OIDC_ISSUER.*not https/,
    ],
    [
      'itself as the realm',
      {
        UMA_AS_OWNER_AUTH: 'oidc',
        UMA_AS_OIDC_ISSUER: 'https://as.example/',
        UMA_AS_OIDC_AUDIENCE: 'owner-api',
      },
      /the realm cannot be the issuer of this process itself/,
    ],
    ['HMAC for the tokens of a realm', { UMA_AS_OIDC_ALGORITHMS: 'HS256' }, /UMA_AS_OIDC_ALGORITHMS/],
    ['unsigned tokens of a realm', { UMA_AS_OIDC_ALGORITHMS: 'none' }, /UMA_AS_OIDC_ALGORITHMS/],
    ['an http owner URL', { UMA_AS_OWNER_URL: 'http://owner.example' }, /UMA_AS_OWNER_URL.*not https/],
    ['half of TLS', { UMA_AS_TLS_CERT_FILE: '/x' }, /Set both/],
    ['a provisioning file that is not there', { UMA_AS_PROVISION: '/nowhere.yaml' }, /cannot read/],
  ])('refuse %s', (_case, more, fault) => {
    expect(faults(more)).toContainEqual(expect.stringMatching(fault))
  })

  it('take an https issuer, and http of a literal loopback host in development', () => {
    expect(faults({})).toEqual([])
    expect(faults({ UMA_AS_ISSUER: 'http://127.0.0.1:9100', UMA_DEV_LOOPBACK: 'true' })).toEqual([])
  })
})
