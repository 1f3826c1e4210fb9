/**
 * Finishes removals in the background after the answer that began them. At a start, it finishes those that an
 * earlier process left behind. Contract: "Parties" (owner's authorization server).
 */
import { unfinishedRemovals } from '../../storage/authority/owners/removals.ts'
import type { OwnerAdministration } from './guard.ts'
import { removeOwner, type Removal } from './owner-accounts.ts'

/**
 * Runs after the answer. A failure is logged, and tried again at the next start or when the removal is
 * requested again.
 */
export function finishBehind(api: OwnerAdministration, work: () => Promise<Removal>): void {
  const done = finish(api, work).finally(() => api.behind.delete(done))
  api.behind.add(done)
}

/** Continues a removal that was interrupted: her access has ended, and half an archive is useless. */
export async function resumeRemovals(api: OwnerAdministration): Promise<void> {
  const { database, archives, log } = api
  const left = await unfinishedRemovals(database.ofNobody).catch((error: unknown) => {
    log.warn({ err: error }, 'whether removals were broken off cannot be read')
    return []
  })
  for (const owner of left) {
    if (archives === undefined) {
      log.warn(
        { owner },
        'a removal was broken off: set UMA_AS_ARCHIVES, or run `usher authority owner remove`',
      )
      continue
    }
    // The ledger names who removes her since the removal began.
    finishBehind(api, () => removeOwner(database, { owner, actor: { kind: 'authority' }, archives }))
  }
}

async function finish({ log }: OwnerAdministration, work: () => Promise<Removal>): Promise<void> {
  try {
    const removal = await work()
    log.info(await removal.finish(), 'an owner was removed')
  } catch (error) {
    log.error({ err: error }, 'a removal was broken off: ask for it again')
  }
}
