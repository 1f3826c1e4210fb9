/**
 * The official conformance suite, scenario by scenario: for servers through `usher agent bridge --listen` and
 * through `guard`, held against the same server met directly; for clients by the bridge and by the agent's
 * `fetch`. contract, "What the service does", "Authorized call" and "Challenge (beat 1)" ("Where there is no
 * status line").
 */
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { parse, stringify } from 'yaml'
import { CONFORMANCE_TOOLS, startConformanceTools } from '../../support/conformance-server.ts'
import { serveGuarded } from '../../support/conformance-guard.ts'
import {
  badChecks,
  clientResult,
  serverResults,
  withSecret,
  type Check,
  type Results,
} from '../../support/conformance-suite.ts'
import { bridgeFolder } from '../../support/bridge.ts'
import { useBridges } from '../../support/bridge-stand.ts'
import { embeddedOwner, standEmbedded, standingGrant } from '../../support/embedded.ts'
import { clientOver, listeningBridge } from '../../support/listening-bridge.ts'
import { ROOT } from '../../support/repository.ts'
import { startScriptedAuthority } from '../../support/scripted-authority.ts'
import { usherProgram } from '../../support/usher-program.ts'
import { newKey, PUBLIC_URL } from '../../enforcement/calls.ts'

const SERVER_SCENARIOS = [
  'server-initialize',
  'logging-set-level',
  'ping',
  'completion-complete',
  'tools-list',
  'tools-call-simple-text',
  'tools-call-image',
  'tools-call-audio',
  'tools-call-embedded-resource',
  'tools-call-mixed-content',
  'tools-call-with-logging',
  'tools-call-error',
  'tools-call-with-progress',
  'tools-call-sampling',
  'tools-call-elicitation',
  'json-schema-2020-12',
  'elicitation-sep1034-defaults',
  'server-sse-polling',
  'server-sse-multiple-streams',
  'elicitation-sep1330-enums',
  'resources-list',
  'resources-read-text',
  'resources-read-binary',
  'resources-templates-read',
  'resources-subscribe',
  'resources-unsubscribe',
  'prompts-list',
  'prompts-get-simple',
  'prompts-get-with-args',
  'prompts-get-embedded-resource',
  'prompts-get-with-image',
  'dns-rebinding-protection',
]
/** Their result directly, or not, is one of the way: docs/bridge.md says why. */
const OF_THE_WAY = new Set(['server-sse-polling', 'dns-rebinding-protection'])
/** Those that need no OAuth. */
const CLIENT_SCENARIOS = ['initialize', 'tools_call', 'elicitation-sep1034-client-defaults', 'sse-retry']

const GRANTED = { tool: 'test_simple_text' }
const METHODS = {
  'resources/read': GRANTED,
  'resources/subscribe': GRANTED,
  'resources/unsubscribe': GRANTED,
  'prompts/get': GRANTED,
  'completion/complete': GRANTED,
  'logging/setLevel': 'free',
}
const TOOLS = CONFORMANCE_TOOLS.map(tool => ({
  tool,
  resource_id: 'alice/portfolio',
  scopes: ['read'],
  consequence: 'reversible',
}))

/** Every tool and method of the server under the grant of her portfolio. */
function withMappedMethods(yaml: string): Promise<string> {
  const settings = parse(yaml) as { owners: [Record<string, unknown>] }
  const owners = [{ ...settings.owners[0], tools: TOOLS, methods: METHODS }]
  return Promise.resolve(stringify({ ...settings, owners, open_methods: ['GET'] }))
}

const stand = useBridges({ stack: { toolServer: startConformanceTools, changeSidecar: withMappedMethods } })

async function directly(): Promise<Results> {
  const plain = await startConformanceTools(0)
  try {
    return await serverResults(`http://127.0.0.1:${plain.port}/mcp/alice`)
  } finally {
    await plain.stop()
  }
}

/** The suite's client is connected, and its terms are accepted beforehand. */
async function throughBridge(): Promise<Results> {
  const headless = await stand.bridge({ name: 'headless' })
  const [, hash] = /--accept-terms (\S+)/.exec((await headless.call('test_simple_text')).text) ?? []
  const listening = await listeningBridge(stand, '--client-name', 'suite', '--accept-terms', hash!)
  const { client } = await clientOver(stand, listening, { name: 'suite' })
  const answer = client.callTool({ name: 'test_simple_text' })
  answer.catch(() => undefined)
  await stand.owner.decide((await stand.waiting()).family, 'approved')
  await answer
  const way = await withSecret(listening.url, listening.token!)
  try {
    return await serverResults(way.url)
  } finally {
    await way.close()
    await listening.kill()
  }
}

