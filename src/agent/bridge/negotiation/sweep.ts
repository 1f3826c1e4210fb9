/**
 * Owns requests that an earlier process left, or that an outage ended here, and that nobody came back for:
 * after their time, an answer is dropped and a waiting request is declined. Contract: "Permission ticket"
 * (awaiting-owner): a request that nobody needs any more does not stay with the owner.
 */
import { AgentError } from '../../agent-error.ts'
import type { Directory } from '../../negotiation/metadata.ts'
import { withdrawRequest } from '../../negotiation/negotiate.ts'
import type { Profile } from '../../profile.ts'
import { isOver, type FamilyRecord } from './family.ts'
import type { BridgeState, ResourceOwner } from './state.ts'
import { TIMER_SECONDS_MAX } from '../bounds.ts'

export interface SweepParts {
  state: BridgeState
  directory: Directory
  lingerSeconds: number
  now: () => number
  profileOf(owner: ResourceOwner): Promise<Profile>
}

export interface Sweeper {
  /** Checks everything that is kept, and again when its time is over. */
  begin(): Promise<void>
  /** Nobody here leads the request of that id any more, and its owner may still be asked: checks it, too. */
  left(id: string): void
  /**
   * A call of the tool was answered without the request of that id, so nobody needs what an earlier process
   * waited for by it. A request that cannot be taken back now is tried again by the next call. Never rejects.
   */
  answered(id: string): Promise<void>
  /**
   * Resolves once no check of that id is under way here. A check holds the request for a moment, and a caller
   * would take that for another window of its client. Never rejects.
   */
  idle(id: string): Promise<void>
  close(): void
}

/** When to check again a request that another process leads, or that could not be declined. */
const AGAIN_SECONDS_MIN = 60

/** `isLed`: this process leads it, and sees to it. */
export function createSweeper(parts: SweepParts, isLed: (id: string) => boolean): Sweeper {
  const timers = new Map<string, NodeJS.Timeout>()
  const checks = new Map<string, Promise<unknown>>()
  let closed = false
  const check = async (id: string, lingerSeconds = parts.lingerSeconds): Promise<number | undefined> => {
    const result = lookAt({ ...parts, lingerSeconds }, id, isLed)
    const ending = Promise.allSettled([checks.get(id), result])
    checks.set(id, ending)
    try {
      return await result
    } finally {
      void ending.then(() => checks.get(id) === ending && checks.delete(id))
    }
  }
  const look = async (id: string): Promise<void> => {
    const seconds = await check(id).catch(() => AGAIN_SECONDS_MIN)
    timers.delete(id)
    if (seconds === undefined || closed) return
    timers.set(id, setTimeout(() => void look(id), seconds * 1000).unref())
  }
  return {
    begin: async () => {
      for (const { id } of await parts.state.families<FamilyRecord>()) await look(id)
    },
    left: id => {
      if (closed || timers.has(id)) return
      // By a timer, so that whoever was told of an outage may come back first.
      timers.set(id, setTimeout(() => void look(id), 0).unref())
    },
    answered: async id => {
      try {
        const record = await parts.state.family<FamilyRecord>(id)
        if (record?.phase.name !== 'waiting') return
        await check(id, 0)
      } catch {
        // The client gets the answer anyway, and the record is there for the next call.
      }
    },
    idle: async id => {
      await checks.get(id)
    },
    close: () => {
      closed = true
      for (const timer of timers.values()) clearTimeout(timer)
    },
  }
}

/** @returns after how many seconds to check again; undefined if there is nothing left to do. */
async function lookAt(
  parts: SweepParts,
  id: string,
  isLed: (id: string) => boolean,
): Promise<number | undefined> {
  const { state, now, lingerSeconds } = parts
  if (isLed(id)) return undefined
  const hold = await state.hold(id, 'abandoned')
  // The process that holds it takes care of it, unless that one dies too.
  if (hold === undefined) return Math.max(lingerSeconds, AGAIN_SECONDS_MIN)
  try {
    const record = await state.family<FamilyRecord>(id)
    if (record === undefined || isLed(id)) return undefined
    const until = Math.max(0, ...(record.tasks ?? []).map(task => task.until))
    if (until > now()) return Math.min(until - now(), TIMER_SECONDS_MAX)
    // Somebody waited for it when its process ended, so their time to come back begins now.
    const left = record.left ?? now()
    if (record.left === undefined) await state.keepFamily(id, { ...record, left })
    // A clock that was set back must not make anybody wait longer.
    const seconds = Math.min(left + lingerSeconds - now(), lingerSeconds)
    if (seconds > 0) return seconds
    await end(parts, record)
    return undefined
  } finally {
    await hold.release()
  }
}

/** Callers must learn that a call may have run, however late they ask. */
async function end(parts: SweepParts, record: FamilyRecord): Promise<void> {
  const { id, phase, owner, resource, call } = record
  if (phase.name === 'sending') return
  if (phase.name === 'waiting' && owner !== undefined) {
    const request = { resource, call, waiting: phase.request }
    await withdrawRequest(await parts.profileOf(owner), parts.directory, request).catch((error: unknown) => {
      // An authority that cannot be asked is tried again; a request that is over stays over.
      if (!(error instanceof AgentError) || !isOver(error)) throw error
    })
  }
  await parts.state.dropFamily(id)
}
