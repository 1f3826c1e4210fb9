/**
 * Owns what steps about an allowance share: what alice's says, trades that pass without a question or wait
 * for her, how much of it is used, and how a day of it ends. Contract: "Policy vocabulary and tiers"; an
 * addition (docs/details/owner-api.md).
 */
import { stringify } from 'yaml'
import { readAll, type PendingItem } from '../../owner/index.ts'
import { rowsOf } from './database.ts'
import { OWNER, writePrivate } from '../stack/household.ts'
import { usher } from './owner-command.ts'
import { toolText } from './raw-call.ts'
import {
  expectDenied,
  expectEqual,
  firstEvent,
  pendingItem,
  present,
  type ActingAgent,
  type RunningCall,
  type Scene,
} from './scene.ts'
import type { Stack } from '../stack/stack.ts'
import { got, sent } from './story.ts'

export const ALLOWANCE = 'trades'
export const TIER = 'trading'
const PAYEE = 'Corner Brokers'

/** What an agent asks the tool to do: the tool keeps members that it does not know, such as the payee. */
export interface StoryTrade {
  symbol: string
  qty: number
  payee: string
}

/** A trade of so many shares, for the payee that her allowance names, or for another. */
export function tradeOf(qty: number, payee = PAYEE): StoryTrade {
  return { symbol: 'VTI', qty, payee }
}

/**
 * At most 5 shares in a trade and 16 a day, of one fund and to one payee. The story asks for more than the
 * day has left, and later for all that is left of the day.
 */
const TERMS = {
  id: ALLOWANCE,
  amounts: [{ name: 'qty', unit: 'shares', each_max: '5' }],
  windows: [{ of: 'qty', per: 'day', max: '16' }],
  tiers: {
    [TIER]: {
      tools: ['place_trade'],
      amounts: { qty: { pointer: '/qty' } },
      only: [
        { pointer: '/symbol', one_of: ['VTI'] },
        { pointer: '/payee', one_of: [PAYEE] },
      ],
    },
  },
}

/** Writes her allowance, whose days end hours after `nowMs`. @returns the path of its file. */
export function writeAllowance({ directory }: Pick<Stack, 'directory'>, nowMs: number): Promise<string> {
  return writePrivate(directory, 'allowance.yaml', stringify({ ...TERMS, zone: noonZone(nowMs) }))
}

/**
 * A zone in which the hour after noon runs now. If the story were told in UTC, a real midnight could come
 * between two of its steps, and what it had counted would be counted no more. No clock is changed in this
 * zone, so each of its days has 24 hours.
 */
export function noonZone(nowMs: number): string {
  const ahead = 12 - new Date(nowMs).getUTCHours()
  // By the names of POSIX: Etc/GMT-2 is two hours ahead of UTC.
  return ahead === 0 ? 'UTC' : `Etc/GMT${ahead > 0 ? '-' : '+'}${Math.abs(ahead)}`
}

/** A trade that was started. `family` is that of the request that waits; undefined if none does. */
export interface StartedTrade {
  trade: StoryTrade
  call: RunningCall
  family: string | undefined
}

/** Starts a trade, and waits until it was granted without a question, or waits for her. */
export async function startTrade(agent: ActingAgent, trade: StoryTrade): Promise<StartedTrade> {
  const call = agent.startCall('place_trade', trade)
  const event = await firstEvent(call, 'granted', 'waiting')
  return { trade, call, family: event.type === 'waiting' ? event.family : undefined }
}

/** Waits for the end of a trade, which must have been placed. @returns what the tool answered. */
export async function expectPlaced({ trade, call }: Pick<StartedTrade, 'trade' | 'call'>): Promise<string> {
  const { result } = await call.result
  const answer = `Bought ${trade.qty} ${trade.symbol}`
  expectEqual('The tool answered.', toolText({ json: result }), answer)
  return answer
}

/** A trade about which nobody is asked. @returns what the tool answered. */
export async function tradeAtOnce(agent: ActingAgent, trade: StoryTrade): Promise<string> {
  const started = await startTrade(agent, trade)
  expectEqual('Nobody was asked.', started.family, undefined)
  return expectPlaced(started)
}

/** A trade that waits for her, and what she is shown of it. */
export interface WaitingTrade {
  trade: StoryTrade
  call: RunningCall
  item: PendingItem
}

