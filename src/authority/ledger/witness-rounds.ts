/**
 * The rounds in which an owner's newest head goes to all witnesses: where it moved, at most once in ten
 * minutes for one owner. Nobody waits for them, and one that is silent delays no other.
 * docs/details/ledger.md, "Witnesses". Contract: "Events" (row 5).
 */
import { setTimeout as delay } from 'node:timers/promises'
import type { FastifyBaseLogger } from 'fastify'
import type { Outbound } from '../../http/outbound/outbound.ts'
import { BoundedMap } from '../../limits/bounded-map.ts'
import { startRepeating, type Repetition } from '../../limits/repetition.ts'
import { planConsistency } from '../../rules/ledger/merkle.ts'
import type { Db } from '../../storage/authority/database.ts'
import { dueNoMore, takeDue, type DueClaim } from '../../storage/authority/due.ts'
import { readCheckpoint, type SignedCheckpoint } from '../../storage/authority/ledger/ledger-checkpoints.ts'
import { readProver } from '../../storage/authority/ledger/ledger-tiles.ts'
import {
  dueForWitnesses,
  keepWitnessed,
  keepWitnessSize,
  loseOrigin,
  readWitnessSizes,
  witnessesAgain,
} from '../../storage/authority/ledger/ledger-witnesses.ts'
import { isOutage } from '../../storage/core/database.ts'
import type { Owner } from '../../wire/identifiers.ts'
import { askWitness, type WitnessAddress, type WitnessAnswer } from './witness-client.ts'

/** What came of one witness in a round. */
export type WitnessOutcome =
  | 'cosigned'
  /** It has cosigned another tree than a proof led to, or a newer one. */
  | 'conflict'
  /** It takes no checkpoint of this log. */
  | 'refused'
  | 'silent'
  /** It has cosigned more entries than there are: nothing is signed any more at this origin. */
  | 'lost'

export interface WitnessRounds {
  witnesses: readonly WitnessAddress[]
  /** The same for the rounds of all cells. */
  asking: WitnessAsking
  outbound: Outbound
  /** What every origin begins with. */
  base: string
  log: FastifyBaseLogger
  count: (outcome: WitnessOutcome) => void
}

const PAUSE_SECONDS = 1
const OWNERS_AT_ONCE = 8
/** Longer than one round takes: two requests to each witness, all witnesses at once, and their turns. */
const CLAIM_SECONDS = 60
const REQUESTS_PER_SECOND = 20
/** A witness that was silent is left out for so long. */
const SILENCE_PAUSE_MS = 60_000
/** So often a witness that refuses is told of in the log. */
const NEWS_MS = 3_600_000
const REMEMBERED_MAX = 10_000
/** Far below the pause between two rounds: whoever ends them for an owner sees what was signed before. */
const DUE_MS = 60_000

/** What names a witness in the database. */
const idOf = ({ key }: WitnessAddress): string => key.key.thumbprint

/** Notes that an owner's head moved, at most once a minute for one owner. Waits for nothing, never fails. */
export function noteMovedHeads(db: Db, log: FastifyBaseLogger): (owner: Owner) => void {
  const noted = new BoundedMap<Owner, number>(REMEMBERED_MAX)
  return owner => {
    const now = performance.now()
    if (now < (noted.get(owner) ?? 0)) return
    noted.set(owner, now + DUE_MS)
    dueForWitnesses(db, owner).catch((error: unknown) => {
      noted.set(owner, 0)
      log[isOutage(error) ? 'warn' : 'error']({ err: error, owner }, 'a head was not noted for witnesses')
    })
  }
}

/** Starts the rounds. Any number of replicas take part; each owner is taken by one. */
export function startWitnessRounds(db: Db, rounds: WitnessRounds): Repetition {
  const tell = (error: unknown, about: object, words: string): void =>
    rounds.log[isOutage(error) ? 'warn' : 'error']({ err: error, ...about }, words)
  return startRepeating(
    async stopped => {
      while (!stopped()) {
        const due = await takeDue(db, 'witness', { limit: OWNERS_AT_ONCE, seconds: CLAIM_SECONDS })
        if (due.length === 0) return
        await Promise.all(
          due.map(claim =>
            round(db, claim, { ...rounds, stopped }).catch((error: unknown) =>
              tell(error, { owner: claim.owner }, 'the head of a ledger was not sent to witnesses'),
            ),
          ),
        )
      }
    },
    {
      pauseSeconds: PAUSE_SECONDS,
      onError: error => tell(error, {}, 'a round of witnesses was broken off'),
    },
  )
}

/** The turns in which a replica asks witnesses, and what it remembers of them. */
interface WitnessAsking {
  /** Waits for a turn: so many a second, for all witnesses, owners and cells together. */
  turn: () => Promise<void>
  isResting: (witness: WitnessAddress) => boolean
  rest: (witness: WitnessAddress) => void
  /** Whether this was not told in the last hour. */
  isNews: (what: string) => boolean
}

