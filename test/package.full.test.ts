/**
 * The package as somebody installs it: packed, unpacked in a place without the rest of this repository, with
 * the dependencies that it names and no others. contract, "What the service does": `usher` the command,
 * `@usher-authz/usher/agent`, `@usher-authz/usher/embedded` and `@usher-authz/usher/verify` the libraries.
 */
import { execFile, spawn, type ChildProcess } from 'node:child_process'
import {
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { createRequire } from 'node:module'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { build } from 'rolldown'
import { beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { stringify } from 'yaml'
import { freePorts } from '../src/dev/stack/ports.ts'
import { generatePrivateJwk } from '../src/wire/signatures/keys.ts'
import { embeddedSettings } from './support/embedded.ts'
import { freshDatabase } from './support/postgres.ts'
import { ROOT } from './support/repository.ts'
import { temporaryFolder } from './support/temporary-folder.ts'
import { until } from './support/until.ts'

interface Manifest {
  bin: { usher: string }
  exports: Record<string, { types: string; default: string }>
  dependencies: Record<string, string>
}

interface Ended {
  code: number
  out: string
  err: string
}

const QUIETLY = ['--prefer-offline', '--no-audit', '--no-fund', '--loglevel=error']
const ENVIRONMENT = { PATH: process.env['PATH'], HOME: tmpdir(), UMA_DEV_LOOPBACK: 'true' }
const folder = temporaryFolder('package')
let tarball: string
let manifest: Manifest

function run(command: string[], cwd: string, environment: Record<string, string | undefined> = ENVIRONMENT) {
  const [program, ...args] = command as [string, ...string[]]
  return new Promise<Ended>(resolve => {
    execFile(program, args, { cwd, env: environment, maxBuffer: 16 * 1024 * 1024 }, (error, out, err) => {
      const code = typeof error?.code === 'number' ? error.code : error === null ? 0 : -1
      resolve({ code, out, err })
    })
  })
}

async function must(command: string[], cwd: string, environment?: Record<string, string | undefined>) {
  const ended = await run(command, cwd, environment)
  if (ended.code !== 0)
    throw new Error(`${command.join(' ')} ended with ${ended.code}:\n${ended.out}${ended.err}`)
  return ended.out
}

const installed = (...path: string[]): string =>
  join(folder, 'node_modules', '@usher-authz', 'usher', ...path)
const usher = (...args: string[]): Promise<Ended> =>
  run([process.execPath, installed(manifest.bin.usher), ...args], folder)
const put = (file: string, text: string): void => writeFileSync(join(folder, file), text, { mode: 0o600 })

beforeAll(async () => {
  await must(['npm', 'run', 'build', '--silent'], ROOT, process.env)
  // Outside the repository: whatever the package does not name is not found.
  await must(['npm', 'pack', '--silent', '--ignore-scripts', '--pack-destination', folder], ROOT, process.env)
  tarball = join(folder, readdirSync(folder)[0]!)
  mkdirSync(installed(), { recursive: true })
  await must(['tar', '-xzf', tarball, '-C', installed(), '--strip-components=1'], folder)
  manifest = JSON.parse(readFileSync(installed('package.json'), 'utf8')) as Manifest
  for (const name of [...Object.keys(manifest.dependencies), '@types/node', '@modelcontextprotocol/client']) {
    const place = join(folder, 'node_modules', name)
    mkdirSync(dirname(place), { recursive: true })
    symlinkSync(join(ROOT, 'node_modules', name), place)
  }
  put('package.json', JSON.stringify({ name: 'consumer', private: true, type: 'module' }))
  put('keys.json', JSON.stringify({ keys: [generatePrivateJwk()] }))
}, 300_000)

describe('The packed package', () => {
  test('holds every file that package.json names, what the program reads, and nothing of the tests', () => {
    const named = [
      manifest.bin.usher,
      ...Object.values(manifest.exports).flatMap(entry => Object.values(entry)),
    ]
    for (const path of [
      ...named,
      'README.md',
      'LICENSE',
      'docs/configuration.md',
      'docs/tutorial.md',
      'dist/console/index.html',
      'dist/console/console.js',
    ])
      expect(readFileSync(installed(path)).length).toBeGreaterThan(0)
    const all = readdirSync(installed(), { recursive: true }).map(String)
    expect(all.filter(path => /(^|\/)(test|bench|node_modules)(\/|$)|\.test\./.test(path))).toEqual([])
    expect(readFileSync(installed(manifest.bin.usher), 'utf8')).toMatch(/^#!\/usr\/bin\/env node\n/)
  })

  test('gives a TypeScript consumer its types, and the example its SDK', async () => {
    put('consumer.ts', CONSUMER)
    put('sdk-client.ts', readFileSync(join(ROOT, 'docs', 'examples', 'sdk-client.ts'), 'utf8'))
    const options = {
      compilerOptions: {
        target: 'ES2024',
        module: 'NodeNext',
        strict: true,
        exactOptionalPropertyTypes: true,
        noEmit: true,
        skipLibCheck: true,
        types: ['node'],
      },
      files: ['consumer.ts', 'sdk-client.ts'],
    }
    put('tsconfig.json', JSON.stringify(options))
    const tsc = createRequire(import.meta.url).resolve('typescript/bin/tsc')
    expect(await run([process.execPath, tsc, '-p', '.'], folder)).toEqual({ code: 0, out: '', err: '' })
  })

  test('enforces inside a Fastify application, and makes an agent', async () => {
    put('settings.json', JSON.stringify(embeddedSettings('http://127.0.0.1:9', join(folder, 'keys.json'))))
    put('consumer.js', APPLICATION)
    await must([process.execPath, 'consumer.js'], folder)
    expect(JSON.parse(readFileSync(join(folder, 'result.json'), 'utf8'))).toEqual({
      document: [200, 'https://tools.example.com/mcp/alice'],
      list: [200, 'tools/list'],
      call: [503, 'temporarily_unavailable'],
      thumbprint: 43,
    })
  })

  test('runs as a command: help, and the reference of every setting', async () => {
    const help = await usher('--help')
    expect([help.code, help.err]).toEqual([0, ''])
    for (const name of ['authority', 'sidecar', 'migrate', 'agent', 'owner', 'dev'])
      expect(help.out).toContain(`  ${name} `)
    for (const party of ['agent', 'owner', 'dev']) {
      expect(await usher(party, '--help')).toMatchObject({
        code: 0,
        out: expect.stringContaining(`usher ${party}`),
      })
    }
  })

  // npm itself chooses what comes with it: the optional parts, too, and nothing that only we develop with.
  test.each([
    ['npm install', (place: string) => must(['npm', 'install', ...QUIETLY, tarball], place, process.env)],
    ['npx alone', () => Promise.resolve('')],
  ])(
    'runs as a command after %s in an empty project',
    async (_what, install) => {
      const place = mkdtempSync(join(tmpdir(), 'usher-project-'))
      onTestFinished(() => rmSync(place, { recursive: true, force: true }))
      writeFileSync(join(place, 'package.json'), JSON.stringify({ name: 'empty', private: true }))
      await install(place)
      const isInstalled = readdirSync(place).includes('node_modules')
      const from = isInstalled ? ['--no-install'] : ['--yes', ...QUIETLY, `--package=${tarball}`]
      const { version } = JSON.parse(readFileSync(installed('package.json'), 'utf8')) as { version: string }
      expect(await must(['npx', ...from, 'usher', '--version'], place, process.env)).toBe(`${version}\n`)
      const config = [
        'agent',
        'bridge',
        'config',
        '--client',
        'cursor',
        'https://tools.example.com/mcp/alice',
      ]
      const printed = await must(['npx', ...from, 'usher', ...config], place, process.env)
      expect(printed).toContain('https://tools.example.com/mcp/alice')
    },
    300_000,
  )

  test('holds a bridge that needs nothing else: it answers a client over standard input and output', async () => {
    const message = {
      jsonrpc: '2.0',
      id: 1,
      method: 'initialize',
      params: { protocolVersion: '2025-11-25', capabilities: {}, clientInfo: { name: 'c', version: '1' } },
    }
    const command = [installed(manifest.bin.usher), 'agent', 'bridge', 'http://127.0.0.1:9/mcp/alice']
    const environment = { ...ENVIRONMENT, UMA_BRIDGE_STATE: join(folder, 'bridge') }
    const child = spawn(process.execPath, command, { cwd: folder, env: environment, stdio: 'pipe' })
    let said = ''
    for (const stream of [child.stdout, child.stderr]) stream.on('data', chunk => (said += String(chunk)))
    child.stdin.end(`${JSON.stringify(message)}\n`)
    await until(() => child.exitCode !== null)
    expect(JSON.parse(said)).toMatchObject({ id: 1, result: { serverInfo: { name: 'usher-bridge' } } })
  })

  test('has an agent library under 200 kB, all that it loads included', async () => {
    put('agent.js', "export { createAgent } from '@usher-authz/usher/agent'\n")
    const { output } = await build({
      cwd: folder,
      input: 'agent.js',
      platform: 'node',
      write: false,
      logLevel: 'silent',
      treeshake: false,
      output: { comments: { legal: true, annotation: false, jsdoc: false } },
    })
    const bytes = output.reduce((sum, one) => sum + ('code' in one ? one.code.length : 0), 0)
    expect(bytes).toBeGreaterThan(20_000)
    expect(bytes).toBeLessThan(200_000)
  })

  test('runs a sidecar until it is told to end', async () => {
    const [check, http] = (await freePorts(2)) as [number, number]
    const listen = { check: `127.0.0.1:${check}`, http: `127.0.0.1:${http}` }
    const settings = embeddedSettings('http://127.0.0.1:9', join(folder, 'keys.json'), {
      listen,
      drain_ms: 0,
    })
    put('sidecar.yaml', stringify(settings))
    const command = [installed(manifest.bin.usher), 'sidecar', '--config', 'sidecar.yaml']
    const child: ChildProcess = spawn(process.execPath, command, {
      cwd: folder,
      env: ENVIRONMENT,
      stdio: 'pipe',
    })
    let said = ''
    for (const stream of [child.stdout, child.stderr]) stream?.on('data', chunk => (said += String(chunk)))
    try {
      await until(async () => {
        if (child.exitCode !== null) throw new Error(said)
        return (await statusOf(`http://127.0.0.1:${http}/health`)) === 200
      }, 30_000)
      child.kill('SIGTERM')
      await until(() => child.exitCode !== null)
      expect(child.exitCode).toBe(0)
    } finally {
      child.kill('SIGKILL')
    }
  })

  test('finds its migrations', async () => {
    const database = await freshDatabase({ poolMax: 1 })
    try {
      const environment = { ...ENVIRONMENT, DATABASE_URL: database.url }
      const command = [process.execPath, installed(manifest.bin.usher), 'migrate']
      expect(await run(command, folder, environment)).toMatchObject({ code: 0 })
    } finally {
      await database.close()
    }
  })
})

async function statusOf(url: string): Promise<number | undefined> {
  return fetch(url, { signal: AbortSignal.timeout(2_000) }).then(
    async answer => {
      await answer.arrayBuffer()
      return answer.status
    },
    () => undefined,
  )
}

/** Each `@ts-expect-error` fails if a type has become `any`. */
const CONSUMER = `
import { createServer } from 'node:http'
import Fastify from 'fastify'
import { createAgent, AgentError, memoryStore, type Agent, type CallResult } from '@usher-authz/usher/agent'
import { ConfigFault, embed, type Caller, type EnforcementPoint } from '@usher-authz/usher/embedded'
import { parseJwks, readLedgerFile, verifyLedger, type LedgerFault } from '@usher-authz/usher/verify'

export async function faults(lines: string[], jwks: unknown): Promise<LedgerFault[]> {
  return verifyLedger(await readLedgerFile(lines), { keys: parseJwks(jwks) }).faults
}

export async function serve(): Promise<EnforcementPoint> {
  const point = await embed('usher.yaml', { environment: {} })
  createServer(point.protect((request, response) => {
    const caller: Caller | undefined = point.callerOf(request)
    response.end(caller?.agent)
  }))
  const application = Fastify()
  await application.register(point.fastifyDocuments)
  await application.register(point.fastify)
  // @ts-expect-error no number is a configuration
  await embed(7)
  // @ts-expect-error it has no such member
  point.unknown()
  return point
}

export async function call(key: Parameters<typeof createAgent>[0]['key']): Promise<CallResult> {
  const agent: Agent = createAgent({ key, store: memoryStore() })
  const transport = agent.authorize({ send: async (_message: object) => undefined }, 'https://tools.example.com/mcp/alice')
  await transport.send({})
  // @ts-expect-error a key is needed
  createAgent({})
  // @ts-expect-error a thumbprint is a text
  const thumbprint: number = agent.thumbprint
  return agent.call({ resource: 'https://tools.example.com/mcp/alice', tool: 'portfolio_read', arguments: { thumbprint } })
}

export const isOurs = (error: unknown): boolean => error instanceof AgentError || error instanceof ConfigFault
`

/** No authority answers at its address, so a call is an outage; everything else needs none. */
const APPLICATION = `
import { readFileSync, writeFileSync } from 'node:fs'
import Fastify from 'fastify'
import { createAgent } from '@usher-authz/usher/agent'
import { embed } from '@usher-authz/usher/embedded'

const point = await embed(JSON.parse(readFileSync('settings.json', 'utf8')))
const application = Fastify()
await application.register(point.fastifyDocuments)
await application.register(async scope => {
  await scope.register(point.fastify)
  scope.post('/mcp/alice', request => ({ error: request.body.method }))
})
const ask = async (method, url, payload) => {
  const { statusCode, body } = await application.inject({ method, url, payload })
  const { resource, error } = JSON.parse(body)
  return [statusCode, resource ?? error]
}
const message = (method, params) => ({ jsonrpc: '2.0', id: 1, method, params })
const { d, x } = JSON.parse(readFileSync('keys.json', 'utf8')).keys[0]
const result = {
  document: await ask('GET', '/.well-known/oauth-protected-resource/mcp/alice'),
  list: await ask('POST', '/mcp/alice', message('tools/list', {})),
  call: await ask('POST', '/mcp/alice', message('tools/call', { name: 'portfolio_read' })),
  thumbprint: createAgent({ key: { kty: 'OKP', crv: 'Ed25519', d, x } }).thumbprint.length,
}
await application.close()
await point.close()
writeFileSync('result.json', JSON.stringify(result))
`