/** In memory behind `guard`, under a standing grant. */
async function throughGuard(): Promise<Results> {
  const authority = await startScriptedAuthority()
  const key = newKey()
  const embedded = await standEmbedded(authority.issuer, {
    owners: [embeddedOwner(authority.issuer, { tools: TOOLS, methods: METHODS })],
  })
  const grant = { resource: `${PUBLIC_URL}/mcp/alice`, accessToken: standingGrant(authority, key), key }
  const methodsUnderGrant = new Set(Object.keys(METHODS).filter(method => method !== 'logging/setLevel'))
  const way = await serveGuarded(
    embedded.point,
    grant,
    method => method === 'tools/call' || methodsUnderGrant.has(method),
  )
  try {
    const results = await serverResults(way.url)
    // Each call was judged under the grant, and none went by.
    expect(authority.count('/introspect')).toBeGreaterThanOrEqual(methodsUnderGrant.size)
    return results
  } finally {
    await way.close()
    await embedded.close()
    await authority.close()
  }
}

/** Each is run once, by the test that needs it first. */
const runs = new Map<() => Promise<Results>, Promise<Results>>()
function once(run: () => Promise<Results>): Promise<Results> {
  const results = runs.get(run) ?? run()
  runs.set(run, results)
  return results
}
const WAYS = { bridge: throughBridge, guard: throughGuard }

const passedIn = (checks: readonly Check[]): number =>
  checks.filter(({ status }) => status === 'SUCCESS').length

describe('The conformance suite for servers', () => {
  it('has the scenarios that are held against each other here', async () => {
    expect([...(await once(directly)).keys()].toSorted()).toEqual(SERVER_SCENARIOS.toSorted())
  })

  it('passes directly, but for what its own old revision of the protocol does not get', async () => {
    const failing = [...(await once(directly))]
      .filter(([, checks]) => badChecks(checks).length > 0)
      .map(([name]) => name)
    expect(failing).toEqual(['server-sse-polling'])
  })

  describe.each(['bridge', 'guard'] as const)('through the %s', way => {
    it.each(SERVER_SCENARIOS.filter(name => !OF_THE_WAY.has(name)))(
      'passes the scenario %s with as many checks as directly',
      async scenario => {
        const expected = passedIn((await once(directly)).get(scenario) ?? [])
        const checks = (await once(WAYS[way])).get(scenario) ?? []
        expect(badChecks(checks)).toEqual([])
        expect(expected).toBeGreaterThan(0)
        expect(passedIn(checks)).toBe(expected)
      },
    )
  })

  it('finds that the bridge refuses pages of other origins, and lets in those of the loopback', async () => {
    const checks = (await once(throughBridge)).get('dns-rebinding-protection') ?? []
    expect(badChecks(checks)).toEqual([])
    expect(passedIn(checks)).toBe(2)
  })

  it('finds nothing worse in the streams of the bridge than directly: no stream is taken up again', async () => {
    const polling = (results: Results) => badChecks(results.get('server-sse-polling') ?? [])
    expect(polling(await once(throughBridge))).toEqual(polling(await once(directly)))
  })
})

describe('The conformance suite for clients', () => {
  const client = join(ROOT, 'test', 'support', 'conformance-client.ts')
  let home: { folder: string; remove: () => Promise<void> }
  beforeAll(async () => {
    home = await bridgeFolder()
  })
  afterAll(() => home.remove())

  it.each(
    CLIENT_SCENARIOS.flatMap(scenario => [['bridge', scenario] as const, ['fetch', scenario] as const]),
  )('is passed by the %s: the scenario %s', async (way, scenario) => {
    const command = `${process.execPath} ${client} ${way} ${usherProgram()}`
    const checks = await clientResult(scenario, command, { HOME: home.folder })
    expect(badChecks(checks)).toEqual([])
    expect(checks.some(({ status }) => status === 'SUCCESS')).toBe(true)
  })
})
