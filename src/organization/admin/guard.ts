/**
 * The caller of the administration: an administrator of the provisioning file, by the signature of one of his
 * device keys or an access token of the realm. Contract: "Authentication" (as the owner at the owner API; a
 * change is accepted once).
 */
import { proveAdministrator, spendProven } from '../../credentials/administrators.ts'
import type { Credential } from '../../http/servers/endpoint.ts'
import { inTransaction } from '../../storage/core/database.ts'
import { spendSignature } from '../../storage/organization/activity.ts'
import { lockHead } from '../../storage/organization/charters.ts'
import type { Tx } from '../../storage/organization/database.ts'
import type { Administration, OrganizationStore } from '../context.ts'

/** The administrator that a request's credential proved. */
export interface OrganizationAdminCredential {
  /** His name in the provisioning file. */
  readonly admin: string
  /**
   * Marks a signature as presented, in the transaction of what it changes; throws 401 if it was presented
   * before.
   */
  spend(tx: Tx): Promise<void>
}

export const ADMINISTRATOR: Credential<Administration, OrganizationAdminCredential> = {
  names: ['admin', 'bearer'],
  async admit(api, request, run) {
    const proven = await proveAdministrator(api, request)
    return run({
      admin: proven.admin,
      spend: tx => spendProven(proven, api.now(), (digest, seconds) => spendSignature(tx, digest, seconds)),
    })
  },
}

/**
 * Runs a change in one transaction that alone changes the charter, its groups and members. It spends the
 * request first: of two presentations of one signature, the second changes nothing. `work` gets the version
 * in force, or 0 if there is none.
 */
export function changeAs<T>(
  { database }: OrganizationStore,
  credential: OrganizationAdminCredential,
  work: (tx: Tx, version: number) => Promise<T>,
): Promise<T> {
  return inTransaction(database.ofNobody, async tx => {
    const version = await lockHead(tx)
    await credential.spend(tx)
    return work(tx, version)
  })
}
