/**
 * contract, "Permission ticket" and "Single-use grant", for two windows of one client, each with its own
 * bridge on one folder of state: one continues what the other left, and the owner is asked once, the call
 * runs once, the answer arrives once.
 */
import { describe, expect, it } from 'vitest'
import { filesIn, pendingOf, type BridgedClient, type ToolAnswer } from '../../support/bridge.ts'
import { useBridges } from '../../support/bridge-stand.ts'

const LINGER_SECONDS = 4
const stand = useBridges({
  stack: { authorityEnvironment: { UMA_AS_POLL_SECONDS: '1' } },
  args: ['--hold', '30'],
})
const { bridge, executions, unique, waiting } = stand

interface Trade {
  symbol: string
  qty: number
}
const trade = (): Trade => ({ symbol: 'VTI', qty: unique() })

function windows(name: string, count: number, args: string[] = []): Promise<BridgedClient[]> {
  const options = { name, capabilities: { elicitation: {} }, args }
  return Promise.all(Array.from({ length: count }, () => bridge(options)))
}

/** The bridges' files of that client, by their folder. */
async function kept(name: string, kind: 'families' | 'held'): Promise<{ path: string; text: string }[]> {
  const files = await filesIn(stand.folder)
  return files.filter(({ path }) => path.includes(`/${name}-`) && path.includes(`/${kind}/`))
}
const offers = async (name: string): Promise<number> =>
  (await kept(name, 'held')).filter(({ path }) => path.endsWith('.offered')).length

/** The window has the owner asked about the trade, and its person cancels the call. */
async function askAndLeave({ call }: BridgedClient, name: string, given: Trade): Promise<string> {
  const leaving = new AbortController()
  const before = await offers(name)
  call('place_trade', given, { signal: leaving.signal }).catch(() => undefined)
  const item = async () =>
    (await pendingOf(stand.owner)).find(({ operation }) =>
      JSON.stringify(operation).includes(`:${given.qty}}`),
    )
  await expect.poll(item).toBeDefined()
  leaving.abort()
  await expect.poll(() => offers(name)).toBe(before + 1)
  return (await item())!.family
}

/** Begun, and looked at later. */
function begun(answer: Promise<ToolAnswer>): Promise<ToolAnswer> {
  answer.catch(() => undefined)
  return answer
}

async function expectOnce(name: string, given: Trade): Promise<void> {
  expect(executions('place_trade', given)).toBe(1)
  expect(await pendingOf(stand.owner)).toEqual([])
  await expect.poll(() => kept(name, 'families')).toEqual([])
  await expect.poll(() => kept(name, 'held')).toEqual([])
}

describe('A request that one window asked the owner about', () => {
  it('is gone on with by another as soon as the process of the first was killed', async () => {
    const name = `killed-${unique()}`
    const [first, second] = await windows(name, 2)
    const given = trade()
    void begun(first!.call('place_trade', given))
    const { family } = await waiting()
    await first!.kill()
    const answer = begun(second!.call('place_trade', given))
    await expect.poll(async () => (await kept(name, 'held'))[0]?.text).toContain(`"pid":${second!.pid}`)
    expect((await waiting()).family).toBe(family)
    await stand.owner.decide(family, 'approved')
    expect(await answer).toMatchObject({ isError: false, text: `Bought ${given.qty} VTI` })
    await expectOnce(name, given)
  })

  it('stays with the first while somebody waits for it there', async () => {
    const name = `awaited-${unique()}`
    const [first, second] = await windows(name, 2)
    const given = trade()
    const answer = begun(first!.call('place_trade', given))
    const { family } = await waiting()
    expect(await second!.call('place_trade', given)).toMatchObject({ isError: true, reason: 'in_progress' })
    await stand.owner.decide(family, 'approved')
    expect(await answer).toMatchObject({ isError: false, text: `Bought ${given.qty} VTI` })
    await expectOnce(name, given)
  })

  it('is gone on with by another at once where nobody waits for it in the first, whose repeat then waits its turn', async () => {
    const name = `left-${unique()}`
    const [first, second] = await windows(name, 2)
    const given = trade()
    const family = await askAndLeave(first!, name, given)
    const answer = begun(second!.call('place_trade', given))
    await expect.poll(() => offers(name)).toBe(0)
    expect(await first!.call('place_trade', given)).toMatchObject({ isError: true, reason: 'in_progress' })
    expect((await waiting()).family).toBe(family)
    await stand.owner.decide(family, 'approved')
    expect(await answer).toMatchObject({ isError: false, text: `Bought ${given.qty} VTI` })
    await expectOnce(name, given)
  })

  it('that she approved while nobody waited is made by the window that asks again', async () => {
    const name = `approved-${unique()}`
    const [first, second] = await windows(name, 2)
    const given = trade()
    const family = await askAndLeave(first!, name, given)
    await stand.owner.decide(family, 'approved')
    expect(await offers(name)).toBe(1)
    expect(executions('place_trade', given)).toBe(0)
    expect(await second!.call('place_trade', given)).toMatchObject({
      isError: false,
      text: `Bought ${given.qty} VTI`,
    })
    await expectOnce(name, given)
  })

  it.each([
    ['two others', [1, 2]],
    ['the first itself and another', [0, 1]],
    ['the first itself and two others', [0, 1, 2]],
  ])('is had by one of those that come back to it together: %s', async (_who, racing) => {
    const name = `raced-${unique()}`
    const all = await windows(name, 3)
    const given = trade()
    const family = await askAndLeave(all[0]!, name, given)
    const answers = racing.map(at => begun(all[at]!.call('place_trade', given)))
    // Whoever has it waits, and the others are told so.
    const told: ToolAnswer[] = []
    for (const answer of answers) void answer.then(one => told.push(one)).catch(() => undefined)
    await expect.poll(() => told.length).toBe(racing.length - 1)
    expect((await waiting()).family).toBe(family)
    await stand.owner.decide(family, 'approved')
    const reasons = (await Promise.all(answers)).map(({ text, reason }) => reason ?? text)
    const others = racing.slice(1).map(() => 'in_progress')
    expect(reasons.toSorted()).toEqual([`Bought ${given.qty} VTI`, ...others])
    await expectOnce(name, given)
  })

  it('is not declined by the first, whose time for a repeat is over, when another waits for it', async () => {
    const name = `lingered-${unique()}`
    const [first, second] = await windows(name, 2, ['--linger', String(LINGER_SECONDS)])
    const [taken, forgotten] = [trade(), trade()]
    const family = await askAndLeave(first!, name, taken)
    const answer = begun(second!.call('place_trade', taken))
    await expect.poll(() => offers(name)).toBe(0)
    await askAndLeave(first!, name, forgotten)
    // That which nobody took is declined: so the time of the one before it is over too.
    const families = async () => (await pendingOf(stand.owner)).map(item => item.family)
    await expect.poll(families).toEqual([family])
    await stand.owner.decide(family, 'approved')
    expect(await answer).toMatchObject({ isError: false, text: `Bought ${taken.qty} VTI` })
    await expectOnce(name, taken)
  })
})
