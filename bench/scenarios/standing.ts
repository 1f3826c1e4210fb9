/**
 * Measures an authorized call under a standing grant: through the sidecar, which verifies it and asks the
 * authority, which reads Postgres. In a closed loop for the ceiling, over two sidecars for what a second one
 * adds, and in open loops for latencies and memory.
 */
import { importPrivateJwk } from '../../src/wire/signatures/keys.ts'
import { checkLoad, type Corpus } from '../load/check-load.ts'
import { checkOf } from '../load/corpus.ts'
import type { Scenario, World } from '../world.ts'

/**
 * Different calls of all known agents; sent again and again within their minute, which nothing on the path
 * can tell from new ones.
 */
const CHECKS = 2_048

/** Calls of the reading tool under the agents' standing grants. */
export function standingCorpus(world: World): Corpus {
  const agents = world.agents.map(({ jwk, rpt }) => ({ key: importPrivateJwk(jwk), rpt }))
  return {
    spent: false,
    make: async () =>
      Array.from({ length: CHECKS }, (_, n) =>
        checkOf(world, {
          ...agents[n % agents.length]!,
          call: { tool: 'portfolio_read', arguments: { account: `account-${n}`, currency: 'EUR' } },
        }),
      ),
  }
}

export const standing: Scenario = {
  name: 'standing',
  title: 'authorized standing call',
  processes: 1,
  reported: true,
  open: (world, share) => checkLoad([world.ports.sidecar], share, standingCorpus(world)),
}

export const standingTwoSidecars: Scenario = {
  ...standing,
  name: 'standing_two_sidecars',
  title: 'the same over two sidecars',
  share: 0.5,
  open: (world, share) =>
    checkLoad([world.ports.sidecar, world.ports.otherSidecar], share, standingCorpus(world)),
}

export const standingKept: Scenario = {
  ...standing,
  name: 'standing_kept',
  title: 'the same, each report written to a state_dir first',
  share: 0.5,
  open: (world, share) => checkLoad([world.ports.keepingSidecar], share, standingCorpus(world)),
}

export const standingLeased: Scenario = {
  ...standing,
  name: 'standing_leased',
  title: 'the same, answers used again under a lease',
  share: 0.5,
  open: (world, share) => checkLoad([world.ports.leasingSidecar], share, standingCorpus(world)),
}

export const standingAt500: Scenario = {
  ...standing,
  name: 'standing_at_500',
  title: 'authorized standing call, open loop, 500 a second',
  pace: { callsPerSecond: 500 },
  share: 0.5,
}

export const standingAtHalf: Scenario = {
  ...standing,
  name: 'standing_at_half',
  title: 'authorized standing call, open loop, half of the ceiling',
  pace: { halfOf: 'standing' },
  share: 0.5,
}

export const standingAt1000: Scenario = {
  ...standing,
  name: 'standing_at_1000',
  title: 'authorized standing call, open loop, 1,000 a second',
  pace: { callsPerSecond: 1_000 },
  share: 0.5,
}
