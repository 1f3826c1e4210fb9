/**
 * Two authorities at the addresses that a sidecar's file lists, one after the other killed outright while
 * calls go on. contract, "Authorized call" and "Errors": nothing fails that should pass but a consume that
 * was under way, which is told as an outage; none passes twice.
 */
import { beforeAll, expect, test } from 'vitest'
import type { RawCredential } from '../../src/dev/story/raw-call.ts'
import { approvedGrant, outcomeOf, startLoad, type Load } from '../support/call-load.ts'
import { envoy } from '../support/envoy.ts'
import { describeWith } from '../support/requirement.ts'
import { startScene } from '../support/stack.ts'
import { startedOnce } from '../support/started.ts'
import { until } from '../support/until.ts'

/** Calls at once when an authority is killed. */
const BURST = 8
const OUTAGE = '503 temporarily_unavailable'
const SPENT = '401 insufficient_authorization'

interface Trade {
  credential: RawCredential
  arguments: { symbol: string; qty: number }
}

describeWith(await envoy(), 'an authority that is killed while calls go on', found => {
  const scene = startedOnce(() =>
    startScene({
      envoy: found,
      authorities: 2,
      challengesPerMinute: 1_000_000,
      authorityEnvironment: { UMA_AS_POLL_SECONDS: '0' },
    }),
  )
  let standing: RawCredential
  const trades: Trade[] = []
  let load: Load

  beforeAll(async () => {
    const key = scene.agentKey
    standing = { token: (await approvedGrant(scene, 'portfolio_read')).access_token, key }
    for (let qty = 1; qty <= 2 * BURST; qty++) {
      const args = { symbol: 'VTI', qty }
      const { access_token: token } = await approvedGrant(scene, 'place_trade', args)
      trades.push({ credential: { token, key }, arguments: args })
    }
    load = startLoad(scene.stack)
  })

  const place = (trade: Trade) =>
    outcomeOf(
      { resource: scene.stack.resource, tool: 'place_trade', arguments: trade.arguments },
      trade.credential,
    )
  const executed = ({ arguments: { qty } }: Trade) =>
    scene.stack.toolServer.record.executions.filter(
      one => one.tool === 'place_trade' && (one.arguments as Trade['arguments']).qty === qty,
    ).length

  /** Whether the sidecar has found an authority well (again), as its metrics say. */
  const isUp = async (replica: number) => {
    const text = await (await fetch(`http://127.0.0.1:${scene.stack.documentPorts[0]}/metrics`)).text()
    const line = text
      .split('\n')
      .find(
        one =>
          one.startsWith('usher_authority_address_up{') &&
          one.includes(scene.stack.authorities[replica]!.url),
      )
    return line?.endsWith(' 1') === true
  }

  /**
   * Kills the authority once the first of a burst of single-use calls is answered, and returns the results of
   * all of them.
   */
  async function killDuring(replica: number, burst: Trade[]): Promise<string[]> {
    const child = scene.stack.children.find(({ name }) => name === `authority-${replica + 1}`)!
    const first = Promise.withResolvers<undefined>()
    const under = burst.map(async trade => {
      const outcome = await place(trade)
      first.resolve(undefined)
      return outcome
    })
    await first.promise
    process.kill(child.pid!, 'SIGKILL')
    await child.exited
    return Promise.all(under)
  }

  test('no call fails that should pass, but a consume under way, told as an outage; none passes that should not', async () => {
    const [spent, ...rest] = [...trades] as [Trade, ...Trade[]]
    expect(await place(spent)).toBe('200')
    load.keep(() => load.call('standing', 'portfolio_read', standing))
    load.keep(() => load.call('standing', 'portfolio_read', standing))
    load.keep(() => load.call('challenge', 'portfolio_read'))
    load.keep(() => load.call('forged', 'portfolio_read', { ...standing, forge: true }))
    load.keep(() => load.call('spent', 'place_trade', spent.credential, spent.arguments))
    const fates: Record<string, number> = {}
    for (const replica of [0, 1]) {
      await until(() => isUp(replica))
      const burst = rest.splice(0, BURST)
      const outcomes = await killDuring(replica, burst)
      for (const [index, trade] of burst.entries()) {
        const outcome = outcomes[index]!
        expect([outcome, ['200', OUTAGE].includes(outcome)]).toEqual([outcome, true])
        // Asked again, the other authority tells the truth: it was spent when the answer was lost, or it is
        // good.
        const again = await place(trade)
        const fate = `${outcome}, then ${again}`
        fates[fate] = (fates[fate] ?? 0) + 1
        expect([`200, then ${SPENT}`, `${OUTAGE}, then ${SPENT}`, `${OUTAGE}, then 200`]).toContain(fate)
        expect(executed(trade)).toBe([outcome, again].includes('200') ? 1 : 0)
      }
      if (replica === 0) await scene.stack.restart('authority', 0)
    }
    const tally = await load.end()
    expect(tally).toEqual({
      standing: { '200': expect.any(Number) },
      challenge: { '401 insufficient_authorization': expect.any(Number) },
      forged: { '401 invalid_token': expect.any(Number) },
      spent: { [SPENT]: expect.any(Number) },
    })
    expect(tally['standing']!['200']).toBeGreaterThan(50)
    expect(fates[`200, then ${SPENT}`]).toBeGreaterThan(0)
  })

  test('what the owner revokes at the one that is left is refused at once', async () => {
    await scene.owner.revoke(scene.handle)
    const outcome = await outcomeOf({ resource: scene.stack.resource, tool: 'portfolio_read' }, standing)
    expect(outcome).toBe('403 access_revoked')
  })
})
