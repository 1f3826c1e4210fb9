/**
 * The chart and the image in a real cluster: installed as its page says, under restricted Pod Security, with
 * a real Postgres and a real Envoy; then changed and hurt under load. A NetworkPolicy is judged for its form
 * alone: the network of this cluster enforces none. contract, "Authorized call" and "Behaviour that must
 * hold": what should pass passes, and nothing else.
 */
import { join } from 'node:path'
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import type { RawCredential } from '../../src/dev/story/raw-call.ts'
import { openScene, type Scene } from '../../src/dev/story/scene.ts'
import { STORY } from '../../src/dev/story/story.ts'
import { approvedGrant, startLoad, type Load } from '../support/call-load.ts'
import { trust } from '../support/local-ca.ts'
import { until } from '../support/until.ts'
import {
  NAMESPACE,
  prepare,
  release,
  rotateAuthorityKey,
  rotateCheckCertificate,
  type World,
} from './installed.ts'
import {
  evict,
  helm,
  isReady,
  kubectl,
  logsOf,
  must,
  podsOf,
  rolledOut,
  tried,
  type Pod,
} from './kubernetes.ts'

const COMPONENTS = ['authority', 'sidecar'] as const
const deploymentOf = (component: string): string => `usher-${component}`
let world: World
let scene: Scene

beforeAll(async () => {
  world = await prepare(join(process.env['LAB_DIR']!, 'world'))
  trust(world.ca.cert)
})
afterAll(async () => {
  await scene?.close()
  await world?.stack.stop()
})
afterEach(async ({ task }) => {
  if (task.result?.state !== 'fail') return
  const events = await kubectl('get', 'event', '-A', '--sort-by=.lastTimestamp')
  const pods = await kubectl('get', 'pod', '-A', '-o', 'wide')
  const logs = await Promise.all([NAMESPACE, 'tools', 'data'].map(logsOf))
  process.stdout.write([pods, events.split('\n').slice(-25).join('\n'), ...logs].join('\n'))
})

/** The node of each pod of the release. */
async function allPods(): Promise<Pod[]> {
  return (await Promise.all(COMPONENTS.map(component => podsOf(NAMESPACE, component)))).flat()
}

/** Two of each, ready. */
async function allReady(): Promise<void> {
  await until(async () => {
    const pods = await allPods()
    return pods.length === 4 && pods.every(isReady)
  }, 120_000)
}

describe('A release in a namespace that enforces the restricted Pod Security Standard', () => {
  test('is beside pods that the namespace refuses', async () => {
    const root = ['-n', NAMESPACE, 'run', 'root', '--image=localhost/usher:lab', '--dry-run=server']
    const refused = await tried('kubectl', root)
    expect([refused.code, refused.err]).toEqual([
      1,
      expect.stringContaining('violates PodSecurity "restricted'),
    ])
  })

  test('is installed by one `helm install --wait`', async () => {
    await release('install', world.values)
    await allReady()
    // A GET is refused by the sidecar: once the gateway has found one healthy, it is 405, and 503 before.
    await until(async () => (await fetch(world.stack.resource)).status === 405)
  })

  test('walks one challenge by `helm test`', async () => {
    const tested = await helm('-n', NAMESPACE, 'test', 'usher', '--timeout', '90s')
    expect(tested).toMatch(/Phase: +Succeeded/)
  })
})

describe('The story of the demo, through the gateway in the cluster,', () => {
  beforeAll(async () => {
    scene = await openScene(world.stack)
  })

  test.each(STORY)('$title', async step => {
    await expect(step.walk(scene)).resolves.not.toEqual([])
  })
})

