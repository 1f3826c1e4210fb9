/**
 * An owner who comes while everything runs: contract, "Resource server enforcement point" (documents, per
 * owner) and "Resource server establishment". Envoy keeps the routes that it started with, and so does every
 * process: she is added at the authority, and is one more entry of the sidecar's file.
 */
import { execFile } from 'node:child_process'
import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { parse, stringify } from 'yaml'
import { openAgent, firstEvent } from '../../src/dev/story/scene.ts'
import type { Stack } from '../../src/dev/stack/stack.ts'
import { createOwnerClient } from '../../src/owner/index.ts'
import { readAll } from '../../src/client/exchange.ts'
import { generatePrivateJwk, importPrivateJwk } from '../../src/wire/signatures/keys.ts'
import { changedEnvoy, envoy } from '../support/envoy.ts'
import { describeWith } from '../support/requirement.ts'
import { startStack } from '../support/stack.ts'
import { until } from '../support/until.ts'
import { usherProgram } from '../support/usher-program.ts'

const run = promisify(execFile)
const CLI = usherProgram()

/** Leaves the one route `owners` for all owners: what passes, passes by the pattern. */
function patternOnly(yaml: string): string {
  return changedEnvoy(
    yaml,
    ({
      route_config: {
        virtual_hosts: [host],
      },
    }) => {
      host.routes = host.routes.filter(({ name }) => name !== 'alice' && name !== 'unknown')
    },
  )
}

describeWith(await envoy(), 'An owner who is added while everything runs', found => {
  let stack: Stack
  let databaseUrl = ''
  beforeAll(async () => {
    stack = await startStack({
      envoy: found,
      changeEnvoy: patternOnly,
      reachDatabase: async url => (databaseUrl = url),
    })
  })
  afterAll(() => stack?.stop())

  const ofAuthority = async (...args: string[]) => {
    const env = { ...process.env, DATABASE_URL: databaseUrl, UMA_DEV_LOOPBACK: 'true' }
    const { stdout } = await run(process.execPath, [CLI, 'authority', 'owner', ...args, '--json'], { env })
    return JSON.parse(stdout) as { code: string }
  }
  /** One more entry, and resources for owners who list none. */
  const addToFile = async (owner: string) => {
    const file = join(stack.directory, 'sidecar.yaml')
    const given = parse(await readFile(file, 'utf8')) as { owners: object[] }
    given.owners.push({ owner, authority: stack.issuer, signature: true, register: true })
    const tool = (tool: string, id: string) => ({ tool, resource_id: `{owner}/${id}`, scopes: ['read'] })
    const resources = [
      { path: '/mcp/{owner}', tools: [tool('portfolio_read', 'portfolio')] },
      { path: '/notes/{owner}', tools: [tool('note_read', 'notes')] },
    ]
    await writeFile(file, stringify({ ...given, resources }))
  }

  test('she is served at the pattern of the route: no route is added, and nothing is started again', async () => {
    const pids = stack.children.map(({ pid }) => pid)
    expect((await fetch(`${stack.publicUrl}/mcp/bea`)).status).toBe(404)

    await ofAuthority('add', 'bea')
    const { code } = await ofAuthority('enrol', 'bea')
    const key = importPrivateJwk(generatePrivateJwk())
    const bea = createOwnerClient({ api: stack.ownerApi, issuer: stack.issuer, key })
    await bea.enrol({ code, name: 'her laptop' })
    await addToFile('bea')

    // Each resource asks to serve her, by itself.
    const [mcp, notes] = [`${stack.publicUrl}/mcp/bea`, `${stack.publicUrl}/notes/bea`]
    await until(async () => (await readAll(bea.resourceServers())).length === 2)
    expect((await readAll(bea.resourceServers())).map(one => one.client_id).sort()).toEqual([mcp, notes])
    await bea.decideServers([mcp, notes], 'approved')
    await until(async () => (await readAll(bea.resources())).length === 2)
    expect((await readAll(bea.resources())).map(({ _id }) => _id).sort()).toEqual([
      'bea/notes',
      'bea/portfolio',
    ])

    await bea.ask({
      method: 'POST',
      path: '/owner/policies',
      body: {
        id: 'reading',
        name: 'Reading',
        resources: ['bea/portfolio'],
        terms: { purpose: 'Know what is there', scope: ['read'], prohibited: [], expires_in: 3_600 },
        ask_me: false,
        rules: [],
      },
    })
    const call = openAgent({ ...stack, resource: mcp }).startCall('portfolio_read')
    const { family } = await firstEvent(call, 'waiting')
    await bea.decide(family, 'approved')
    expect(JSON.stringify(await call.result)).toContain('12 VTI, 40 BND')
    expect(stack.toolServer.record.arrivals.at(-1)!.headers).toMatchObject({ 'x-uma-owner': 'bea' })
    // Of alice nothing changed, and everybody is who they were.
    expect((await fetch(stack.resource)).status).toBe(405)
    expect(stack.children.map(({ pid }) => pid)).toEqual(pids)
  })
})
