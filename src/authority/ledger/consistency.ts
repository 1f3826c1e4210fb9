/**
 * POST /ledger/{tag}/consistency: proves to anybody who has two heads of an owner's ledger that the newer
 * tree continues the older one. docs/choices.md, "Checkpoints of the ledger".
 */
import { z } from 'zod'
import { endpoint, type Endpoint } from '../../http/servers/endpoint.ts'
import { sourceShares, takeShare } from '../../http/source-share.ts'
import type { RateShares } from '../../limits/rate-shares.ts'
import {
  planConsistency,
  planRoot,
  proverOf,
  type ProofPlan,
  type TreeHead,
} from '../../rules/ledger/merkle.ts'
import type { Db } from '../../storage/authority/database.ts'
import { readLog } from '../../storage/authority/ledger/ledger-checkpoints.ts'
import { readTiles } from '../../storage/authority/ledger/ledger-tiles.ts'
import { decodeBase64url, encodeBase64url } from '../../wire/encoding.ts'
import { CONSISTENCY_PATH } from '../../wire/names.ts'
import { refuse } from '../../wire/refusal.ts'
import type { Authority } from '../context.ts'

export interface Consistency extends Pick<Authority, 'database'> {
  /** What every origin begins with. */
  base: string
  /** How often one source may ask. */
  shares: RateShares
}

const ASKED_PER_MINUTE = 60

/** The share of each source, for all cells together. */
export const consistencyShares = (): RateShares => sourceShares(ASKED_PER_MINUTE)

const HASH = z
  .string()
  .regex(/^[A-Za-z0-9_-]{43}$/, 'give a hash of 32 bytes in base64url')
  .meta({ examples: ['47DEQpj8HBSa-_TImW-5JCeuQeRkm5NMpJWZG3hSuFU'] })
const HEAD = z
  .object({
    size: z
      .int()
      .min(1)
      .meta({ examples: [300] }),
    root: HASH,
  })
  .meta({ id: 'TreeHead' })

export const CONSISTENCY: Endpoint<Consistency> = endpoint({
  method: 'post',
  path: CONSISTENCY_PATH,
  rows: { addedUnder: 'Checkpoints of the ledger' },
  summary: 'Proves that one head of a ledger continues another',
  parameters: {
    schema: z.object({ tag: z.string().regex(/^[A-Za-z0-9_-]{1,64}$/) }),
    unknown: 'There is no such log.',
  },
  body: { schema: z.object({ from: HEAD, to: HEAD }) },
  refuses: { 404: ['not_found'], 429: ['temporarily_unavailable'] },
  answers: {
    200: {
      says: 'The proof of RFC 9162, section 2.1.4, from the older head to the newer one; empty if they are equal.',
      schema: z.object({ proof: z.array(HASH) }),
      headers: { 'cache-control': 'no-store' },
    },
  },
  handle: async ({ database, base, shares }: Consistency, { parameters, body, request, answer }) => {
    takeShare(shares, request.ip, `${ASKED_PER_MINUTE} proofs`)
    const [from, to] = [headOf(body.from), headOf(body.to)]
    const log = { base, tag: parameters.tag }
    const proof = await proveConsistency(database.ofNobody, log, { from, to })
    if (proof === undefined)
      refuse('not_found', 'Give two heads that were signed of this log: no tree of it has both roots.')
    return answer(200, { proof: proof.map(encodeBase64url) })
  },
})

function headOf({ size, root }: z.output<typeof HEAD>): TreeHead {
  return { size, root: decodeBase64url(root) }
}

/**
 * The proof that the tree `to` continues the tree `from`; undefined unless both are this log's, up to what
 * was signed of it last. So nobody learns a root who does not know it.
 */
export async function proveConsistency(
  db: Db,
  log: { base: string; tag: string },
  { from, to }: { from: TreeHead; to: TreeHead },
): Promise<Buffer[] | undefined> {
  const found = await readLog(db, log)
  if (found === undefined || from.size < 1 || from.size > to.size || to.size > found.size) return undefined
  const [older, newer] = [planRoot(from.size), planRoot(to.size)]
  const between = planConsistency(from.size, to.size)
  const plans = [older, newer, between]
  const prove = proverOf(await readTiles(db, found.owner, placesOf(plans)))
  const isRoot = (plan: ProofPlan, { root }: TreeHead): boolean => prove(plan)[0]!.equals(root)
  return isRoot(older, from) && isRoot(newer, to) ? prove(between) : undefined
}

const placesOf = (plans: readonly ProofPlan[]) => plans.flatMap(({ tiles }) => tiles)
