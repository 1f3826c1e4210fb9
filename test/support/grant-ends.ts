/** Owns a table of what ends a grant that `seed` made. */
import type { Tx } from '../../src/storage/authority/database.ts'
import { decideResourceServer } from '../../src/storage/authority/registry/registrations.ts'
import { deleteTier, takeOut, updateTier } from '../../src/storage/authority/policies/tiers.ts'
import { blockOperator, revokeConnection } from '../../src/storage/authority/connections/connections.ts'
import { suspendOwner } from '../../src/storage/authority/owners/owner-lives.ts'
import { lockQueue } from '../../src/storage/authority/owners/owners.ts'
import { beginRemoval } from '../../src/storage/authority/owners/removals.ts'
import { asHandle, type Owner } from '../../src/wire/identifiers.ts'
import * as seed from './seed.ts'

/** The agent of each owner whose grant these end, and the operator that stands beside it. */
export const AGENT = asHandle('jkt:agent')
export const OPERATOR = 'https://operator.example'

export const GRANT_ENDS: [what: string, end: (tx: Tx, owner: Owner) => Promise<unknown>][] = [
  ['the tier is deleted', (tx, owner) => deleteTier(tx, owner, seed.TIER, undefined)],
  [
    'the resource is taken out of the tier',
    (tx, owner) => updateTier(tx, { ...seed.tierOf(owner, true), resources: [] }, undefined),
  ],
  [
    'the resource changes hands',
    async (tx, owner) => {
      await lockQueue(tx, owner)
      await takeOut(tx, owner, { resource_ids: [seed.resourceId(owner)] })
    },
  ],
  [
    'the resource server is withdrawn',
    async (tx, owner) => {
      await lockQueue(tx, owner)
      await decideResourceServer(tx, owner, seed.CLIENT_ID, 'revoked')
    },
  ],
  ['its owner is suspended', (tx, owner) => suspendOwner(tx, owner)],
  ['its owner is removed', (tx, owner) => beginRemoval(tx, owner, { kind: 'authority' })],
  ['its agent is revoked', (tx, owner) => revokeConnection(tx, owner, AGENT, seed.ACTOR)],
  ['its operator is blocked', (tx, owner) => blockOperator(tx, owner, OPERATOR, seed.ACTOR)],
]