/** One for each replica. */
export function createWitnessAsking({ witnesses }: Pick<WitnessRounds, 'witnesses'>): WitnessAsking {
  const restsUntil = new BoundedMap<string, number>(witnesses.length)
  const newsUntil = new BoundedMap<string, number>(REMEMBERED_MAX)
  let next = 0
  return {
    turn: async () => {
      const now = performance.now()
      const at = Math.max(now, next)
      next = at + 1_000 / REQUESTS_PER_SECOND
      if (at > now) await delay(at - now)
    },
    isResting: witness => performance.now() < (restsUntil.get(idOf(witness)) ?? 0),
    rest: witness => restsUntil.set(idOf(witness), performance.now() + SILENCE_PAUSE_MS),
    isNews: what => {
      const now = performance.now()
      if (now < (newsUntil.get(what) ?? 0)) return false
      newsUntil.set(what, now + NEWS_MS)
      return true
    },
  }
}

interface HeadRound extends WitnessRounds {
  /** Whether this replica ends: then nobody is asked any more, and running requests are broken off. */
  stopped: () => boolean
}

/** One round of an owner. If every witness has her head, there is none until it moves. */
async function round(db: Db, claim: DueClaim, of: HeadRound): Promise<void> {
  const { owner } = claim
  const checkpoint = await readCheckpoint(db, owner, of.base)
  if (checkpoint === undefined) return dueNoMore(db, claim)
  const sizes = await readWitnessSizes(db, owner, checkpoint.origin)
  const behind = of.witnesses.filter(witness => (sizes.get(idOf(witness)) ?? 0) < checkpoint.size)
  if (behind.length === 0) return dueNoMore(db, claim)
  const awake = behind.filter(witness => !of.asking.isResting(witness))
  await Promise.all(
    awake.map(async witness => {
      const outcome = await ask(db, { owner, checkpoint, from: sizes.get(idOf(witness)) ?? 0 }, witness, of)
      if (outcome !== undefined) of.count(outcome)
    }),
  )
  // What was broken off is for another replica, as soon as this one's claim is over.
  if (!of.stopped()) await witnessesAgain(db, owner)
}

/** A head that goes to a witness, and the size that this witness cosigned last, as far as is known. */
interface SentHead {
  owner: Owner
  checkpoint: SignedCheckpoint
  from: number
}

/**
 * Sends it, and once more where the witness names another size to begin at. Undefined if this replica ends
 * before the answer, which says nothing of the witness.
 */
async function ask(
  db: Db,
  head: SentHead,
  witness: WitnessAddress,
  of: HeadRound,
): Promise<WitnessOutcome | undefined> {
  const { owner, checkpoint, from } = head
  const { origin, size, note } = checkpoint
  const first = await send(db, head, witness, of)
  const isNamed = first.kind === 'conflict' && first.size !== from
  if (isNamed) await keepWitnessSize(db, owner, { origin, witness: idOf(witness), size: first.size })
  const answer =
    isNamed && first.size <= size ? await send(db, { ...head, from: first.size }, witness, of) : first
  if (answer.kind === 'cosigned') {
    await keepWitnessed(db, owner, { origin, size, note, cosignatures: answer.line })
    await keepWitnessSize(db, owner, { origin, witness: idOf(witness), size })
    return 'cosigned'
  }
  if (answer.kind === 'conflict' && answer.size > size) {
    const isLost = await loseOrigin(db, owner, { origin, size: answer.size })
    if (isLost) tellLost(of, { owner, witness, size: answer.size })
    return isLost ? 'lost' : 'conflict'
  }
  if (answer.kind === 'silent' && of.stopped()) return undefined
  tellAnswer(of, { owner, witness, answer })
  return answer.kind
}

async function send(
  db: Db,
  { owner, checkpoint: { size, note }, from }: SentHead,
  witness: WitnessAddress,
  { outbound, asking }: HeadRound,
): Promise<WitnessAnswer> {
  await asking.turn()
  // Of the tree without entries nothing is proved.
  const plan = from === 0 ? undefined : planConsistency(from, size)
  const proof = plan === undefined ? [] : (await readProver(db, owner, [plan]))(plan)
  return askWitness(outbound, witness, { oldSize: from, proof, note })
}

function tellLost(
  { log }: HeadRound,
  { owner, witness, size }: { owner: Owner; witness: WitnessAddress; size: number },
): void {
  log.error(
    { owner, witness: witness.url, cosigned_size: size },
    'a witness has cosigned more entries of a ledger than the database has: commits were lost, and it is not signed until after-restore: see docs/restore.md',
  )
}

function tellAnswer(
  { log, asking: { rest, isNews } }: HeadRound,
  { owner, witness, answer }: { owner: Owner; witness: WitnessAddress; answer: WitnessAnswer },
): void {
  if (answer.kind === 'silent') {
    rest(witness)
    if (isNews(`silent ${idOf(witness)}`))
      log.warn(
        { err: answer.error, witness: witness.url },
        'a witness gives no answer, and is asked again later',
      )
    return
  }
  // A proof that does not hold, or another tree of one size: somebody else signs, or commits were lost.
  const isFork = answer.kind === 'conflict' || (answer.kind === 'refused' && answer.status === 422)
  const status = answer.kind === 'refused' ? answer.status : 409
  if (isFork)
    log.error(
      { owner, witness: witness.url, status },
      'a witness has cosigned another tree of a ledger: see docs/proof.md',
    )
  else if (isNews(`${status} ${idOf(witness)}`))
    log.warn({ owner, witness: witness.url, status }, 'a witness does not take the heads of a ledger')
}
