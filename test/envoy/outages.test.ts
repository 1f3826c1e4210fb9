/**
 * Outages told apart from refusals, through the shipped configuration and through the same one with
 * `failure_mode_allow: true`: never an allow, 503, and a single-use grant unspent or honestly reported spent.
 * contract, "Errors" and "Authorized call".
 */
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { startChild, untilReady, type Child } from '../../src/dev/stack/child-process.ts'
import type { Envoy } from '../../src/dev/stack/envoy-binary.ts'
import { envoyConfig } from '../../src/dev/stack/envoy-config.ts'
import { accepts, freePorts } from '../../src/dev/stack/ports.ts'
import { callByHand, type RawCall } from '../../src/dev/story/raw-call.ts'
import { openScene, firstEvent, type Scene } from '../../src/dev/story/scene.ts'
import type { Stack } from '../../src/dev/stack/stack.ts'
import { doorOf, startAlternatingDoor, type AuthorityDoors } from '../support/alternating-door.ts'
import { changedEnvoy, envoy } from '../support/envoy.ts'
import { describeWith } from '../support/requirement.ts'
import { severableLink, type SeverableLink } from '../support/severable-link.ts'
import { startStack } from '../support/stack.ts'
import { until } from '../support/until.ts'

const TRADE = { symbol: 'VTI', qty: 2 }

