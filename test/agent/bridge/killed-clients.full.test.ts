/**
 * contract, "Permission ticket" and "Single-use grant", for a bridge that is killed under the other official
 * clients: the owner is asked once, the call runs once, the answer arrives once.
 */
import { describe, expect, it } from 'vitest'
import { CLIENTS, isToRepeat, pendingOf } from '../../support/bridge.ts'
import { useBridges } from '../../support/bridge-stand.ts'
import { killedStories } from '../../support/killed-bridge.ts'
import { childrenOf, hasEnded } from '../../support/process-family.ts'

const stand = useBridges({
  stack: { authorityEnvironment: { UMA_AS_POLL_SECONDS: '1' } },
  args: ['--hold', '20'],
})
const { trade } = killedStories(stand)

/** The client of killed.test.ts, which has every step. */
const THERE = '1.x 2025-11-25'
/** While terms are fetched, while the owner is asked, once the grant is held, and once the call has left. */
const STEPS = ['ticket#1', 'ticket#3', 'families kept#2', 'families kept#3', 'signed call#1']
/** From when the call may have left until its answer is written down nobody can say whether it ran. */
const UNKNOWN: Record<string, number> = { 'families kept#3': 0, 'signed call#1': 1 }

describe.each(CLIENTS.filter(kind => kind !== THERE))('A bridge under the client %s that is killed', kind => {
  it.each(STEPS)('after %s: she is asked once, and the call runs at most once', async step => {
    const name = `${kind} ${step}`.replaceAll(/\W+/g, '-')
    const story = await trade(name, { KILL_AT: `after ${step}` }, kind)
    const ran = UNKNOWN[step]
    expect(story.answer).toMatchObject(
      ran === undefined
        ? { isError: false, reason: undefined }
        : { isError: true, reason: 'outcome_unknown', family: [...story.asked][0] },
    )
    expect(story).toMatchObject({ asked: { size: 1 }, executions: ran ?? 1, starts: 2 })
    await expect.poll(story.kept).toEqual([])
  })
})

describe.each(['Python 2025-11-25', 'Python 2026-07-28'] as const)('A client %s that is killed', kind => {
  it('takes its bridge along, which leaves what waits to the next: she is asked once, the call runs once', async () => {
    const name = `gone-${kind}`.replaceAll(/\W+/g, '-')
    const given = { symbol: 'VTI', qty: stand.unique() }
    const start = () => stand.bridge({ name, kind, capabilities: { elicitation: {} } })
    const first = await start()
    const left = first.call('place_trade', given)
    left.catch(() => undefined)
    const { family } = await stand.waiting()
    const [bridge] = childrenOf(first.pid)
    process.kill(first.pid, 'SIGKILL')
    await expect(left).rejects.toThrow('the client ended')
    await expect.poll(() => hasEnded(bridge!)).toBe(true)
    await stand.owner.decide(family, 'approved')
    const second = await start()
    let answer = await second.call('place_trade', given)
    while (isToRepeat(answer)) answer = await second.call('place_trade', given)
    expect(answer).toMatchObject({ isError: false, reason: undefined })
    expect(await pendingOf(stand.owner)).toEqual([])
    expect(stand.executions('place_trade', given)).toBe(1)
  })
})
