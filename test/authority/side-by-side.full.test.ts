/**
 * Two versions of the authority over one database while it is brought up to date: contract, "Grant (RPT)
 * liveness", for a grant lives and ends alike at both. From the last release on: test/upgrade.
 */
import { afterAll, describe, expect, it } from 'vitest'
import { startAuthorityProcess } from '../support/authority-process.ts'
import { authorityStand } from '../support/stands.ts'
import { BROUGHT, nextVersion, replicaIn, underLoad } from '../upgrade/two-versions.ts'

const old = authorityStand()
const closing: (() => Promise<void> | void)[] = []
afterAll(async () => {
  for (const close of closing.splice(0)) await close()
})

describe('Two versions over one database', () => {
  it('answer alike while the next one brings it up to date, and after, whichever starts again', async () => {
    const load = underLoad(old, old)
    try {
      await load.roundsMore()
      const { program, remove } = nextVersion()
      closing.push(remove)
      const next = await startAuthorityProcess(old, { program, environment: { UMA_AS_MIGRATE: 'true' } })
      closing.unshift(() => next.close())
      expect(await migrated()).toEqual(Object.keys(BROUGHT))
      load.now(old, replicaIn(old, next))
      await load.roundsMore()
      // This version again, over a database that is newer than it: as a roll-back starts it.
      for (const UMA_AS_MIGRATE of ['false', 'true']) {
        const again = await startAuthorityProcess(old, { environment: { UMA_AS_MIGRATE } })
        closing.unshift(() => again.close())
        load.now(replicaIn(old, again), replicaIn(old, next))
        await load.roundsMore()
      }
    } finally {
      await load.end()
    }
  }, 180_000)
})

async function migrated(): Promise<string[]> {
  const { rows } = await old.database.pool.query<{ name: string }>(
    'SELECT name FROM schema_migrations WHERE number > 9000 ORDER BY number',
  )
  return rows.map(({ name }) => name)
}
