/**
 * Reads what the organizations of members publish at the start, and again before it is too old, so that an
 * agreement waits for nothing but the answer to its own question. Contract: "The organization's authority"
 * (discovery, `/jwks`, `/decision`).
 */
import { startRepeating, type Repetition } from '../../limits/repetition.ts'
import { isOutage } from '../../storage/core/database.ts'
import { joinedOrganizations } from '../../storage/authority/membership/membership.ts'
import type { Documents, Store } from '../context.ts'
import { OrganizationOutage } from './client.ts'

type DocumentContext = Store & Documents

/** Soon after a failure, and after the first owner joined one. */
const ROUND_SECONDS = 5

/** Starts reading, if an organization is listed. One that no owner is a member of is not asked. */
export function startDocuments({ database, organizations, log }: DocumentContext): Repetition | undefined {
  const { issuers } = organizations
  if (issuers.length === 0) return undefined
  const readOne = (issuer: string): Promise<void> =>
    organizations.readAhead(issuer).catch((error: unknown) => {
      if (!(error instanceof OrganizationOutage)) throw error
      log.debug({ err: error, issuer }, 'what an organization publishes was not read')
    })
  const readAll = async (): Promise<void> => {
    await Promise.all((await joinedOrganizations(database.ofNobody, issuers)).map(readOne))
  }
  const onError = (err: unknown): void =>
    log[isOutage(err) ? 'warn' : 'error']({ err }, 'reading what organizations publish was broken off')
  const documents = startRepeating(readAll, { pauseSeconds: ROUND_SECONDS, onError })
  documents.wake()
  return documents
}
