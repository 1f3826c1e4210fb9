/**
 * The owner that a request's credential proved. Contract: "Authentication" (owner at the owner API).
 */
import type { Tx } from '../../../storage/authority/database.ts'
import type { Actor } from '../../../wire/owner/actor.ts'
import type { Owner } from '../../../wire/identifiers.ts'

/** The owner that a request's credential proved, and what can be done with that credential afterwards. */
export interface OwnerCredential {
  readonly owner: Owner
  /** What it is called among her credentials: a device key by its kid, a login by its id. */
  readonly id: string
  /** The name under which its decisions are recorded. */
  readonly actor: Actor
  /** When it ends by itself, in seconds since the epoch; undefined if it does not. */
  readonly expiresAt?: number
  /**
   * Checks it again, in the transaction of what the request changes, and marks a signature as presented.
   * Throws 401 `invalid_credential` if the credential was revoked meanwhile or the signature was presented
   * before; the caller must then roll the transaction back.
   */
  spend(tx: Tx): Promise<void>
}
