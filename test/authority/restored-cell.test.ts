/**
 * A directory of cells that was restored to a time before a move: contract, "Errors" (an outage is no
 * denial), and docs/cells.md, "Restore a cell".
 */
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { createLogger } from '../../src/http/telemetry/log.ts'
import type { Database } from '../../src/storage/authority/database.ts'
import { moveOwner } from '../../src/storage/authority/owners/moving.ts'
import { asOwner } from '../../src/wire/identifiers.ts'
import { startTestAuthority, type TestAuthority } from '../support/authority.ts'
import { connected, freshDatabase } from '../support/postgres.ts'

const [alice, bob] = [asOwner('alice'), asOwner('bob')]

const closing: (() => Promise<unknown>)[] = []
let east: Database
let first: TestAuthority
beforeEach(async () => {
  east = await freshDatabase()
  closing.push(() => east.close())
  const environment = { UMA_AS_CELLS: `east=${east.url}` }
  first = await startTestAuthority({ owners: [alice, bob], environment })
  closing.unshift(() => first.close())
})
afterEach(async () => {
  for (const close of closing.splice(0)) await close()
})

const moveBob = (to: string) => {
  const cells = new Map([
    ['home', first.database.url],
    ['east', east.url],
  ])
  return moveOwner({ owner: bob, cells, home: 'home', to, restSeconds: 0 })
}
/** Makes the directory's database what a backup has. */
const restored = (sql: string) => connected(first.database.url, client => client.query(sql))

/** A replica that starts then, with the lines of its start. */
async function startAgain() {
  const lines: Record<string, unknown>[] = []
  const log = createLogger({
    name: 'authority',
    level: 'warn',
    write: line => void lines.push(JSON.parse(line) as Record<string, unknown>),
  })
  const again = await startTestAuthority({ beside: first, log })
  closing.unshift(() => again.close())
  const read = (owner: string) => again.call(again.owners[owner]!, { target: '/owner/ledger?limit=1' })
  return { lines, read }
}

describe('A directory that was restored to a time before a move', () => {
  it('is told of at the start if a cell has her whom it does not name, and she is answered 503', async () => {
    await moveBob('east')
    await restored(`UPDATE directory SET cell = NULL WHERE kind = 'name' AND key = 'bob'`)
    const { lines, read } = await startAgain()
    expect(lines).toContainEqual(
      expect.objectContaining({
        owner: 'bob',
        cell: 'east',
        directory: 'home',
        msg: expect.stringContaining('docs/cells.md, "Restore a cell"') as string,
      }),
    )
    expect(await read(bob)).toMatchObject({ status: 503, body: { error: 'temporarily_unavailable' } })
    expect((await read(alice)).status).toBe(200)
  })

  it('keeps no replica from its start if no cell has her any more: she alone is answered 503', async () => {
    await moveBob('east')
    await moveBob('home')
    await restored(`
      UPDATE directory SET cell = 'east' WHERE kind = 'name' AND key = 'bob';
      UPDATE moves SET state = 'gone' WHERE owner = 'bob';
      DELETE FROM owners WHERE owner = 'bob'`)
    const { lines, read } = await startAgain()
    expect(lines).toContainEqual(
      expect.objectContaining({
        owner: 'bob',
        outcome: 'skipped',
        because: expect.stringContaining('does not serve her') as string,
      }),
    )
    expect(await read(bob)).toMatchObject({ status: 503, body: { error: 'temporarily_unavailable' } })
    expect((await read(alice)).status).toBe(200)
  })
})
