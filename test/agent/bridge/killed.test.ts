/**
 * contract, "Permission ticket" and "Single-use grant", for a bridge that is killed (SIGKILL) at each step of
 * a negotiation and a client that starts it again and repeats its call: the owner is asked once, the call
 * runs once, the answer arrives once.
 */
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { filesIn, pendingOf } from '../../support/bridge.ts'
import { useBridges } from '../../support/bridge-stand.ts'
import { killedStories } from '../../support/killed-bridge.ts'
import { rowsOfLayer } from '../../support/layer.ts'

const stand = useBridges({
  stack: { authorityEnvironment: { UMA_AS_POLL_SECONDS: '1' } },
  args: ['--hold', '20'],
})
const { trade, reading } = killedStories(stand)

/**
 * What a negotiation does to the world outside, in its order; the tool's answer reaches the client before the
 * last. The second hold is that of the call alone, since its terms are about one call.
 */
const STEPS = [
  'bare call#1',
  'held kept#1',
  'ticket#1',
  'held kept#2',
  'tools kept#1',
  'agreed kept#1',
  'tools kept#2',
  'ticket#2',
  'families kept#1',
  'ticket#3',
  'receipts kept#1',
  'needs kept#1',
  'resources kept#1',
  'families kept#2',
  'families kept#3',
  'signed call#1',
  'families kept#4',
] as const
/** From when the call may have left until its answer is written down nobody can say whether it ran. */
const UNKNOWN: Partial<Record<(typeof STEPS)[number], number>> = { 'families kept#3': 0, 'signed call#1': 1 }

describe('A bridge that is killed', () => {
  it('takes these steps, each of which is a test below', async () => {
    const file = join(stand.folder, 'steps')
    await trade('steps', { STEPS: file })
    const steps = (await readFile(file, 'utf8')).split('\n').slice(0, STEPS.length)
    expect(steps).toEqual(STEPS)
  })

  it.each(
    rowsOfLayer(
      STEPS.filter(step => UNKNOWN[step] === undefined),
      step => step === 'ticket#3',
    ),
  )('after %s: the owner is asked once, the call runs once, the answer arrives once', async step => {
    const story = await trade(step.replaceAll(/\W+/g, '-'), { KILL_AT: `after ${step}` })
    expect(story.answer).toMatchObject({ isError: false, reason: undefined })
    expect(story).toMatchObject({ asked: { size: 1 }, executions: 1, starts: 2 })
    await expect.poll(story.kept).toEqual([])
  })

  it.each(STEPS.filter(step => UNKNOWN[step] !== undefined))(
    'after %s: the outcome is told as unknown, once, and the call is never sent again',
    async step => {
      const story = await trade(step.replaceAll(/\W+/g, '-'), { KILL_AT: `after ${step}` })
      expect(story.answer).toMatchObject({ isError: true, reason: 'outcome_unknown' })
      expect(story.answer.family).toBe([...story.asked][0])
      expect(story).toMatchObject({ asked: { size: 1 }, executions: UNKNOWN[step], starts: 2 })
      await expect.poll(story.kept).toEqual([])
    },
  )
})

describe('A bridge that is killed when the owner has approved what nobody waited for', () => {
  it('leaves it to the next: she is asked once, the call runs once, the answer arrives once', async () => {
    const name = `away-${stand.unique()}`
    const given = { symbol: 'VTI', qty: stand.unique() }
    const first = await stand.bridge({ name, capabilities: { elicitation: {} } })
    const leaving = new AbortController()
    const left = first.call('place_trade', given, { signal: leaving.signal })
    left.catch(() => undefined)
    const { family } = await stand.waiting()
    leaving.abort()
    await expect(left).rejects.toThrow()
    const record = async (): Promise<string[]> =>
      (await filesIn(stand.folder))
        .filter(({ path }) => path.includes(`/${name}-`) && path.includes('/families/'))
        .map(({ text }) => text)
    await expect.poll(record).toHaveLength(1)
    await stand.owner.decide(family, 'approved')
    await first.kill()
    const second = await stand.bridge({ name, capabilities: { elicitation: {} } })
    expect(await second.call('place_trade', given)).toMatchObject({ isError: false, family: undefined })
    expect(second.elicited).toEqual([])
    expect(await pendingOf(stand.owner)).toEqual([])
    expect(stand.executions('place_trade', given)).toBe(1)
    await expect.poll(record).toEqual([])
  })
})

/** The same of a grant for every call of the tool; there is no record of a call under it. */
const STANDING_STEPS = [
  'bare call#1',
  'held kept#1',
  'ticket#1',
  'tools kept#1',
  'agreed kept#1',
  'tools kept#2',
  'ticket#2',
  'families kept#1',
  'ticket#3',
  'receipts kept#1',
  'needs kept#1',
  'grants kept#1',
  'resources kept#1',
] as const

describe('A bridge that is killed in a negotiation for a standing grant', () => {
  it('takes these steps, each of which is a test below', async () => {
    const file = join(stand.folder, 'standing-steps')
    await reading('standing-steps', { STEPS: file })
    expect((await readFile(file, 'utf8')).trim().split('\n')).toEqual([...STANDING_STEPS, 'signed call#1'])
  })

  it.each(rowsOfLayer(STANDING_STEPS, step => step === 'resources kept#1'))(
    'after %s: the owner is asked once, the call runs once, the answer arrives once',
    async step => {
      const name = `standing-${step.replaceAll(/\W+/g, '-')}`
      const story = await reading(name, { KILL_AT: `after ${step}` })
      expect(story.answer).toMatchObject({ isError: false, reason: undefined })
      expect(story).toMatchObject({ asked: { size: 1 }, executions: 1, starts: 2 })
      await expect.poll(story.kept).toEqual([])
    },
  )

  it('after the signed call: the grant is held, so the repeat is another call, and she is not asked again', async () => {
    const story = await reading('standing-signed', { KILL_AT: 'after signed call#1' })
    expect(story.answer).toMatchObject({ isError: false, reason: undefined })
    expect(story).toMatchObject({ asked: { size: 1 }, executions: 2, starts: 2 })
    await expect.poll(story.kept).toEqual([])
  })
})
