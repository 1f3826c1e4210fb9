/**
 * What she is told if what is said of an accepted emergency does not fit. Contract: "What the service does"
 * (nothing above the owner can widen, nor hide what it did), "Events"; docs/choices.md.
 */
import type { Db, Tx } from '../../storage/authority/database.ts'
import {
  compareEmergencies,
  hasEmergenciesToCompare,
  type Acceptance,
} from '../../storage/authority/membership/emergencies.ts'
import { appendEvent } from '../../storage/authority/ledger/events.ts'
import { appendLedger } from '../../storage/authority/ledger/ledger.ts'
import { inTransaction } from '../../storage/core/database.ts'
import type { Owner } from '../../wire/identifiers.ts'

/**
 * `used_again`: more than one call was reported under one yes. `unreported`: the organization told of its
 * use, and no enforcement point reported a call. `unannounced`: a call was reported, and the organization
 * told nothing of it.
 */
export interface EmergencyFaultReport extends Pick<Acceptance, 'jti' | 'issuer' | 'resource_id'> {
  what: 'used_again' | 'unreported' | 'unannounced'
}

/** Written to both her ledger and her stream. Nobody did it: it is what her authority found. */
export async function tellEmergencyFault(tx: Tx, owner: Owner, found: EmergencyFaultReport): Promise<void> {
  const { what, issuer, jti, resource_id } = found
  const data = { what, issuer, jti, resource_id }
  await appendLedger(tx, owner, { kind: 'break_glass', about: resource_id, data })
  await appendEvent(tx, owner, 'break_glass', data)
}

/** Tells her which emergencies that are over do not fit; each is compared once. */
export async function tellUnmetEmergencies(db: Db, owner: Owner, limit: number): Promise<void> {
  // A sweep comes by often, and such a one is rare.
  if (!(await hasEmergenciesToCompare(db, owner))) return
  await inTransaction(db, async tx => {
    for (const unmet of await compareEmergencies(tx, owner, limit)) await tellEmergencyFault(tx, owner, unmet)
  })
}
