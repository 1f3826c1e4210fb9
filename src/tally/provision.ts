/**
 * Brings the accounts into the state that the provisioning file describes. Contract: "Tally for a jointly
 * held resource": a tally has no API by which anybody could change one.
 */
import { randomBytes } from 'node:crypto'
import type { ProvisionedAccount } from '../config.ts'
import { putMandate, putRegistered } from '../storage/tally/accounts.ts'
import type { Db } from '../storage/tally/database.ts'
import { inTransaction } from '../storage/core/database.ts'
import { encodeBase64url } from '../wire/encoding.ts'
import { asClientId, type Owner } from '../wire/identifiers.ts'

const ROUTING_TAG_BYTES = 9

/**
 * One transaction for each account; safe when many replicas start at once. An account that the file does not
 * name is left as it is. @returns the mandates that are new, with their versions.
 */
export async function provision(
  db: Db,
  accounts: readonly ProvisionedAccount[],
): Promise<{ account: Owner; version: number }[]> {
  const done: { account: Owner; version: number }[] = []
  for (const { mandate, resource_servers, registered } of accounts) {
    const { account } = mandate
    const version = await inTransaction(db, async tx => {
      const tag = encodeBase64url(randomBytes(ROUTING_TAG_BYTES))
      const changed = await putMandate(tx, mandate, tag)
      await putRegistered(tx, account, {
        resource_servers: resource_servers.map(({ client_id, ...rest }) => ({
          client_id: asClientId(client_id),
          ...rest,
        })),
        resources: registered.map(({ id, client_id, type, consequence, tools, ...rest }) => ({
          ...rest,
          resource_id: id,
          client_id: asClientId(client_id),
          type: type ?? null,
          consequence: consequence ?? null,
          tools: tools ?? null,
        })),
      })
      return changed
    })
    if (version !== undefined) done.push({ account, version })
  }
  return done
}
