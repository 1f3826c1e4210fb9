/**
 * Owns how many bytes of bodies are held at a time, over all calls. Contract: "Authorized call": the sender
 * of a body may be unknown. Without a limit, slow answers of an authority would let strangers fill the memory
 * in which everybody's calls are judged.
 */
import type { Call } from '../call.ts'

export interface BodyBudget {
  /** Holds a call's body; false if too much is held already. A single body is always admitted. */
  take(call: Call): boolean
  /** Call this once for every call that `take` admitted. */
  release(call: Call): void
}

/** A budget of at most so many bytes at a time. */
export function createBodyBudget(bytesMax: number): BodyBudget {
  let total = 0
  return {
    take: call => {
      const bytes = bytesOf(call)
      if (total > 0 && bytes > 0 && total + bytes > bytesMax) return false
      total += bytes
      return true
    },
    release: call => void (total -= bytesOf(call)),
  }
}

function bytesOf({ body }: Call): number {
  return body.state === 'complete' ? body.bytes.length : 0
}
