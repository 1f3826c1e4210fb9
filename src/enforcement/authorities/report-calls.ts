/**
 * Owns `/audit/access` as the enforcement point calls it. Contract: "Protection API" (/audit/access), whose
 * body it does not show: every authority gets one report as one object, and what not every one reads, several
 * reports together and words about runs, goes only to one that counts what it records.
 */
import { z } from 'zod'
import type { Outbound } from '../../http/outbound/outbound.ts'
import { isJsonObject } from '../../wire/json.ts'
import type { Deadline } from '../deadline.ts'
import type { AccessEntry } from '../reports/outbox.ts'
import type { AskForJson } from './protected-calls.ts'

/**
 * How far a run of this enforcement point has come with its reports, and whether it lets no more calls
 * through.
 */
export interface RunWord {
  instance: string
  n: number
  ended: boolean
}

/** How many of the reports name no grant that the authority knows, so that they were not recorded. */
export interface ReportAnswer {
  unknown: number
}

export interface AuditDoor {
  /**
   * Whether the last answer said how many were recorded, as each did to several reports: only such an
   * authority gets several together, and words about runs. Undefined before the first answer.
   */
  countsReports(): boolean | undefined
  /**
   * POST /audit/access. `unread`: several were sent together, and the authority did not say how many it
   * recorded; none of them counts as delivered, and each is to be sent by itself.
   */
  reportAccess(entries: AccessEntry[], deadline: Deadline): Promise<ReportAnswer | 'unread'>
  /** POST /audit/access: how far a run has come. */
  reportRun(word: RunWord, deadline: Deadline): Promise<void>
}

/** Knows nothing of the authority before its first answer. */
export function createAuditDoor(askForJson: AskForJson, pool: Outbound): AuditDoor {
  let counts: boolean | undefined
  let readsSeveral = true
  const audit = async (body: Record<string, unknown>, deadline: Deadline): Promise<unknown> => {
    const call = { path: '/audit/access', body, pool, deadline, repeatable: true }
    const answer = await askForJson(call, 200)
    const isCounted = isJsonObject(answer) && typeof answer['recorded'] === 'number'
    if ('entries' in body && !isCounted) readsSeveral = false
    counts = isCounted && readsSeveral
    return answer
  }
  return {
    countsReports: () => counts,
    reportAccess: async (entries, deadline) => {
      const [alone, ...others] = entries
      if (alone !== undefined && others.length === 0)
        return { unknown: unknownIn(await audit({ ...alone }, deadline)) }
      const answer = await audit({ entries }, deadline)
      // One that looks only for the members of a report answers 200 to this, too, and has recorded nothing.
      return counts === true ? { unknown: unknownIn(answer) } : 'unread'
    },
    reportRun: async (word, deadline) => {
      await audit({ ...word }, deadline)
    },
  }
}

const auditAnswer = z.object({ unknown: z.array(z.unknown()) })

/** An authority that says nothing of it took them all. */
function unknownIn(answer: unknown): number {
  const result = auditAnswer.safeParse(answer)
  return result.success ? result.data.unknown.length : 0
}
