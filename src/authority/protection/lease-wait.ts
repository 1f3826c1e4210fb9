/**
 * Owns how an owner's act waits for the leases of what it ended, and what its answer says of that. Contract:
 * "What the service does" (row 9: revocation is immediate).
 */
import { z } from 'zod'
import { withLeaseWait, type LeaseWait } from '../../storage/core/after-commit.ts'
import { CLIENT_ID } from '../../wire/documents/names.ts'
import type { StillWaiting } from '../../wire/owner/owner-api.ts'

const count = z.int().min(0)

/** The member of answers of the owner API; left out if nobody was waited for. */
export const LEASES_AWAITED = {
  leases: z
    .object({
      holders: count,
      acknowledged: count,
      waited_ms: count,
      silent: z.array(CLIENT_ID).optional(),
    })
    .optional(),
}

/**
 * The same for an administrator of an organization: he learns how long was waited, and not of sidecars that
 * may serve what is hers alone.
 */
export const LEASE_TIME = { leases: z.strictObject({ waited_ms: count }).optional() }

/**
 * Her act, once no sidecar lets a call through by what it ended; the answer says who was waited for and how
 * long, if anybody was.
 */
export async function runAndAwaitLeases<T extends object>(
  act: () => Promise<T>,
): Promise<T & Pick<StillWaiting, 'leases'>> {
  const [did, settled] = await withLeaseWait(act)
  return settled === undefined ? did : { ...did, leases: leasesOf(settled) }
}

function leasesOf({ silent, ...settled }: LeaseWait): NonNullable<StillWaiting['leases']> {
  const { holders, acknowledged, waited_ms } = settled
  const counts = { holders, acknowledged, waited_ms }
  return silent.length === 0 ? counts : { ...counts, silent: [...new Set(silent)] }
}
