/**
 * The owner that a request's credential proved. Contract: "Authentication" (owner at the owner API).
 */
import type { Tx } from '../../storage/authority/database.ts'
import type { Actor } from '../../wire/actor.ts'
import type { Owner } from '../../wire/identifiers.ts'

/** The owner that a request's credential proved, and what can be asked of that credential afterwards. */
export interface OwnerCredential {
  readonly owner: Owner
  /** What it is called among her credentials: a device key by its kid, a login by its id. */
  readonly id: string
  /** As what it decides is told. */
  readonly actor: Actor
  /** When it ends by itself, in seconds since the epoch; undefined: it does not. */
  readonly expiresAt?: number
  /**
   * Looks at it once more, in the transaction of what the request changes, and marks a signature as
   * presented. Throws 401 `invalid_credential` where it was revoked meanwhile, or the signature presented
   * before: then nothing of the transaction may stay.
   */
  spend(tx: Tx): Promise<void>
}
