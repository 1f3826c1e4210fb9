/**
 * Owns the calls that were made on an account which several hold, for the tally that lists them, a holder's
 * authorization server that reads and shows them, and her page. Contract: "Tally for a jointly held
 * resource"; docs/choices.md says why a holder may know.
 */
import { z } from 'zod'
import type { Family } from '../identifiers.ts'
import { refuse } from '../refusal.ts'

/** How many calls one page has at most. */
const ACCESSES_MAX = 1_000
const text = z.string().min(1).max(8_192)
const count = z.int().min(1)
/** Described as text, and to the compiler the name that it is. */
const family = text as z.ZodType<string> as z.ZodType<Family>

/** The newest first; `next` is the `before` of the following page, null on the last. */
export const JOINT_ACCESSES = z
  .object({
    accesses: z
      .array(
        z.object({
          /** Its place in the order in which they were reported. */
          n: count,
          /** When it was let through. */
          at: text,
          /** The resource server that reported it. */
          client_id: text,
          resource_id: text.nullable(),
          /** The agent, as every holder knows it by its key. */
          agent: text.nullable(),
          family,
          tool: text,
          summary: text.nullable(),
        }),
      )
      .max(ACCESSES_MAX),
    next: count.nullable(),
  })
  .meta({ id: 'JointAccesses' })

export type JointAccesses = z.output<typeof JOINT_ACCESSES>
/** A call that an enforcement point let through, and reported. */
export type JointAccess = JointAccesses['accesses'][number]

/** A received page; unknown members are dropped. Refuses (`invalid_request`) any other form. */
export function parseJointAccesses(value: unknown): JointAccesses {
  const read = JOINT_ACCESSES.safeParse(value)
  return read.success ? read.data : refuse('invalid_request', `Give calls: ${z.prettifyError(read.error)}`)
}
