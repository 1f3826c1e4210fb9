/**
 * Measures the bare check server with one verification of the agent's signature: the least that any
 * enforcement point here must do.
 */
import { checkLoad } from '../load/check-load.ts'
import type { Scenario } from '../world.ts'
import { standingCorpus } from './standing.ts'

export const verify: Scenario = {
  name: 'verify',
  title: 'no-op Check + one verification',
  processes: 1,
  reported: false,
  open: (world, share) => checkLoad([world.ports.verify], share, standingCorpus(world)),
}

/** What a call waits for if there is nothing to it but the verification: beside `standing_at_500`. */
export const verifyAt500: Scenario = {
  ...verify,
  name: 'verify_at_500',
  title: 'no-op Check + one verification, open loop, 500 a second',
  pace: { callsPerSecond: 500 },
  share: 0.5,
}
