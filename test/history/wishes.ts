/**
 * Owns what agents of a history ask for: reading and trades of every owner, or trades at an owner whose tier
 * names an allowance.
 */
import type { Chance } from './chance.ts'
import { deskOf } from './desk.ts'
import type { Share } from './record.ts'

export interface Wish {
  tool: 'portfolio_read' | 'place_trade'
  args: object | undefined
  /** Of the resource, below the URL of the sidecars. */
  path: string
  /** What it would take of its owner's allowance. */
  share?: Omit<Share, 'agreed'>
}

export interface Wishes {
  next: (owner: string) => Wish
  /** How long a grant may live, as the agent agrees to it. */
  seconds: () => number
}

const AGREED_SECONDS = [200, 300] as const
/** So short that many grants expire unspent; of one in five an allowance makes the life shorter. */
const AGREED_SHORTLY = [3, 5, 8, 10, 100] as const

/** Reading, and trades that differ from each other. */
export function plainWishes(chance: Chance): Wishes {
  let trades = 0
  return {
    next: owner => {
      const tool = chance.next() < 0.5 ? 'portfolio_read' : 'place_trade'
      // Sometimes what was asked for before: a repeat joins what waits.
      const qty = chance.next() < 0.2 ? Math.max(1, trades) : ++trades
      const args = tool === 'place_trade' ? { symbol: 'VTI', qty } : undefined
      return { tool, args, path: `/mcp/${owner}` }
    },
    seconds: () => chance.of(AGREED_SECONDS),
  }
}

/** The largest trade that an allowance lets through. */
export const EACH_MAX = 12

/**
 * Trades at both resources of an owner, which share her allowance. Some are beyond it, however little was
 * used.
 */
export function boundedWishes(chance: Chance, allowance: string): Wishes {
  let trades = 0
  return {
    next: owner => {
      const [isLarge, hasMore] = [chance.next() < 0.05, chance.next() < 0.05]
      const price = isLarge ? EACH_MAX + 1 : 1 + chance.below(EACH_MAX)
      return {
        tool: 'place_trade',
        args: { symbol: 'VTI', qty: price, note: ++trades, ...(hasMore && { urgent: true }) },
        path: chance.next() < 0.5 ? `/mcp/${owner}` : deskOf(owner),
        share: { allowance, price, beyond: isLarge || hasMore },
      }
    },
    seconds: () => chance.of(AGREED_SHORTLY),
  }
}
