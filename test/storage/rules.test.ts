/**
 * Contract, "Connection": what SQL does about a connection and its lineage is what the rules say, move by
 * move.
 */
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import {
  approvedAtTier,
  CONNECTION_STATES,
  CONNECTION_TRIGGERS,
  introductionAnswer,
  nextConnectionState,
  type ConnectionState,
  type ConnectionTrigger,
} from '../../src/rules/connection.ts'
import {
  admitConnection,
  blockOperator,
  lockOperator,
  readConnection,
  recordApproval,
  revokeConnection,
  unblockOperator,
  type ConnectionRow,
} from '../../src/storage/authority/connections/connections.ts'
import { inTransaction } from '../../src/storage/core/database.ts'
import type { Tx } from '../../src/storage/authority/database.ts'
import { readIntroduction } from '../../src/storage/authority/negotiations/introductions.ts'
import { lockQueue } from '../../src/storage/authority/owners/owners.ts'
import { readStanding } from '../../src/storage/authority/negotiations/standing.ts'
import { insertTier } from '../../src/storage/authority/policies/tiers.ts'
import * as seed from '../support/seed.ts'
import { asHandle, type Handle, type Owner } from '../../src/wire/identifiers.ts'
import { coreStand } from '../support/stands.ts'

const OPERATOR = 'https://operator.example'
const PARENT = asHandle('parent@issuer')
const AGENT = asHandle('agent@issuer')

const database = coreStand({ poolMax: 4 })

const inTx = <T>(work: (tx: Tx) => Promise<T>) => inTransaction(database.db, work)
const admit = (
  owner: Owner,
  handle: Handle,
  { operator = null, introduced_by = null }: { operator?: string | null; introduced_by?: Handle | null } = {},
) =>
  inTx(async tx => {
    await lockQueue(tx, owner)
    if (operator !== null) await lockOperator(tx, owner, operator)
    return admitConnection(tx, {
      owner,
      handle,
      identity: 'identified',
      label: null,
      operator,
      introduced_by,
    })
  })
const approve = (owner: Owner, handle: Handle, tier_id: string, generation: number) =>
  inTx(tx => recordApproval(tx, { owner, handle, tier_id, generation }))
const stateOf = async (owner: Owner): Promise<ConnectionState> =>
  (await readConnection(database.db, owner, AGENT))?.status ?? 'none'

describe('The state of a connection', () => {
  /** What the owner, her operators and other agents do to it. */
  const FIRE: Record<ConnectionTrigger, (owner: Owner) => Promise<unknown>> = {
    admitted: owner => admit(owner, AGENT),
    introduced: async owner => {
      const of = { introducer: PARENT, newcomer: AGENT, newcomerJkt: 'none', operator: OPERATOR }
      const { newcomer, introducer, wasIntroduced, approvedInPerson, liveIntroduced } =
        await readIntroduction(database.db, owner, of)
      const answer = introductionAnswer({
        namedBy: 'introduction',
        newcomer,
        introducer,
        introducerWasIntroduced: wasIntroduced,
        introducerApprovedInPerson: approvedInPerson,
        oneOperatorPublishedBoth: true,
        liveIntroduced,
      })
      if (answer.ok) await admit(owner, AGENT, { introduced_by: PARENT })
    },
    owner_revokes: owner => inTx(tx => revokeConnection(tx, owner, AGENT, seed.ACTOR)),
    operator_blocked: owner => inTx(tx => blockOperator(tx, owner, OPERATOR, seed.ACTOR)),
    operator_unblocked: async owner => {
      // A block ends what is active, which is another move.
      if ((await stateOf(owner)) !== 'active')
        await inTx(tx => blockOperator(tx, owner, OPERATOR, seed.ACTOR))
      await inTx(tx => unblockOperator(tx, owner, OPERATOR))
    },
    introducer_ended: owner => inTx(tx => revokeConnection(tx, owner, PARENT, seed.ACTOR)),
  }

  async function bringInto(state: ConnectionState): Promise<Owner> {
    const owner = await seed.seedOwner(database.db)
    await approve(owner, PARENT, seed.TIER, await admit(owner, PARENT))
    if (state !== 'none') await admit(owner, AGENT, { operator: OPERATOR, introduced_by: PARENT })
    if (state === 'revoked') await inTx(tx => revokeConnection(tx, owner, AGENT, seed.ACTOR))
    expect(await stateOf(owner)).toBe(state)
    return owner
  }

  const moves = CONNECTION_STATES.flatMap(from => CONNECTION_TRIGGERS.map(trigger => ({ from, trigger })))
  it.each(moves)('$from, $trigger, is stored as the rule has it', async ({ from, trigger }) => {
    const owner = await bringInto(from)
    await FIRE[trigger](owner)
    expect(await stateOf(owner)).toBe(nextConnectionState(from, trigger) ?? from)
  })
})

