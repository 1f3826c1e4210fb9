/**
 * contract, "Permission ticket" and "Single-use grant", for bridges of one client in containers that share a
 * folder: neither sees a process of the other, because each has its own pid namespace. Still the owner is
 * asked once and the call runs once.
 */
import { readdir, utimes } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { SILENT_MILLISECONDS_MAX } from '../../../src/agent/bridge/negotiation/holds.ts'
import { pendingOf, type BridgedClient } from '../../support/bridge.ts'
import { useBridges } from '../../support/bridge-stand.ts'
import { OWN_PROCESSES } from '../../support/own-processes.ts'
import { until } from '../../support/until.ts'
import { describeWith } from '../../support/requirement.ts'

describeWith(OWN_PROCESSES, 'Two bridges on one folder, each with processes of its own', under => {
  const stand = useBridges({ args: ['--hold', '30'] })
  const { bridge, executions, unique, waiting } = stand
  const both = (name: string): Promise<BridgedClient[]> =>
    Promise.all([1, 2].map(() => bridge({ name, under, capabilities: { elicitation: {} } })))

  it('make one call of the very same, and ask the owner once', async () => {
    const trade = { symbol: 'VTI', qty: unique() }
    const answers: unknown[] = []
    const calls = (await both(`apart-${unique()}`)).map(async ({ call }) => {
      const { text, reason } = await call('place_trade', trade)
      answers.push(reason ?? text)
    })
    // The owner decides while both are on their way: one that came after the answer would be another call.
    await expect.poll(() => answers).toEqual(['in_progress'])
    await stand.owner.decide((await waiting()).family, 'approved')
    await Promise.all(calls)
    expect(answers).toEqual(['in_progress', `Bought ${trade.qty} VTI`])
    expect(executions('place_trade', trade)).toBe(1)
    expect(await pendingOf(stand.owner)).toEqual([])
  })

  it('go on with what the other left once that was silent too long, and not before, though it is dead', async () => {
    const name = `left-${unique()}`
    const [first, second] = await both(name)
    const trade = { symbol: 'VTI', qty: unique() }
    first!.call('place_trade', trade).catch(() => undefined)
    const { family } = await waiting()
    await first!.kill()
    expect(await second!.call('place_trade', trade)).toMatchObject({ isError: true, reason: 'in_progress' })
    await silence(name)
    const answer = second!.call('place_trade', trade)
    answer.catch(() => undefined)
    expect((await waiting()).family).toBe(family)
    await stand.owner.decide(family, 'approved')
    expect(await answer).toMatchObject({ isError: false, text: `Bought ${trade.qty} VTI` })
    expect(executions('place_trade', trade)).toBe(1)
    expect(await pendingOf(stand.owner)).toEqual([])
  })

  /** Whatever is held for that client was last shown to be alive so long ago. */
  async function silence(name: string): Promise<void> {
    const client = (await readdir(stand.folder)).find(folder => folder.startsWith(`${name}-`))!
    const held = join(stand.folder, client, 'held')
    // The other has written down that it wants it, too, until it saw that it is held.
    let files: string[] = []
    await until(async () => (files = await readdir(held)).length === 1)
    const at = (Date.now() - SILENT_MILLISECONDS_MAX - 1000) / 1000
    await utimes(join(held, files[0]!), at, at)
  }
})
