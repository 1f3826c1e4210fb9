/**
 * What an owner of one cell claims in the directory of all, within the transaction that writes it. Contract:
 * "What the service does" (many owners at one authority).
 */
import { expect, it } from 'vitest'
import { viewOf } from '../../src/authority/cells/cells.ts'
import { openDatabase } from '../../src/storage/authority/database.ts'
import { claimIn, placedBy } from '../../src/storage/authority/owners/cell-directory.ts'
import { moveOwner } from '../../src/storage/authority/owners/moving.ts'
import { inTransaction } from '../../src/storage/core/database.ts'
import * as seed from '../support/seed.ts'
import { coreStand } from '../support/stands.ts'

const home = coreStand()
const east = coreStand()

it('a login that another owner of the cell gave up is hers, though her share is one connection and she holds it', async () => {
  const [alice, bob] = [await seed.seedOwner(home.db), await seed.seedOwner(home.db)]
  const cells = new Map([
    ['home', home.url],
    ['east', east.url],
  ])
  for (const owner of [alice, bob])
    await moveOwner({ owner, cells, home: 'home', to: 'east', restSeconds: 0 })
  const key = JSON.stringify(['https://realm.example', 'shared'])
  await claimIn(home.db, { kind: 'login', key, owner: bob })
  const options = { poolMax: 2, connectTimeoutMs: 10_000 }
  const directory = openDatabase({ url: home.url, ...options })
  const here = openDatabase({ url: east.url, ...options })
  try {
    const view = viewOf({ home: directory, here, all: () => new Map([['east', here]]) })
    const claim = () => view.claim({ kind: 'login', key, owner: alice })
    expect(await inTransaction(here.of(alice), claim)).toBe(true)
    expect(await placedBy(home.db, 'login', key)).toMatchObject({ owner: alice })
  } finally {
    await Promise.all([directory.close(), here.close()])
  }
})
