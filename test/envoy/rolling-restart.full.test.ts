/**
 * Two sidecars and two authorities behind a real Envoy, each ended and started anew in turn while calls go
 * on. contract, "Health", "Authorized call" and "Behaviour that must hold": no call fails that should pass,
 * none passes that should fail.
 */
import { afterAll, beforeAll, expect, test } from 'vitest'
import type { RawCredential } from '../../src/dev/story/raw-call.ts'
import type { Stack } from '../../src/dev/stack/stack.ts'
import { generatePrivateJwk, importPrivateJwk } from '../../src/wire/signatures/keys.ts'
import { approvedGrant, decided, startLoad, type Load } from '../support/call-load.ts'
import { envoy } from '../support/envoy.ts'
import { describeWith } from '../support/requirement.ts'
import { startScene, startStack } from '../support/stack.ts'
import { startedOnce } from '../support/started.ts'
import { until } from '../support/until.ts'

const TRADES = 30
const REPLICAS = [
  ['sidecar', 0],
  ['sidecar', 1],
  ['authority', 0],
  ['authority', 1],
] as const

describeWith(await envoy(), 'a rolling restart under load', found => {
  const scene = startedOnce(() =>
    startScene({
      envoy: found,
      sidecars: 2,
      authorities: 2,
      challengesPerMinute: 1_000_000,
      authorityEnvironment: { UMA_AS_DRAIN_MS: '5000', UMA_AS_POLL_SECONDS: '0' },
    }),
  )
  let standing: RawCredential
  const trades: { credential: RawCredential; arguments: { symbol: string; qty: number } }[] = []
  let load: Load

  beforeAll(async () => {
    load = startLoad(scene.stack)
    standing = { token: (await approvedGrant(scene, 'portfolio_read')).access_token, key: scene.agentKey }
    for (let qty = 1; qty <= TRADES; qty++) {
      const args = { symbol: 'VTI', qty }
      const { access_token: token } = await approvedGrant(scene, 'place_trade', args)
      trades.push({ credential: { token, key: scene.agentKey }, arguments: args })
    }
  })

  test('no call fails that should pass, and none passes that should fail', async () => {
    const unspent = [...trades]
    const spent = unspent.shift()!
    await load.call('spend one', 'place_trade', spent.credential, spent.arguments)
    load.keep(() => load.call('standing', 'portfolio_read', standing))
    load.keep(() => load.call('standing', 'portfolio_read', standing))
    load.keep(() => load.call('challenge', 'portfolio_read'))
    load.keep(() => load.call('forged', 'portfolio_read', { ...standing, forge: true }))
    load.keep(() => load.call('spent', 'place_trade', spent.credential, spent.arguments))
    load.keep(async () => {
      const next = unspent.shift()
      if (next !== undefined) await load.call('single use', 'place_trade', next.credential, next.arguments)
    }, 700)
    for (const [what, index] of REPLICAS) {
      await scene.stack.restart(what, index)
      // Envoy has found the new one; only then the next may go.
      if (what === 'sidecar') await until(async () => (await decided(scene.stack, index)) > 20)
    }
    await until(() => unspent.length === 0)
    const tally = await load.end()
    expect(tally).toEqual({
      'spend one': { '200': 1 },
      standing: { '200': expect.any(Number) },
      challenge: { '401 insufficient_authorization': expect.any(Number) },
      forged: { '401 invalid_token': expect.any(Number) },
      spent: { '401 insufficient_authorization': expect.any(Number) },
      'single use': { '200': TRADES - 1 },
    })
    expect(tally['standing']!['200']).toBeGreaterThan(200)
    const bought = scene.stack.toolServer.record.executions.filter(({ tool }) => tool === 'place_trade')
    expect(bought.length).toBe(TRADES)
  })
})

describeWith(await envoy(), 'an Envoy that is set to let calls through where it gets no answer', found => {
  let stack: Stack

  beforeAll(async () => {
    stack = await startStack({
      envoy: found,
      sidecars: 2,
      challengesPerMinute: 1_000_000,
      changeEnvoy: yaml => yaml.replace('failure_mode_allow: false', 'failure_mode_allow: true'),
    })
  })
  afterAll(() => stack?.stop())

  test('lets nothing through while one sidecar drains and the other goes on', async () => {
    const load = startLoad(stack)
    const stranger = importPrivateJwk(generatePrivateJwk())
    load.keep(() => load.call('challenge', 'portfolio_read'))
    load.keep(() => load.call('trade', 'place_trade', undefined, { symbol: 'VTI', qty: 1 }))
    load.keep(() => load.call('forged', 'portfolio_read', { token: 'made-up', key: stranger }))
    await until(async () => (await decided(stack, 0)) > 20 && (await decided(stack, 1)) > 20)
    await stack.restart('sidecar', 0)
    await until(async () => (await decided(stack, 0)) > 20)
    await stack.restart('sidecar', 1)
    await until(async () => (await decided(stack, 1)) > 20)
    expect(await load.end()).toEqual({
      challenge: { '401 insufficient_authorization': expect.any(Number) },
      trade: { '401 insufficient_authorization': expect.any(Number) },
      forged: { '401 insufficient_authorization': expect.any(Number) },
    })
    expect(stack.toolServer.record.executions).toEqual([])
  })
})
