/**
 * Contract, "Permission ticket" (States and transitions): whatever the storage does to a negotiation, it
 * moves it as the rule has it, and leaves it where the rule has no move.
 */
import { describe, expect, it } from 'vitest'
import { nextTicketState, type TicketTrigger } from '../../src/rules/ticket.ts'
import { recordGrant } from '../../src/storage/authority/grants/issue.ts'
import { lockQueue } from '../../src/storage/authority/owners/owners.ts'
import { collectFamily, withdrawItemsUnder } from '../../src/storage/authority/negotiations/pending.ts'
import {
  continueFamily,
  endFamily,
  holdFamily,
  presentTicket,
  readFamily,
} from '../../src/storage/authority/negotiations/tickets.ts'
import type { Tx } from '../../src/storage/authority/database.ts'
import { inTransaction } from '../../src/storage/core/database.ts'
import type { Family, Handle, Owner } from '../../src/wire/identifiers.ts'
import * as seed from '../support/seed.ts'
import { coreStand } from '../support/stands.ts'

const database = coreStand({ poolMax: 4 })

/** As they are stored: one that is `issued` has no row yet, and one that is `expired` is past its time. */
const STORED = ['need_info', 'awaiting_owner', 'granted', 'denied', 'ended'] as const
type Stored = (typeof STORED)[number]

interface Negotiation {
  owner: Owner
  family: Family
  handle: Handle
  generation: number
  ticket: Buffer
}
type Act = (tx: Tx, negotiation: Negotiation) => Promise<unknown>

/** What is done, what it is in the rule, and where it leads. */
const ACTS: [what: string, TicketTrigger[], Stored, Act][] = [
  [
    'offering terms again',
    ['presented'],
    'need_info',
    (tx, { owner, family }) =>
      continueFamily(tx, { owner, family, ticketHash: seed.bytes(), ticketSeconds: 60 }),
  ],
  [
    'holding it for the owner',
    ['held'],
    'awaiting_owner',
    (tx, { owner, family, handle }) =>
      holdFamily(tx, {
        owner,
        family,
        kind: 'connection',
        handle,
        operator: null,
        attested: false,
        paramsKey: family,
        held: seed.basisOf(owner, family, handle),
        item: seed.waitingItem(owner),
        ticketHash: seed.bytes(),
        awaitingSeconds: 60,
      }),
  ],
  [
    'a poll',
    ['polled'],
    'awaiting_owner',
    (tx, { owner, ticket: hash }) =>
      presentTicket(tx, { owner, hash, nextHash: seed.bytes(), awaitingSeconds: 60, pollSeconds: 5 }),
  ],
  ['refusing it', ['refused'], 'denied', (tx, { owner, family }) => endFamily(tx, owner, family, 'denied')],
  ['ending it', ['declined'], 'ended', (tx, { owner, family }) => endFamily(tx, owner, family, 'ended')],
  [
    'recording a grant of it',
    ['agreed', 'owner_approved'],
    'granted',
    async (tx, { owner, family, handle, generation }) =>
      recordGrant(
        tx,
        {
          ...seed.grantRow(owner, handle, generation, seed.bytes()),
          ...(await seed.governedOf(tx, owner)),
          family,
        },
        [],
      ),
  ],
  [
    'collecting her approval',
    ['owner_approved'],
    'granted',
    (tx, { owner, family }) => collectFamily(tx, owner, family),
  ],
  [
    'an edit of its tier',
    ['terms_changed'],
    'need_info',
    (tx, { owner }) => withdrawItemsUnder(tx, owner, seed.TIER),
  ],
]

/** One that stands so, and what it would need to go anywhere: a ticket, and for collecting her approval. */
async function standing(state: Stored): Promise<Negotiation> {
  const { db } = database
  const owner = await seed.seedOwner(db, { ask_me: true })
  const handle = seed.name('jkt:')
  const generation = await seed.seedConnection(db, owner, handle)
  const family = await seed.seedFamily(db, owner, null)
  const ticket = seed.bytes()
  await db
    .updateTable('families')
    .set({ state, ticket_hash: state === 'awaiting_owner' ? ticket : null, handle, decision: 'approved' })
    .where('owner', '=', owner)
    .where('family', '=', family)
    .execute()
  return { owner, family, handle, generation, ticket }
}

describe.each(ACTS)('%s', (_what, triggers, to, act) => {
  it.each(STORED)('moves a negotiation that is %s as the rule has it', async from => {
    const negotiation = await standing(from)
    const { owner, family } = negotiation
    await inTransaction(database.db, async tx => {
      await lockQueue(tx, owner)
      await act(tx, negotiation)
    })
    const moves = triggers.map(trigger => nextTicketState(from, trigger))
    const wanted = moves.includes(to) ? to : from
    expect((await readFamily(database.db, owner, family))!.state).toBe(wanted)
  })
})