describe("The owner's approval of a lineage", () => {
  const OTHER_TIER = 'other'
  /** What happened to one agent, in order. */
  const life = fc.array(fc.constantFrom('approved', 'approved elsewhere', 'revoked', 'admitted'), {
    maxLength: 4,
  })
  const handles = ['parent', 'asking', 'sibling', 'child', 'stranger'].map(asHandle)
  const introducerOf: Record<string, Handle> = {
    asking: asHandle('parent'),
    sibling: asHandle('parent'),
    child: asHandle('asking'),
  }

  it('is read by SQL as the rule has it, whoever of it was approved, revoked and admitted again', async () => {
    const lives = fc.tuple(life, life, life, life, life)
    const seen = { approved: 0, not: 0 }
    await fc.assert(
      fc.asyncProperty(lives, async events => {
        const { owner, approvals } = await live(events)
        const rows = await Promise.all(handles.map(handle => readConnection(database.db, owner, handle)))
        const asking = rows[1]!
        const isKin = (row: ConnectionRow): boolean =>
          row === asking ||
          row.handle === asking.introduced_by ||
          row.introduced_by === asking.handle ||
          (row.introduced_by !== null && row.introduced_by === asking.introduced_by)
        const lineage = rows
          .filter(row => row !== undefined)
          .filter(isKin)
          .map(row => ({
            state: row.status,
            generation: row.generation,
            approvals: approvals.filter(({ handle }) => handle === row.handle),
          }))
        const expected = approvedAtTier(lineage, seed.TIER)
        seen[expected ? 'approved' : 'not']++
        const of = { handle: asHandle('asking'), tier_id: seed.TIER, windowSeconds: 60, countTo: undefined }
        expect((await readStanding(database.db, owner, of)).approvedAtTier).toBe(expected)
      }),
      { numRuns: 60, examples: [[[[], [], ['approved', 'revoked', 'admitted'], [], []]]] },
    )
    expect(Math.min(seen.approved, seen.not)).toBeGreaterThan(3)
  })

  async function live(events: readonly string[][]) {
    const owner = await seed.seedOwner(database.db)
    await inTx(tx => insertTier(tx, { ...seed.tierOf(owner, false), tier_id: OTHER_TIER, resources: [] }))
    const approvals: { handle: Handle; tier_id: string; generation: number }[] = []
    for (const [at, handle] of handles.entries()) {
      const introduced_by = introducerOf[handle] ?? null
      let generation = await admit(owner, handle, { introduced_by })
      for (const event of events[at]!) {
        if (event === 'admitted') generation = await admit(owner, handle, { introduced_by })
        else if (event === 'revoked') await inTx(tx => revokeConnection(tx, owner, handle, seed.ACTOR))
        else {
          const tier_id = event === 'approved' ? seed.TIER : OTHER_TIER
          await approve(owner, handle, tier_id, generation)
          approvals.push({ handle, tier_id, generation })
        }
      }
    }
    return { owner, approvals }
  }
})
