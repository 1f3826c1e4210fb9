/**
 * Owns the memory of which emergencies were used here. Contract: "What the service does" (nothing above the
 * owner can widen) and "The organization's authority" (`/break-glass`); docs/choices.md: one yes of her
 * authority lets one call through, whatever the organization answers to a consume.
 */
import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { s256Json } from '../../wire/encoding.ts'
import { refuse } from '../../wire/refusal.ts'
import { openMarks, takeInTime, type Mark, type Marks } from '../approval/use-marks.ts'
import type { Deadline } from '../deadline.ts'

/** The authority's yes to a grant: to which one, and until when (seconds since the epoch). */
export interface AcceptedEmergency {
  authority: string
  owner: string
  jti: string | undefined
  exp: number
}

const FOLDER = 'emergencies'
/** So many may be in time at once; who accepts more is asked again later. */
const REMEMBERED_MAX = 100_000

/**
 * In a folder of the directory that outlives this process, so that replicas which share it share the memory;
 * without one, in this process. Throws if the folder cannot be made.
 */
export function openUsedEmergencies(
  stateDirectory: string | undefined,
  { clock }: { clock: () => number },
): Marks {
  if (stateDirectory === undefined) return remembered(clock)
  const folder = join(stateDirectory, FOLDER)
  mkdirSync(folder, { recursive: true, mode: 0o700 })
  return openMarks(folder, { clock })
}

/**
 * Takes the one use of an emergency, before its grant is consumed. Refuses 403 `already_consumed` if it was
 * used; throws an outage if that cannot be written down.
 */
export async function takeEmergency(
  used: Marks,
  { authority, owner, jti, exp }: AcceptedEmergency,
  deadline: Deadline,
): Promise<Mark> {
  const digest = s256Json(['break_glass', authority, owner, jti ?? null])
  const mark = await takeInTime(used, { digest, exp, what: 'That the emergency is used' }, deadline)
  return (
    mark ?? refuse('already_consumed', 'Ask for another emergency: the owner accepted this one for one call.')
  )
}

/** Only ended entries are forgotten: a new one must not push out one that is still valid. */
function remembered(clock: () => number): Marks {
  const until = new Map<string, number>()
  const forget = (): void => {
    const now = clock() / 1000
    for (const [digest, exp] of until) if (exp <= now) until.delete(digest)
  }
  return {
    take: async (digest, exp) => {
      if (until.has(digest)) return undefined
      if (until.size >= REMEMBERED_MAX) forget()
      if (until.size >= REMEMBERED_MAX) throw new Error('too many emergencies are in time')
      until.set(digest, exp)
      return { release: async () => void until.delete(digest) }
    },
  }
}
