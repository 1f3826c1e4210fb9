/**
 * What ended with an act of the owner's on agents: how the ledger, the stream and the answer say it.
 * Contract: "Owner API" (connections, operators), "Events" (row 5).
 */
import { z } from 'zod'
import type { ConnectionEnd } from '../../../storage/authority/connections/connections.ts'
import type { Tx } from '../../../storage/authority/database.ts'
import { appendEvents, type NewEvent } from '../../../storage/authority/ledger/events.ts'
import { appendLedgerAll, type NewLedgerEntry } from '../../../storage/authority/ledger/ledger.ts'
import { recordRevocation } from '../../../storage/authority/ledger/revocations.ts'
import type { Owner } from '../../../wire/identifiers.ts'
import { newJti } from '../../../wire/negotiation/ticket.ts'
import type { Actor } from '../../../wire/owner/actor.ts'
import type { Deactivated, StillWaiting } from '../../../wire/owner/owner-api.ts'
import { runAndTellTallies, STILL_WAITING } from '../../joint/withdrawals.ts'
import { awaitRevocation } from '../../ledger/revocations.ts'
import type { OwnerApi } from '../api.ts'

const count = z.int().min(0)

/** What ended with an act of hers. */
export const ENDED = {
  rpts_deactivated: count,
  rpts_deactivated_more: z.literal(true).optional(),
  ...STILL_WAITING,
}

/** The signed revocation of an act, if there are keys of the log; null: it is signed later. */
export const SIGNED_REVOCATION = {
  revocation_jti: z.string().optional(),
  revocation: z.string().nullable().optional(),
}

/**
 * Runs an act of hers that may be the subject of a signed revocation, waits for whoever relies on what it
 * ended, and for that signature. The act stands before that: the answer never fails by it.
 */
export async function runAndSign<T extends { revocation_jti?: string | undefined }>(
  api: OwnerApi,
  owner: Owner,
  act: () => Promise<T>,
): Promise<T & StillWaiting & { revocation?: string | null }> {
  const done = await runAndTellTallies(api, owner, act)
  const { revocation_jti: jti } = done
  if (jti === undefined) return done
  const db = api.database.of(owner)
  return { ...done, revocation: await awaitRevocation({ ...api, db }, owner, jti) }
}

/** A new id of a revocation. */
export const newRevocationJti = (): string => newJti('rev_')
/**
 * Writes to the ledger and the stream what ended: each connection, and each item that waited for one.
 * @returns the `jti` of the revocation that is to be signed, if `isSigned` and if a connection ended.
 */
export async function recordEnded(
  tx: Tx,
  owner: Owner,
  ended: ConnectionEnd,
  how: { endedBy: 'revocation' | 'block'; operator?: string; actor: Actor; isSigned?: boolean },
): Promise<string | undefined> {
  const { actor } = how
  const operator = how.operator === undefined ? {} : { operator: how.operator }
  const [first, ...others] = ended.handles.map(handle => ({
    kind: 'revoked' as const,
    handle,
    data: { by: 'owner', actor, ...operator },
  }))
  const jti = how.isSigned === true && first !== undefined ? newRevocationJti() : undefined
  if (jti !== undefined) await recordRevocation(tx, owner, { jti, ended: ended.handles, entry: first! })
  const entries: NewLedgerEntry[] = [
    ...(jti === undefined && first !== undefined ? [first] : []),
    ...others,
    ...ended.families.map(family => ({
      kind: 'denied' as const,
      family,
      data: { by: how.endedBy, actor, ...operator },
    })),
  ]
  const events: NewEvent[] = [
    ...ended.handles.map(handle => ({
      event: 'connection_revoked' as const,
      data: { handle, by: 'owner', actor },
    })),
    ...ended.families.map(family => ({
      event: 'decided' as const,
      data: { family, decision: 'denied', by: how.endedBy, actor },
    })),
  ]
  await appendLedgerAll(tx, owner, entries)
  await appendEvents(tx, owner, events)
  return jti
}

/** How many grants ended, as answers say it. */
export function deactivated(ended: ConnectionEnd): Deactivated {
  return {
    rpts_deactivated: ended.rptsDeactivated,
    ...(ended.more ? { rpts_deactivated_more: true } : {}),
  }
}