describeWith(await envoy(), 'an outage is 503, whatever Envoy makes of failures', found => {
  let doors: AuthorityDoors
  let link: SeverableLink
  let stack: Stack
  let scene: Scene
  let open: Child
  let openUrl: string

  beforeAll(async () => {
    doors = { agents: await startAlternatingDoor(), owner: await startAlternatingDoor() }
    stack = await startStack({
      envoy: found,
      door: doorOf(doors),
      deadlineMarginMs: 1_000, // a shared machine may stand still for longer than the default
      reachDatabase: async url => (link = await severableLink(url)).url,
    })
    ;({ child: open, url: openUrl } = await openOnFailures(found, stack))
    scene = await openScene(stack)
    const first = scene.startCall('portfolio_read')
    await scene.owner.decide((await firstEvent(first, 'waiting')).family, 'approved')
    await first.result
    scene.memory.standing = (await firstEvent(first, 'granted')).grant
  })
  afterAll(async () => {
    await scene?.close()
    await open?.stop()
    await stack?.stop()
    await Promise.all([doors?.agents.close(), doors?.owner.close(), link?.close()])
  })

  /** A grant for one trade, got as the agent would and not yet used. */
  async function tradeGrant(): Promise<string> {
    const stopping = new AbortController()
    const call = scene.startCall('place_trade', TRADE, {
      signal: stopping.signal,
      onEvent: ({ type }) => {
        if (type === 'granted') stopping.abort()
      },
    })
    await scene.owner.decide((await firstEvent(call, 'waiting')).family, 'approved')
    const { grant } = await firstEvent(call, 'granted')
    await call.result.catch(() => undefined)
    return grant.access_token
  }

  const executions = () => stack.toolServer.record.executions.length
  const gateways = () => [undefined, openUrl]
  const trade = (through?: string): RawCall => ({
    resource: stack.resource,
    tool: 'place_trade',
    arguments: TRADE,
    through,
  })
  const read = (through?: string): RawCall => ({ resource: stack.resource, tool: 'portfolio_read', through })
  const standing = () => ({ token: scene.memory.standing!.access_token, key: scene.agentKey })

  /** Calls of every kind through both gateways: each is 503 and a word, and nothing is executed. */
  async function allOut(token: string): Promise<void> {
    const before = executions()
    for (const through of gateways()) {
      const answers = [
        await callByHand(trade(through), { token, key: scene.agentKey }),
        await callByHand(read(through), standing()),
        await callByHand(read(through)),
      ]
      for (const answer of answers) {
        expect(answer).toMatchObject({ status: 503, json: { error: 'temporarily_unavailable' } })
        expect(answer.headers.get('www-authenticate')).toBeNull()
      }
    }
    expect(executions()).toBe(before)
  }

  /** The grant was left unspent: it works now, once. */
  async function unspent(token: string): Promise<void> {
    const before = executions()
    const credential = { token, key: scene.agentKey }
    await until(async () => (await callByHand(read(), standing())).status === 200)
    await until(async () => (await callByHand(trade(), credential)).status === 200)
    expect((await callByHand(trade(), credential)).status).toBe(401)
    expect(executions()).toBe(before + 2)
  }

  test('the authority cannot be reached', async () => {
    const token = await tradeGrant()
    const replicas = doors.agents.replicas.splice(0)
    await allOut(token)
    doors.agents.replicas.push(...replicas)
    await unspent(token)
  })

  test('the authority has lost its Postgres', async () => {
    const token = await tradeGrant()
    link.cut()
    await allOut(token)
    link.mend()
    await unspent(token)
  })

  describe('the authority answers only after the deadline', () => {
    test('of an introspection: the grant is unspent', async () => {
      const token = await tradeGrant()
      for (const through of gateways()) {
        const release = doors.agents.holdAnswers(({ path }) => path === '/introspect')
        const answer = await callByHand(trade(through), { token, key: scene.agentKey })
        release()
        expect(answer).toMatchObject({ status: 503, json: { error: 'temporarily_unavailable' } })
      }
      await unspent(token)
    })

    test('of a consume: the call is refused, and the grant is honestly reported spent', async () => {
      for (const through of gateways()) {
        const token = await tradeGrant()
        const before = executions()
        const release = doors.agents.holdAnswers(({ path }) => path === '/consume')
        const answer = await callByHand(trade(through), { token, key: scene.agentKey })
        release()
        expect(answer).toMatchObject({ status: 503, json: { error: 'temporarily_unavailable' } })
        // Not 503 again, and no allow: a fresh challenge, as for every grant already consumed.
        expect(await callByHand(trade(through), { token, key: scene.agentKey })).toMatchObject({
          status: 401,
          json: { error: 'insufficient_authorization' },
        })
        expect(executions()).toBe(before)
      }
    })
  })

  test('the sidecar gone: 503 if Envoy is closed on failures, and a call let through if it is open', async () => {
    await stack.children.find(({ name }) => name === 'sidecar')!.stop()
    const before = stack.toolServer.record.arrivals.length
    expect((await callByHand(read(), standing())).status).toBe(503)
    expect(stack.toolServer.record.arrivals.length).toBe(before)
    // Nobody of ours is asked, so nobody of ours can refuse: why failure_mode_allow must stay false.
    expect((await callByHand(read(openUrl))).status).toBe(200)
    expect(stack.toolServer.record.arrivals.length).toBe(before + 1)
  })
})

/**
 * The shipped configuration with nothing changed but what becomes of failures, in front of the same sidecar
 * and tool.
 */
async function openOnFailures(found: Envoy, stack: Stack): Promise<{ child: Child; url: string }> {
  const [port, documents] = await freePorts(2)
  const config = await envoyConfig({
    envoy: port,
    checks: stack.checkPorts,
    documents: [documents!],
    tool: stack.toolServer.port,
  })
  const open = changedEnvoy(config, ({ http_filters }) => {
    const asking = http_filters.find(({ name }) => name === 'envoy.filters.http.ext_authz')
    asking!.typed_config.failure_mode_allow = true
  })
  const file = join(stack.directory, 'envoy-open.yaml')
  await writeFile(file, open)
  const child = startChild({
    name: 'Envoy open on failures',
    command: [...found.command(file, stack.directory), '--concurrency', '1', '--disable-hot-restart'],
    logFile: join(stack.directory, 'envoy-open.log'),
  })
  await untilReady(child, () => accepts(port))
  return { child, url: `http://127.0.0.1:${port}${new URL(stack.resource).pathname}` }
}
