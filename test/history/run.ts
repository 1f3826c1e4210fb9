/**
 * Owns a whole history: processes are started, clients act at random during faults, and what they saw is
 * judged in between and at the end. A long one is made of parts, each with agents of its own and judged to
 * its end, so that a million operations need no more memory than a part does. The end of a part takes up to
 * 15 s, after which a sidecar sends what one that was killed had left: so parts are not small either.
 */
import { startProcesses, type Processes, type Versions } from './processes.ts'
import { chance } from './chance.ts'
import { ledgerWatch, type LedgerWatch } from './ledger-watch.ts'
import { runPart } from './part.ts'
import type { Op, Violation } from './record.ts'

export interface RunOptions {
  seed: number
  /** Operations of clients until the end begins. */
  ops: number
  /** No more operations are begun after so long. */
  secondsMax?: number
  clients?: number
  /** Most standing grants that one client calls with at the same time; one when left out. */
  callsAtOnce?: number
  /** Most operations of a part: the cost of a judgement grows with it, and so does the memory. */
  partOps?: number
  /** Something is done to a process after so many operations. */
  faultEvery?: number
  /** Sidecars are spared once so much of a part is done: what they left is sent 15 s later. */
  spareSidecarsFrom?: number
  onProgress?: (says: string) => void
  /** Of the authorities; this one when left out. */
  versions?: Versions
  /**
   * How many of the sidecars use answers again under a lease: one when left out, and none beside an older
   * version, which ends grants without waiting for anybody.
   */
  leased?: number
  /**
   * How far the clock of the database is moved each time it is started again, and moved back the next time:
   * as if another server had taken over, whose clock differs.
   */
  clocksApartMs?: number
}

export interface Ran {
  violations: Violation[]
  /** Of the last part. */
  history: Op[]
  tally: Record<string, number>
  /** Operations that reached a process. */
  count: number
  parts: number
  seconds: number
}

const OWNERS = ['alice', 'bea']
/** Owners with an allowance. No older version knows any. */
const BOUNDED = ['cleo', 'dora']
/** Each part makes an allowance of its own, and an owner may have a hundred: parts beyond have none. */
const ALLOWANCES_MAX = 100
/** Makes of a seed that of the chance of those who have to do with allowances. */
const OTHER_SEED = 0x5bd1e995
const PART_OPS = 10_000
const MIB = 1_048_576

/** Makes a history and judges it. */
export async function runHistory(options: RunOptions): Promise<Ran> {
  const began = performance.now()
  const bounded = options.versions === undefined ? BOUNDED : []
  const processes = await startProcesses([...OWNERS, ...bounded], { ...options, bounded })
  try {
    return await runParts(options, { processes, ledgers: ledgerWatch(), began })
  } finally {
    await processes.close()
  }
}

async function runParts(
  options: RunOptions,
  setting: { processes: Processes; ledgers: LedgerWatch; began: number },
): Promise<Ran> {
  const { seed, ops, secondsMax = Infinity, partOps = PART_OPS, onProgress = () => {} } = options
  const { processes, ledgers, began } = setting
  const seconds = (): number => Math.round((performance.now() - began) / 1_000)
  const ran: Ran = { violations: [], history: [], tally: {}, count: 0, parts: 0, seconds: 0 }
  const [random, boundedChance] = [chance(seed), chance(seed ^ OTHER_SEED)]
  while (ran.count < ops && seconds() < secondsMax && ran.violations.length === 0) {
    const before = ran.count
    const part = await runPart({
      processes,
      ledgers,
      chance: random,
      boundedChance,
      allowance:
        options.versions === undefined && ran.parts < ALLOWANCES_MAX ? `part-${ran.parts + 1}` : undefined,
      ops: Math.min(partOps, ops - before),
      clients: options.clients ?? 10,
      callsAtOnce: options.callsAtOnce ?? 1,
      faultEvery: options.faultEvery ?? 250,
      spareSidecarsFrom: options.spareSidecarsFrom ?? 1,
      // Where both use answers again: what passed before then passes once more, or must not.
      probes: options.leased === 2,
      clocksApartMs: options.clocksApartMs ?? 0,
      isLate: () => seconds() >= secondsMax,
      onProgress: count => onProgress(progressOf(before + count, { ops, seconds: seconds() })),
    })
    ran.parts++
    ran.count += part.count
    ran.violations = part.violations
    ran.history = part.history
    for (const [name, times] of Object.entries(part.tally)) ran.tally[name] = (ran.tally[name] ?? 0) + times
  }
  if (ran.violations.length === 0) ran.violations = await ledgers.readWhole(processes)
  ran.seconds = seconds()
  return ran
}

/** How far it is, how quick, when it will be done at that rate, and how much memory the clients take. */
function progressOf(count: number, { ops, seconds }: { ops: number; seconds: number }): string {
  const rate = count / Math.max(seconds, 1)
  const minutes = Math.ceil(Math.max(ops - count, 0) / rate / 60)
  const mib = Math.round(process.memoryUsage.rss() / MIB)
  return `${count} of ${ops} operations in ${seconds} s: ${rate.toFixed(0)} a second, ${minutes} min to go, ${mib} MiB`
}
