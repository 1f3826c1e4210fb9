/**
 * Logs after a start which items of the provisioning file differ from the stored ones. The stored ones stay
 * as they are. Contract: "Policy vocabulary and tiers".
 */
import type { ProvisionedOwner } from '../../config.ts'
import type { Store } from '../context.ts'
import { differences } from './plan.ts'

/** How many lines one start logs; `usher authority plan` lists all. */
const TOLD_MAX = 100

/** Starts to compare in the background, so that a start does not wait for it. @returns what ends it. */
export function warnOfDifferences(
  { database: { ofNobody: db }, log }: Store,
  owners: readonly ProvisionedOwner[],
): () => Promise<void> {
  let stopped = false
  const compare = async (): Promise<void> => {
    let count = 0
    for await (const differing of differences(db, owners)) {
      if (stopped) return
      for (const { plan: _differs, ...one } of differing)
        if (++count <= TOLD_MAX) log.warn(one, 'provisioning: it differs from the file and is left alone')
    }
    if (count > TOLD_MAX)
      log.warn({ differing: count }, 'provisioning: more differs; `usher authority plan` lists it')
  }
  const compared = compare().catch((error: unknown) => {
    if (!stopped) log.warn({ err: error }, 'the provisioning file was not compared with the database')
  })
  return async () => {
    stopped = true
    await compared
  }
}