/** Starts a trade about which she is asked. */
export async function tradeForHer(
  scene: Scene,
  trade: StoryTrade,
  agent: ActingAgent = scene,
): Promise<WaitingTrade> {
  return waitingTrade(scene, await startTrade(agent, trade))
}

/** What waits for her of a trade that was started. */
export async function waitingTrade(
  scene: Pick<Scene, 'owner'>,
  { trade, call, family }: StartedTrade,
): Promise<WaitingTrade> {
  const item = await pendingItem(scene, present(`She is asked about ${JSON.stringify(trade)}.`, family))
  expectEqual('She sees the exact operation.', item.operation, { tool: 'place_trade', params: trade })
  return { trade, call, item }
}

/** Fails unless the request came to her because it does not keep this limit of the allowance. */
export function expectLimit({ because }: PendingItem, limit: string): void {
  const expected = [`ask:operation.beyond:${ALLOWANCE}`, `limit:${limit}`]
  expectEqual('She is told the rule, and the first limit that was not kept.', because.slice(-2), expected)
}

/** She approves it, and it is placed. @returns what the tool answered. */
export async function approve({ owner }: Pick<Scene, 'owner'>, waiting: WaitingTrade): Promise<string> {
  await owner.decide(waiting.item.family, 'approved')
  return expectPlaced(waiting)
}

/** She denies it, which its agent is told. @returns the sentence that the agent got. */
export async function deny({ owner }: Pick<Scene, 'owner'>, { item, call }: WaitingTrade): Promise<string> {
  await owner.decide(item.family, 'denied')
  return expectDenied(call)
}

/** What her command says of a request that waits: its sentences, and why it came to her. */
export async function cardOf(stack: Stack, { family }: PendingItem): Promise<string[]> {
  const { out } = await usher(stack, ['owner', 'pending', family])
  const sentences = out.slice(0, Math.max(0, out.indexOf('')))
  const because = present(
    'The card says why she is asked.',
    out.find(line => /^because\s/.test(line)),
  )
  return [
    sent(`usher owner pending ${family}`),
    ...sentences.map(got),
    got(because.replace(/^because\s+/, 'because ')),
  ]
}

/** What her command says of all allowances. */
export async function listOf(stack: Stack): Promise<string[]> {
  const { out } = await usher(stack, ['owner', 'allowance', 'list'])
  return [sent('usher owner allowance list'), ...out.map(got)]
}

/** How much must be used of the day, and left. */
interface DayUse {
  used: string
  left: string
}

/** Fails unless so much of the day is used and left, and no unspent grant holds a part. @returns the day. */
export async function expectUse({ owner }: Pick<Scene, 'owner'>, what: string, { used, left }: DayUse) {
  const allowances = await readAll(owner.allowances())
  const { use } = present(
    'She has the allowance.',
    allowances.find(({ id }) => id === ALLOWANCE),
  )
  const day = present('It has a window.', use?.[0]?.windows[0])
  expectEqual(what, { used: day.used, held: day.held, left: day.left }, { used, held: '0', left })
  return day
}

/**
 * Moves what was counted a day back, which is how it stands a day later: no setting of a server moves the
 * clock by which days begin, which is that of the database, and the story cannot wait for a midnight.
 */
export const DAY_BACK = `UPDATE allowance_windows
  SET start = start - interval '24 hours', ends = ends - interval '24 hours'
  WHERE owner = '${OWNER}' AND allowance = '${ALLOWANCE}' RETURNING of`

/** How much was used of each of its days, the earliest first. */
const DAYS = `SELECT trim_scale(used)::text AS used FROM allowance_windows
  WHERE owner = '${OWNER}' AND allowance = '${ALLOWANCE}' ORDER BY start`

/**
 * Lets a day of the allowance end. No unspent grant may hold a part of it, because its share would find its
 * window no more.
 */
export async function endDay({ stack }: Pick<Scene, 'stack'>): Promise<void> {
  const days = await rowsOf<{ of: string }>(stack, { name: 'midnight', statement: DAY_BACK })
  expectEqual(
    'One day was counted, and it is over.',
    days.map(({ of }) => of),
    ['qty'],
  )
}

/** How much was used of each day that Postgres holds, the earliest first. */
export async function usedByDay({ stack }: Pick<Scene, 'stack'>): Promise<string[]> {
  const rows = await rowsOf<{ used: string }>(stack, { name: 'midnight', statement: DAYS })
  return rows.map(({ used }) => used)
}
