/**
 * Measures a bare check server on grpc-js that decodes the request and answers a constant OK: what no check
 * server on grpc-js can beat here, and what the load generator can drive.
 */
import { checkLoad } from '../load/check-load.ts'
import type { Scenario } from '../world.ts'
import { standingCorpus } from './standing.ts'

export const noop: Scenario = {
  name: 'noop',
  title: 'no-op Check (bare grpc-js)',
  processes: 1,
  reported: false,
  share: 0.3,
  open: (world, share) => checkLoad([world.ports.noop], share, standingCorpus(world)),
}
