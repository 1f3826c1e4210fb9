/**
 * Owns how many bytes of bodies are held at a time, over all calls. Contract: "Authorized call": whoever
 * sends a body need not be known yet, so that without a bound slow answers of an authority would let
 * strangers fill the memory in which everybody's calls are judged.
 */
import type { Call } from '../call.ts'

export interface BodyBudget {
  /** Holds a call's body; false where too much is held already. A body that is alone is always admitted. */
  take(call: Call): boolean
  /** To be called once for every call that `take` admitted. */
  release(call: Call): void
}

/** At most so many bytes at a time. */
export function createBodyBudget(bytesMax: number): BodyBudget {
  let held = 0
  return {
    take: call => {
      const bytes = bytesOf(call)
      if (held > 0 && bytes > 0 && held + bytes > bytesMax) return false
      held += bytes
      return true
    },
    release: call => void (held -= bytesOf(call)),
  }
}

function bytesOf({ body }: Call): number {
  return body.state === 'complete' ? body.bytes.length : 0
}
