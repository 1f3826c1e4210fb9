/**
 * Applies the provisioning file again while the authority serves, as a start does. Contract: "Policy
 * vocabulary and tiers", "Authentication".
 */
import type { ProvisionedOwner } from '../../config.ts'
import { placedElsewhere } from '../../storage/authority/owners/cell-directory.ts'
import { HOME_CELL } from '../../wire/names.ts'
import type { Authority } from '../context.ts'
import { logProvisioned, provision } from '../provision.ts'
import { warnOfDifferences } from './differences.ts'

interface ServedCell {
  readonly name: string
  readonly authority: Pick<Authority, 'database' | 'cell' | 'log'>
}

/**
 * Applies what the file says, each owner's entry in the cell where she is, and warns of what differs and is
 * left alone. @param closers ends the comparison with the file, which nothing waits for.
 */
export async function applyAgain(
  { home, all }: { home: ServedCell; all: readonly ServedCell[] },
  owners: readonly ProvisionedOwner[],
  closers: (() => Promise<void>)[],
): Promise<void> {
  const names = owners.map(({ owner }) => owner)
  const elsewhere =
    all.length === 1
      ? new Map<string, string>()
      : await placedElsewhere(home.authority.database.ofNobody, names)
  for (const { name, authority } of all) {
    const here = owners.filter(({ owner }) => (elsewhere.get(owner) ?? HOME_CELL) === name)
    logProvisioned(authority.log, await provision(authority.database.ofNobody, here, authority.cell))
    closers.push(warnOfDifferences(authority, here))
  }
}

interface Rereading {
  /** The settings, read anew. */
  read: () => { owners: readonly ProvisionedOwner[] }
  apply: (owners: readonly ProvisionedOwner[]) => Promise<void>
  log: Pick<Authority['log'], 'info' | 'error'>
}

/**
 * What is to happen on SIGHUP: one reading at a time, and one more if the signal came meanwhile. A file with
 * a fault changes nothing.
 */
export function rereading({ read, apply, log }: Rereading): () => void {
  let reading: Promise<void> | undefined
  let again = false
  const once = async (): Promise<void> => {
    try {
      const { owners } = read()
      await apply(owners)
      log.info(
        { owners: owners.length },
        'the provisioning file was read anew; other settings need a restart',
      )
    } catch (error) {
      log.error(
        { err: error },
        'the provisioning file was not applied: correct it and send SIGHUP again; nothing else changed',
      )
    }
  }
  const run = (): void => {
    again = reading !== undefined
    reading ??= once().finally(() => {
      reading = undefined
      if (again) run()
    })
  }
  return run
}
