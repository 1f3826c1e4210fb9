/**
 * Measures an authorized call under a standing grant: through the sidecar, which verifies it and asks the authority, which reads Postgres.
 */
import { importPrivateJwk } from '../../src/wire/keys.ts'
import { checkLoad, type Corpus } from '../load/check-load.ts'
import { checkOf } from '../load/corpus.ts'
import type { Scenario, World } from '../world.ts'

/** Different calls of all known agents; sent again and again within their minute, which nothing on the path can tell from new ones. */
const CHECKS = 4_096

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
  open: (world, share) => checkLoad(world.ports.sidecar, share, standingCorpus(world)),
}
