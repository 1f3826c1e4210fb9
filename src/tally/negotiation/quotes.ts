/**
 * The holders' offers for one resource, and what all have in common. Contract: "Terms document" (the
 * intersection of all holders' terms). Quotes depend on no agent, so they are cached for a while.
 */
import { waitAtMost, LATE } from '../../limits/patience.ts'
import { BoundedMap } from '../../limits/bounded-map.ts'
import { foldTerms, type FoldedTerms } from '../../rules/joint/fold.ts'
import type { CountedMandate } from '../../rules/joint/mandate.ts'
import { unavailable, type Refusal } from '../../wire/refusal.ts'
import type { HolderClient } from '../holders/client.ts'

/** The common part of the offers, and its weight; undefined terms mean that nobody offers any. */
export interface Folded {
  terms: FoldedTerms | undefined
  /** The weight of the holders who offer something. */
  weight: number
}

export interface Quotes {
  /** Throws `temporarily_unavailable` if a holder's server cannot be asked. */
  folded(mandate: CountedMandate, resource_id: string): Promise<Folded>
}

const QUOTE_AGE_MS = 30_000
const KEPT_MAX = 10_000
/** The time limit for the quotes of all holders. */
const QUOTES_MS = 3_000

/** One request at a time for each (mandate, resource); `clock` gives milliseconds that only rise. */
export function createQuotes(holders: HolderClient, clock: () => number): Quotes {
  const cache = new BoundedMap<string, { folded: Promise<Folded>; until: number }>(KEPT_MAX)
  return {
    folded: async (mandate, resource_id) => {
      const name = JSON.stringify([mandate.account, mandate.mandate_s256, resource_id])
      const known = cache.get(name)
      if (known !== undefined && clock() < known.until) return known.folded
      const folded = ask(holders, mandate, resource_id)
      const made = { folded, until: clock() + QUOTE_AGE_MS }
      cache.set(name, made)
      // A failure is an answer only for the callers that waited for it; a late one leaves what is newer.
      folded.catch(() => {
        if (cache.get(name) === made) cache.delete(name)
      })
      return folded
    },
  }
}

async function ask(holders: HolderClient, mandate: CountedMandate, resource_id: string): Promise<Folded> {
  const { account } = mandate
  const quotes = mandate.holders.map(async ({ owner, issuer, weight }) => {
    const quote = await holders.quote({ owner, issuer, account, resource_id }, QUOTES_MS)
    if ('silent' in quote) throw unheard(`${owner} at ${issuer}: ${quote.silent}`)
    // A holder who offers nothing, for any reason, would refuse.
    return 'refused' in quote || quote.tier === null ? undefined : { weight, tier: quote.tier }
  })
  const all = await waitAtMost(QUOTES_MS, Promise.all(quotes))
  if (all === LATE) throw unheard('not all of them answered in time')
  const offering = all.filter(one => one !== undefined)
  const [first, ...rest] = offering.map(({ tier: { ask_me, terms } }) => ({ ...terms, ask_me }))
  return {
    terms: first === undefined ? undefined : foldTerms([first, ...rest]),
    weight: offering.reduce((sum, { weight }) => sum + weight, 0),
  }
}

/** Which holder it was, and why, is only for the log. */
function unheard(why: string): Refusal {
  return unavailable(
    'Ask again shortly: not all holders of this resource could be asked for their terms.',
    2,
    new Error(why),
  )
}
