/**
 * Owns how the tally of an account that several hold becomes a part of its route. Contract: "Tally for a
 * jointly held resource".
 */
import type { SidecarConfig, SidecarJoint } from '../config.ts'
import type { JwksCache } from '../http/outbound/jwks-cache.ts'
import type { Owner } from '../wire/identifiers.ts'
import { aliasIn, ENFORCEMENT_ALIAS } from '../wire/names.ts'
import type { AuthorityPools } from './authorities/authority-pools.ts'
import type { RouteJoint } from './joint/mandate-check.ts'
import { createMandateView } from './joint/mandate-view.ts'
import { createProofs } from './joint/proofs.ts'
import { createSpentGrants } from './joint/spent-grants.ts'
import { createTallyClient } from './joint/tally-client.ts'

/** Asks nobody until a call needs it. */
export function openJoint(
  { tally, pinned }: SidecarJoint,
  account: Owner,
  context: {
    config: Pick<SidecarConfig, 'aliases'>
    pools: AuthorityPools
    jwks: JwksCache
    clock: () => number
  },
): RouteJoint {
  const { config, pools, jwks, clock } = context
  const forward = (): number => performance.now()
  const read = createTallyClient({
    tally,
    account,
    aliases: config.aliases,
    outbound: pools.grants,
    clock: forward,
  })
  return {
    tally,
    account,
    pinned,
    mandates: createMandateView({ read, clock: forward }),
    proofs: createProofs({
      keys: jwks,
      clock,
      typAlias: aliasIn(config.aliases, ENFORCEMENT_ALIAS.verdictTyp),
    }),
    spent: createSpentGrants(),
  }
}
