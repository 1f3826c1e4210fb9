/**
 * Finds who sent a request to the administration of owners: an administrator listed in the file that
 * `UMA_AS_ADMINISTRATORS` names. Contract: "Authentication" (as the owner at the owner API; a change is
 * accepted once).
 */
import { proveAdministrator, spendProven, type Administrator } from '../../credentials/administrators.ts'
import type { AcceptedCredentials } from '../../credentials/presentation.ts'
import type { Credential } from '../../http/servers/endpoint.ts'
import type { SignatureBase } from '../../http/servers/signed-request.ts'
import { spendAdministratorSignature } from '../../storage/authority/membership/administrator-signatures.ts'
import type { Tx } from '../../storage/authority/database.ts'
import type { Actor } from '../../wire/owner/actor.ts'
import type { Signer } from '../../surface/issuer.ts'
import type { Store } from '../context.ts'
import type { Enrolling } from './recovery.ts'

/** What every endpoint of the administration is handed. */
export interface OwnerAdministration extends Store, Pick<Signer, 'now'> {
  readonly accepted: AcceptedCredentials
  readonly administrators: readonly Administrator[]
  readonly base: SignatureBase
  /** The settings by which codes are issued. */
  readonly enrolling: Enrolling
  /** Where archives of removed owners are written; if undefined, no owner is removed here. */
  readonly archives: string | undefined
  /** Background work that continues after an answer. The end of the process waits for it. */
  readonly behind: Set<Promise<void>>
}

/** The administrator that a request's credential proved. */
export interface AuthorityAdminCredential {
  readonly actor: Extract<Actor, { kind: 'authority' }>
  /**
   * Marks the request as spent, in the transaction of what it changes. Refuses 401 if it was spent before.
   */
  spend(tx: Tx): Promise<void>
}

export const ADMINISTRATOR: Credential<OwnerAdministration, AuthorityAdminCredential> = {
  names: ['admin', 'bearer'],
  async admit(api, request, run) {
    const proven = await proveAdministrator(api, request)
    return run({
      actor: { kind: 'authority', admin: proven.admin },
      spend: tx =>
        spendProven(proven, api.now(), (digest, seconds) => spendAdministratorSignature(tx, digest, seconds)),
    })
  },
}
