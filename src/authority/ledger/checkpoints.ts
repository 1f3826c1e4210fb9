/**
 * Signs the heads of owners' trees, after the numbering has committed and away from every call.
 * docs/choices.md, "Checkpoints of the ledger". Contract: "Events" (row 5).
 */
import type { FastifyBaseLogger } from 'fastify'
import { BoundedMap } from '../../limits/bounded-map.ts'
import { planRoot, proverOf, type TreeHead } from '../../rules/ledger/merkle.ts'
import {
  keepCheckpoint,
  readSignableTree,
  SIGNING_INTERVAL_SECONDS,
} from '../../storage/authority/ledger/ledger-checkpoints.ts'
import { mendGaps } from '../../storage/authority/ledger/ledger-gaps.ts'
import { readTiles } from '../../storage/authority/ledger/ledger-tiles.ts'
import { isOutage } from '../../storage/core/database.ts'
import type { Db } from '../../storage/authority/database.ts'
import type { Owner } from '../../wire/identifiers.ts'
import { originBase, signCheckpoint } from '../../wire/ledger/checkpoint.ts'
import type { PrivateKey } from '../../wire/signatures/keys.ts'
import { startHourHeads, type HourHeads } from './hour-heads.ts'

/** What came of an attempt to sign a tree. */
export type Signing =
  | 'signed'
  /** Its head is signed already, or has no entry yet. */
  | 'unchanged'
  /** It was signed less than a second ago, perhaps by another replica. */
  | 'resting'
  /**
   * Before its first checkpoint: older entries wait for their leaves. Before its first one after a restore:
   * the entry that says so has no position yet.
   */
  | 'incomplete'
  /** Before its first checkpoint: leaves were missing, and it was made anew. */
  | 'mended'
  /** Its tiles do not have the root that it says, or that was signed last: it is not signed. */
  | 'contradicted'
  /** A witness has cosigned more entries than the tree has: it is not signed until after-restore. */
  | 'lost'
  | 'failed'

export interface SigningLog {
  issuer: string
  /** The key that signs. */
  key: PrivateKey
}

/**
 * Signs the head of her tree as it is stored now, if something new is in it. What was signed at this origin
 * before is found again in the tiles first: a tree that has another root at that size is not signed.
 */
export async function signTree(db: Db, owner: Owner, { issuer, key }: SigningLog): Promise<Signing> {
  const tree = await readSignableTree(db, owner, originBase(issuer))
  if (tree === undefined) return 'unchanged'
  const { origin, origin_at, ledger, tree_size: size, tree_root: root, signed_size, signed_root } = tree
  if (tree.is_lost) return 'lost'
  const isFirst = signed_size === null || signed_root === null
  const before = isFirst ? undefined : { size: signed_size, root: signed_root }
  if (size === null || size === 0 || root === null) {
    if (before !== undefined) return 'contradicted'
    return ledger === 0 ? 'unchanged' : 'incomplete'
  }
  if (before !== undefined && size === before.size && root.equals(signed_root!)) return 'unchanged'
  if (before !== undefined && size <= before.size) return 'contradicted'
  if (tree.rests) return 'resting'
  if (before === undefined && (size < ledger || tree.lacks_restored)) return 'incomplete'
  if (!tree.was_signed && (await mendGaps(db, owner))) return 'mended'
  if (!(await isStored(db, owner, [{ size, root }, ...(before === undefined ? [] : [before])])))
    return 'contradicted'
  const note = signCheckpoint({ origin, size, root }, key)
  const signed = { origin, size, root, kid: key.kid, note }
  const isNewest = await keepCheckpoint(db, owner, signed, { before, origin_at })
  return isNewest ? 'signed' : 'resting'
}

/** Whether her tiles make each of these roots at its size. */
async function isStored(db: Db, owner: Owner, heads: readonly TreeHead[]): Promise<boolean> {
  const plans = heads.map(({ size }) => planRoot(size))
  const read = await readTiles(
    db,
    owner,
    plans.flatMap(({ tiles }) => tiles),
  )
  const prove = proverOf(read)
  return plans.every((plan, n) => prove(plan)[0]!.equals(heads[n]!.root))
}

