/**
 * Owns the verification of the verdicts in a grant, with keys that the holders' authorities publish.
 * Contract: "Tally for a jointly held resource" (the enforcement point verifies each against the keys of that
 * holder's authority). Verified proofs are kept, no longer than the keys, and counted at each call: a cache
 * of proofs, never of liveness.
 */
import { BoundedMap } from '../../limits/bounded-map.ts'
import { holderOf, type CountedMandate } from '../../rules/joint/mandate.ts'
import { s256 } from '../../wire/encoding.ts'
import type { Verified } from '../../wire/signatures/jws.ts'
import type { MandateHolder } from '../../wire/joint/mandate.ts'
import { AUTHORITY_PATH } from '../../wire/names.ts'
import { verdictSigner, verifyVerdict, type Verdict } from '../../wire/joint/verdict.ts'
import type { JwksCache } from '../../http/outbound/jwks-cache.ts'
import { within, type Deadline } from '../deadline.ts'

/** Verdicts, and the grant that they came with. */
export interface PresentedVerdicts {
  token: string
  /** The member `joint` of the answer about it, as text. */
  joint: string
  verdicts: readonly string[]
  mandate: CountedMandate
}

export interface Proof {
  readonly verdicts: readonly Verified<Verdict>[]
  /** Verdicts that do not count: `unreadable`, `foreign` or `forged`. */
  readonly faults: readonly ('unreadable' | 'foreign' | 'forged')[]
  /**
   * Holders whose verdict could not be verified, because the keys of their authority could not be fetched.
   */
  readonly unheard: readonly MandateHolder[]
}

export interface Proofs {
  /**
   * The verified verdicts: all that can be verified, or fewer as soon as `isEnough` says so. Rejects
   * `temporarily_unavailable` if that takes too long.
   */
  of(
    presented: PresentedVerdicts,
    isEnough: (verdicts: Proof['verdicts']) => boolean,
    deadline: Deadline,
  ): Promise<Proof>
}

export interface ProofsOptions {
  keys: JwksCache
  /** Milliseconds since the epoch, the same as that of the keys. */
  clock: () => number
  /** Another `typ` of a verdict that is accepted, if any. */
  typAlias?: string | undefined
}

/** Each has at most 64 KiB of verdicts, like any other answer; most have far less. */
const PROOFS_MAX = 2_000

/** Keeps the newest proofs; asks nobody until there is something to verify. */
export function createProofs({ keys, clock, typAlias }: ProofsOptions): Proofs {
  const cache = new BoundedMap<string, { proof: Proof; isWhole: boolean; until: number }>(PROOFS_MAX)
  return {
    async of(presented, isEnough, deadline) {
      const { token, joint, mandate } = presented
      const name = `${s256(token)} ${s256(joint)} ${mandate.mandate_s256}`
      const known = cache.get(name)
      const isGood = known !== undefined && clock() < known.until
      if (isGood && (known.isWhole || isEnough(known.proof.verdicts))) return known.proof
      const { groups, faults } = sorted(presented, typAlias)
      const expected = { audience: mandate.tally, typAlias }
      const verifying = verifyUntil(groups, isEnough, group => verifyGroup(group, expected, keys))
      const { parts, isWhole } = await within(deadline, "the keys of the holders' authorities", verifying)
      const proof: Proof = {
        verdicts: parts.flatMap(part => part.verdicts),
        faults: [...faults, ...parts.flatMap(part => part.faults)],
        unheard: parts.flatMap(part => part.unheard),
      }
      const until = Math.min(...parts.map(part => part.until))
      const isComplete = isWhole && proof.unheard.length === 0
      if (until !== Infinity) cache.set(name, { proof, isWhole: isComplete, until })
      return proof
    },
  }
}

/** Verdicts of holders at one authority, none of them verified yet. */
interface VerdictGroup {
  issuer: string
  verdicts: { compact: string; kid: string | undefined; holder: MandateHolder }[]
}

interface ProofPart extends Proof {
  /** Until when the keys that verified it are valid, in milliseconds since the epoch; otherwise Infinity. */
  until: number
}

/** Grouped by authority. Only authorities that the mandate names are asked for keys. */
function sorted(
  { verdicts, mandate }: PresentedVerdicts,
  typAlias: string | undefined,
): { groups: VerdictGroup[]; faults: Proof['faults'] } {
  const groups = new Map<string, VerdictGroup>()
  const faults: Proof['faults'][number][] = []
  for (const compact of verdicts) {
    const signer = signerOf(compact, typAlias)
    const holder = signer && holderOf(mandate, { owner: signer.holder, issuer: signer.issuer })
    if (holder === undefined) {
      faults.push(signer === undefined ? 'unreadable' : 'foreign')
      continue
    }
    const group = groups.get(holder.issuer) ?? { issuer: holder.issuer, verdicts: [] }
    group.verdicts.push({ compact, kid: signer!.kid, holder })
    groups.set(holder.issuer, group)
  }
  return { groups: [...groups.values()], faults }
}

function signerOf(
  compact: string,
  typAlias: string | undefined,
): ReturnType<typeof verdictSigner> | undefined {
  try {
    return verdictSigner(compact, typAlias)
  } catch {
    return undefined
  }
}

/** Verifies all at once, and only until there are enough: one silent authority stops nobody. */
function verifyUntil(
  groups: readonly VerdictGroup[],
  isEnough: (verdicts: Proof['verdicts']) => boolean,
  verify: (group: VerdictGroup) => Promise<ProofPart>,
): Promise<{ parts: ProofPart[]; isWhole: boolean }> {
  return new Promise((resolve, reject) => {
    const parts: ProofPart[] = []
    const end = (): void => resolve({ parts: [...parts], isWhole: parts.length === groups.length })
    if (groups.length === 0) end()
    for (const group of groups) {
      verify(group)
        .then(part => {
          parts.push(part)
          const verdicts = parts.flatMap(one => one.verdicts)
          if (parts.length === groups.length || isEnough(verdicts)) end()
        })
        .catch(reject)
    }
  })
}

async function verifyGroup(
  { issuer, verdicts }: VerdictGroup,
  expected: { audience: string; typAlias: string | undefined },
  keys: JwksCache,
): Promise<ProofPart> {
  const url = issuer + AUTHORITY_PATH.jwks
  const verified: Verified<Verdict>[] = []
  const faults: 'forged'[] = []
  const unheard: MandateHolder[] = []
  let until = Infinity
  for (const { compact, kid, holder } of verdicts) {
    const published = await publishedKeys(keys, url, kid)
    if (published === undefined) {
      unheard.push(holder)
      continue
    }
    // If there are several sets, because one key was unknown in the first, the oldest decides.
    until = Math.min(until, keys.freshUntil(url))
    try {
      verified.push(verifyVerdict(compact, published, { issuer, ...expected }))
    } catch {
      faults.push('forged')
    }
  }
  return { verdicts: verified, faults, unheard, until }
}

/** The named key, if it is published; otherwise all keys; undefined if they cannot be fetched. */
async function publishedKeys(
  keys: JwksCache,
  url: string,
  kid: string | undefined,
): Promise<Awaited<ReturnType<JwksCache['keys']>> | undefined> {
  try {
    const named = kid === undefined ? undefined : await keys.find(url, kid)
    return named === undefined ? await keys.keys(url) : [named]
  } catch {
    return undefined
  }
}
