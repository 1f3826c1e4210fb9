/**
 * Owns `judged`, by which an authority says what it knew when it judged a grant: how many acts had ended
 * something of the owner's, and its database's time. A call's record is held against a signed revocation by
 * it. Extension: docs/choices.md, "What judged a call". Contract: "Introspection and consume answers".
 */
import { z } from 'zod'

/** The member `judged` of an active introspection answer, of a consume that won, and of a call's record. */
export interface OwnerEnds {
  /** How many acts had ended something of the owner's. */
  ends: number
  /** The database's time when the statement that judged began, in milliseconds since the epoch. */
  at: number
}

export const OWNER_ENDS = z.object({ ends: z.int().min(0), at: z.int().min(0) })

/** Undefined if there is none, or none that can be read: then nothing is held against it. */
export function readOwnerEnds(value: unknown): OwnerEnds | undefined {
  return OWNER_ENDS.safeParse(value).data
}
