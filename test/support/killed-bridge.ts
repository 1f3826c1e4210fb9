/**
 * Owns the story of a call whose bridge is killed on the way, and of the client that starts it again and
 * repeats the call: for tests of what the owner is asked and how often the tool is called.
 */
import { join } from 'node:path'
import { expect } from 'vitest'
import { filesIn, isToRepeat, pendingOf, type ClientKind, type ToolAnswer } from './bridge.ts'
import type { useBridges } from './bridge-stand.ts'
import type { PendingItem } from '../../src/owner/index.ts'

const PRELOAD = `--import=${join(import.meta.dirname, 'kill-at.ts')}`

export interface Story {
  answer: ToolAnswer
  /** What the owner was asked, by its family. */
  asked: Set<string>
  executions: number
  starts: number
  /** What is left of it on disk. */
  kept: () => Promise<string[]>
}

interface Plot {
  name: string
  tool: string
  given: object
  isMine: (item: PendingItem) => boolean
  kind?: ClientKind
}

/** Stories at a stand; `environment` is that of the first bridge alone. */
export function killedStories(stand: ReturnType<typeof useBridges>) {
  /** She approves whatever she is asked about it, and the client repeats the call until it has an answer. */
  async function tell(plot: Plot, environment: Record<string, string>): Promise<Story> {
    const { name, tool, given, isMine } = plot
    const before = stand.executions(tool, given)
    const asked = new Set<string>()
    const approve = async (): Promise<void> => {
      for (const item of await pendingOf(stand.owner))
        if (isMine(item)) {
          asked.add(item.family)
          await stand.owner.decide(item.family, 'approved')
        }
    }
    let answer: ToolAnswer | undefined
    let starts = 0
    while (answer === undefined) {
      if (starts === 3) throw new Error('three starts, and no answer')
      answer = await answeredBy(plot, starts++ === 0 ? environment : {}, approve)
    }
    await approve()
    const kept = async (): Promise<string[]> =>
      (await filesIn(stand.folder))
        .map(({ path }) => path)
        .filter(path => path.includes(`/${name}-`) && path.includes('/families/'))
    return { answer, asked, executions: stand.executions(tool, given) - before, starts, kept }
  }

  /** The answer of one bridge, which may be killed: then undefined. */
  async function answeredBy(
    { name, tool, given, kind }: Plot,
    environment: Record<string, string>,
    approve: () => Promise<void>,
  ): Promise<ToolAnswer | undefined> {
    const client = await stand.bridge({
      name,
      ...(kind === undefined ? {} : { kind }),
      capabilities: { elicitation: {} },
      environment: { NODE_OPTIONS: PRELOAD, ...environment },
    })
    for (;;) {
      let ended = false
      const call = client.call(tool, given).finally(() => (ended = true))
      call.catch(() => undefined)
      await expect.poll(async () => (await approve(), ended), { interval: 100 }).toBe(true)
      const answer = await call.catch(() => undefined)
      if (answer === undefined || !isToRepeat(answer)) return answer
    }
  }

  return {
    /** A trade of a new agent, which the owner is asked about each time. */
    trade: (name: string, environment: Record<string, string>, kind?: ClientKind): Promise<Story> => {
      const given = { symbol: 'VTI', qty: stand.unique() }
      const isMine = ({ operation }: PendingItem): boolean =>
        (operation as { params: typeof given } | null)?.params.qty === given.qty
      const plot = { name, tool: 'place_trade', given, isMine }
      return tell({ ...plot, ...(kind === undefined ? {} : { kind }) }, environment)
    },
    /** A reading of a new agent: she is asked whether that may use her tools, and grants it for a while. */
    reading: (name: string, environment: Record<string, string>): Promise<Story> =>
      tell({ name, tool: 'portfolio_read', given: {}, isMine: () => true }, environment),
  }
}