describe('While calls go on,', () => {
  const TRADES = 12
  const trades: { credential: RawCredential; arguments: { symbol: string; qty: number } }[] = []
  let load: Load
  let before: number

  beforeAll(async () => {
    await scene.close()
    // Her agent was revoked in the story.
    scene = await openScene(world.stack)
    before = world.stack.toolServer.record.executions.filter(({ tool }) => tool === 'place_trade').length
    load = startLoad(world.stack)
    const standing = {
      token: (await approvedGrant(scene, 'portfolio_read')).access_token,
      key: scene.agentKey,
    }
    for (let qty = 1; qty <= TRADES; qty++) {
      const args = { symbol: 'VTI', qty }
      const { access_token: token } = await approvedGrant(scene, 'place_trade', args)
      trades.push({ credential: { token, key: scene.agentKey }, arguments: args })
    }
    const unspent = [...trades]
    const spent = unspent.shift()!
    await load.call('spend one', 'place_trade', spent.credential, spent.arguments)
    load.keep(() => load.call('standing', 'portfolio_read', standing))
    load.keep(() => load.call('challenge', 'portfolio_read'))
    load.keep(() => load.call('forged', 'portfolio_read', { ...standing, forge: true }))
    load.keep(() => load.call('spent', 'place_trade', spent.credential, spent.arguments))
    load.keep(async () => {
      const next = unspent.shift()
      if (next !== undefined) await load.call('single use', 'place_trade', next.credential, next.arguments)
    }, 5_000)
  })

  /** Any number of each, and nothing else. */
  const RIGHT = {
    'spend one': { '200': 1 },
    standing: { '200': expect.any(Number) },
    challenge: { '401 insufficient_authorization': expect.any(Number) },
    forged: { '401 invalid_token': expect.any(Number) },
    spent: { '401 insufficient_authorization': expect.any(Number) },
    'single use': { '200': expect.any(Number) },
  }

  // Checked after each step, so that a failure shows the step that caused it.
  afterEach(() => expect(load.tally).toEqual(RIGHT))

  test('every pod is replaced by a rolling restart', async () => {
    const old = new Set((await allPods()).map(({ metadata }) => metadata.uid))
    await Promise.all(
      COMPONENTS.map(async component => {
        await kubectl('-n', NAMESPACE, 'rollout', 'restart', `deployment/${deploymentOf(component)}`)
        await rolledOut(NAMESPACE, deploymentOf(component))
      }),
    )
    await allReady()
    expect((await allPods()).filter(({ metadata }) => old.has(metadata.uid))).toEqual([])
  })

  test('`helm upgrade` brings another image and other settings, and `helm rollback` takes them back', async () => {
    const imageOf = async (component: string): Promise<string> =>
      kubectl('-n', NAMESPACE, 'get', 'deployment', deploymentOf(component), '-o', 'jsonpath={..image}')
    const next = ['--set', 'image.tag=next', '--set', 'sidecar.config.challenges_per_minute=900000']
    await release('upgrade', world.values, ...next)
    expect(await Promise.all(COMPONENTS.map(imageOf))).toEqual([
      'localhost/usher:next',
      'localhost/usher:next',
    ])
    await helm('-n', NAMESPACE, 'rollback', 'usher', '1', '--wait', '--timeout', '180s')
    expect(await Promise.all(COMPONENTS.map(imageOf))).toEqual(['localhost/usher:lab', 'localhost/usher:lab'])
    await allReady()
  })

  test.each(COMPONENTS)(
    'one %s may be evicted, and the other not before a new one is ready',
    async component => {
      const [first, second] = (await podsOf(NAMESPACE, component)) as [Pod, Pod]
      expect(await evict(NAMESPACE, first.metadata.name)).toMatchObject({ code: 0 })
      const held = await evict(NAMESPACE, second.metadata.name)
      expect([held.code, held.err]).toEqual([1, expect.stringContaining('disruption budget')])
      await allReady()
      expect((await podsOf(NAMESPACE, component)).map(({ metadata }) => metadata.uid)).toContain(
        second.metadata.uid,
      )
    },
  )

  test('a new certificate of the check port is taken up by every sidecar, and none restarts', async () => {
    const uids = (await allPods()).map(({ metadata }) => metadata.uid).toSorted()
    await rotateCheckCertificate(world)
    expect((await allPods()).map(({ metadata }) => metadata.uid).toSorted()).toEqual(uids)
  })

  test('a new signing key of the authority is taken up by a rolling restart', async () => {
    const kid = await rotateAuthorityKey(world)
    await kubectl('-n', NAMESPACE, 'rollout', 'restart', 'deployment/usher-authority')
    await rolledOut(NAMESPACE, 'usher-authority')
    await allReady()
    // One that drains may still answer on a connection that is open.
    const published = async (): Promise<string[]> => {
      const answer = await fetch(`${world.stack.issuer}/jwks`)
      return ((await answer.json()) as { keys: { kid: string }[] }).keys.map(key => key.kid)
    }
    await until(async () => {
      const kids = await published()
      return kids[0] === kid && kids.length === 2
    }, 30_000)
  })

  test('no call failed that should pass, and none passed that should fail', async () => {
    const tally = await load.end()
    expect(tally).toEqual({ ...RIGHT, 'single use': { '200': TRADES - 1 } })
    expect(tally['standing']!['200']).toBeGreaterThan(100)
    const bought = world.stack.toolServer.record.executions.filter(({ tool }) => tool === 'place_trade')
    expect(bought.length - before).toBe(TRADES)
  })
})

describe('A pod that outgrows its memory', () => {
  test.each(COMPONENTS)('(%s) is killed and comes back by itself', async component => {
    const [pod] = (await podsOf(NAMESPACE, component)) as [Pod]
    const name = pod.metadata.name
    // Many small ones: the kernel ends the largest, which is the process of the container.
    const one = '( head -c 12m /dev/zero; sleep 60 ) | tail > /dev/null &'
    const hog = `for i in $(seq 50); do ${one} done; wait`
    await tried('kubectl', ['-n', NAMESPACE, 'exec', name, '--', 'sh', '-c', hog])
    const status = async () =>
      (await podsOf(NAMESPACE, component)).find(one => one.metadata.name === name)?.status
    await until(async () => ((await status())?.containerStatuses?.[0]?.restartCount ?? 0) > 0)
    expect((await status())?.containerStatuses?.[0]?.lastState?.terminated?.reason).toBe('OOMKilled')
    await allReady()
    const again = startLoad(world.stack)
    await again.call('challenge', 'portfolio_read')
    expect(await again.end()).toEqual({ challenge: { '401 insufficient_authorization': 1 } })
  })
})

describe('`helm uninstall`', () => {
  test('leaves no pod but that of `helm test`, which is of no release for Helm', async () => {
    await must('helm', ['-n', NAMESPACE, 'uninstall', 'usher', '--wait', '--timeout', '90s'])
    const left = (): Promise<string> => kubectl('-n', NAMESPACE, 'get', 'pod', '-o', 'name')
    await until(async () => (await left()) === 'pod/usher-test\n')
  })
})
