/**
 * The stream of a session (GET) before Envoy as shipped: usher is asked when it begins alone, so its route
 * bounds it, and whoever opens it again is judged again. contract, "Grant (RPT) liveness"; docs/choices.md,
 * "Authorized call".
 */
import { readFileSync } from 'node:fs'
import { beforeEach, describe, expect, test } from 'vitest'
import { RESOURCE_PATH } from '../../src/dev/stack/household.ts'
import { askingTools } from '../support/asking-tools.ts'
import { useBridges } from '../support/bridge-stand.ts'
import { changedEnvoy, envoy } from '../support/envoy.ts'
import { describeWith } from '../support/requirement.ts'
import { until } from '../support/until.ts'

/** In place of the minute of the shipped file, so that the test need not wait for it. */
const BOUND_SECONDS = 4
const STREAM_ROUTES = ['alice-stream', 'owners-stream']
const tools = askingTools()

/** The shipped configuration with a shorter bound where it has one of a minute. */
function withShorterBound(yaml: string): string {
  return changedEnvoy(
    yaml,
    ({
      route_config: {
        virtual_hosts: [host],
      },
    }) => {
      const streams = host.routes.filter(({ name = '' }) => STREAM_ROUTES.includes(name))
      expect(streams.map(({ route }) => route.timeout)).toEqual(['60s', '60s'])
      for (const { route } of streams) route.timeout = `${BOUND_SECONDS}s`
    },
  )
}

describeWith(await envoy(), 'The stream of a session (GET)', found => {
  describe.each([
    ['asks by gRPC', false],
    ['asks by HTTP', true],
  ])('before an Envoy that %s', (_how, checksByHttp) => {
    const stand = useBridges({
      stack: {
        envoy: found,
        checksByHttp,
        toolServer: tools.start,
        authorityEnvironment: { UMA_AS_POLL_SECONDS: '1' },
        changeSidecar: yaml => Promise.resolve(`open_methods: [GET]\n${yaml}`),
        changeEnvoy: withShorterBound,
      },
      args: ['--hold', '20'],
    })
    const question = {
      mode: 'form' as const,
      message: 'Which?',
      requestedSchema: { type: 'object' as const, properties: {} },
    }
    beforeEach(() => {
      Object.assign(tools, { stream: 'session', questions: [question], answers: [] })
    })

    /** How often the stream reached the server. */
    const streams = (): number =>
      stand.stack.toolServer.record.arrivals.filter(({ method }) => method === 'GET').length
    /** What Envoy wrote down of the streams that have ended. */
    const endedStreams = (): { status: number; ms: number }[] => {
      const { logFile } = stand.stack.children.find(({ name }) => name === 'envoy')!
      const lines = readFileSync(logFile, 'utf8').split('\n')
      return lines
        .filter(line => line.startsWith('{'))
        .map(line => JSON.parse(line) as { method: string; path: string; status: number; ms: number })
        .filter(({ method, path }) => method === 'GET' && path === RESOURCE_PATH)
    }

    test('ends at the bound of its route; the bridge opens it again under the live grant, and no more after a revoke', async () => {
      const { call, elicited } = await stand.bridge({ capabilities: { elicitation: { form: {} } } })
      const first = call('portfolio_read')
      first.catch(() => undefined)
      const { family, handle } = await stand.waiting()
      await stand.owner.decide(family, 'approved')
      expect((await first).text).toBe('did portfolio_read')
      const before = streams()
      expect(before).toBeGreaterThan(0)
      await until(() => streams() > before)
      expect((await call('portfolio_read')).text).toBe('did portfolio_read')
      expect(elicited.filter(({ message }) => message.includes('Which?'))).toHaveLength(2)
      await stand.owner.revoke(handle)
      const refused = (): number => endedStreams().filter(({ status }) => status === 403).length
      await until(() => refused() > 0, 90_000)
      const opened = endedStreams().filter(({ status }) => status === 200)
      expect(opened.length).toBeGreaterThan(1)
      // Without that route they would last five minutes, or one without a word of the server.
      expect(opened.every(({ ms }) => ms < 30_000)).toBe(true)
      expect(streams()).toBe(opened.length)
    })
  })
})