/** Signs for all owners of one database. */
export interface Checkpoints extends Pick<HourHeads, 'headOfHour'> {
  /** What every origin begins with. */
  readonly base: string
  /** Soon signs the head of her tree, if something new is in it. Waits for nothing. */
  due(owner: Owner): void
  /** Signs it now, if it may, through this database of the same owners. Never fails. */
  sign(db: Db, owner: Owner): Promise<Signing>
  /** Calls `tell` with what came of each attempt from now on. */
  listen(tell: (outcome: Signing) => void): void
  /** Waits for running work. */
  stop(): Promise<void>
}

/** Owners who are due are looked at after this. */
const DUE_DELAY_MS = 100
/** So long an owner rests whose tree contradicts what was signed, by `performance.now()`. */
const CONTRADICTION_PAUSE_MS = 60_000
const REMEMBERED_MAX = 10_000
/** How many owners are signed for at once. */
const AT_ONCE = 4

const OWNER_PAUSE_MS: Partial<Record<Signing, number>> = {
  signed: SIGNING_INTERVAL_SECONDS * 1_000,
  resting: SIGNING_INTERVAL_SECONDS * 1_000,
  mended: SIGNING_INTERVAL_SECONDS * 1_000,
  contradicted: CONTRADICTION_PAUSE_MS,
  lost: CONTRADICTION_PAUSE_MS,
}

export interface CheckpointsOptions extends SigningLog {
  log: FastifyBaseLogger
  /** Milliseconds since the epoch, by the clock of the database. */
  clock: () => number
  /** Called when a head was signed. Waits for nothing. */
  onSigned?: ((owner: Owner) => void) | undefined
}

/** Begins to sign what becomes due. `db` is of nobody: many owners are due together. */
export function startCheckpoints(db: Db, { log, clock, onSigned, ...of }: CheckpointsOptions): Checkpoints {
  const hourHeads = startHourHeads(db, {
    base: originBase(of.issuer),
    clock,
    onFault: error =>
      log[isOutage(error) ? 'warn' : 'error']({ err: error }, 'the head of a ledger was not read'),
  })
  const listeners: ((outcome: Signing) => void)[] = []
  const restsUntil = new BoundedMap<Owner, number>(REMEMBERED_MAX)
  const waiting = new Set<Owner>()
  let running = Promise.resolve()
  let timer: NodeJS.Timeout | undefined
  let stopped = false

  const sign = async (through: Db, owner: Owner): Promise<Signing> => {
    const outcome = await signTree(through, owner, of).catch((error: unknown): Signing => {
      log[isOutage(error) ? 'warn' : 'error']({ err: error }, 'a tree was not signed')
      return 'failed'
    })
    if (outcome === 'contradicted')
      log.error({ owner }, 'a tree is not what was signed of it, and is not signed: see docs/operating.md')
    if (outcome === 'lost')
      log.error({ owner }, 'a witness has seen more of a ledger than there is: see docs/restore.md')
    if (outcome === 'signed') onSigned?.(owner)
    const rests = OWNER_PAUSE_MS[outcome]
    if (rests !== undefined) restsUntil.set(owner, performance.now() + rests)
    for (const tell of listeners) tell(outcome)
    return outcome
  }
  const later = (): void => {
    if (stopped || timer !== undefined) return
    timer = setTimeout(() => {
      running = run()
    }, DUE_DELAY_MS).unref()
  }
  const ready = (): Owner[] => {
    if (stopped) return []
    const now = performance.now()
    return [...waiting].filter(owner => now >= (restsUntil.get(owner) ?? 0)).slice(0, AT_ONCE)
  }
  const run = async (): Promise<void> => {
    for (let owners = ready(); owners.length > 0; owners = ready()) {
      for (const owner of owners) waiting.delete(owner)
      const outcomes = await Promise.all(owners.map(owner => sign(db, owner)))
      // Something newer may be left for the next second.
      for (const [n, outcome] of outcomes.entries())
        if (outcome === 'resting' || outcome === 'mended') waiting.add(owners[n]!)
    }
    timer = undefined
    if (waiting.size > 0) later()
  }
  return {
    base: originBase(of.issuer),
    headOfHour: owner => hourHeads.headOfHour(owner),
    due: owner => {
      waiting.add(owner)
      later()
    },
    sign,
    listen: tell => void listeners.push(tell),
    async stop() {
      stopped = true
      clearTimeout(timer)
      await Promise.all([running, hourHeads.stop()])
    },
  }
}
