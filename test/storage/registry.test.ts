/** Whose turn it is to pull, and what lands: contract, "Registry materialization". */
import { describe, expect, it } from 'vitest'
import { inTransaction } from '../../src/storage/core/database.ts'
import {
  claimPull,
  failPull,
  isPulling,
  landListing,
  pullAgain,
  type PullAttempt,
  type ListedResource,
} from '../../src/storage/authority/registry/registry.ts'
import { dueNow, takeDue, type DueClaim } from '../../src/storage/authority/due.ts'
import {
  decideResourceServer,
  registerResourceServer,
} from '../../src/storage/authority/registry/registrations.ts'
import { ageDecision } from '../support/resource-server.ts'
import * as seed from '../support/seed.ts'
import { asClientId, type ClientId, type Owner } from '../../src/wire/identifiers.ts'
import { coreStand } from '../support/stands.ts'

const database = coreStand()

const PAUSE = 10
const client_id = asClientId('https://tools.example/mcp/x')
const notes: ListedResource = {
  resource_id: '',
  name: 'Notes',
  type: null,
  resource_scopes: ['read'],
  consequence: null,
  tools: null,
  approval: null,
}
const register = (owner: Owner) =>
  inTransaction(database.db, tx => registerResourceServer(tx, { owner, resource_uri: client_id, name: 'X' }))
const decide = (owner: Owner, status: 'active' | 'revoked') =>
  inTransaction(database.db, tx => decideResourceServer(tx, owner, client_id, status))
async function source(): Promise<{ owner: Owner; client_id: ClientId }> {
  const owner = await seed.seedOwner(database.db)
  await register(owner)
  await decide(owner, 'active')
  return { owner, client_id }
}
const claimed = async (of: { owner: Owner; client_id: ClientId }): Promise<PullAttempt> => {
  const claim = await claimPull(database.db, of, PAUSE)
  if (claim.claimed === undefined) throw new Error(claim.because)
  return claim.claimed
}
const age = (owner: Owner, seconds: number) =>
  database.pool.query(
    `UPDATE registry_pulls SET tried_at = tried_at - $2 * interval '1 second' WHERE owner = $1`,
    [owner, seconds],
  )
const entry = (owner: Owner, id: string): ListedResource => ({ ...notes, resource_id: `${owner}/${id}` })

describe('a pull', () => {
  it('is claimed by one of many who want it, and by none within the pause', async () => {
    const of = await source()
    const claims = await seed.callers(16, () => claimPull(database.db, of, PAUSE))
    expect(claims.filter(claim => claim.claimed !== undefined)).toHaveLength(1)
    expect(claims.filter(claim => claim.claimed === undefined && claim.because === 'running')).toHaveLength(
      15,
    )
    await age(of.owner, PAUSE + 1)
    expect(await claimPull(database.db, of, PAUSE)).toMatchObject({ claimed: { attempt: 2 } })
  })

  it('that comes too soon writes nothing, not even a lock: agents cause any number', async () => {
    const of = await source()
    await claimed(of)
    const row = async () =>
      (
        await database.pool.query(`SELECT ctid, xmin, xmax, attempt FROM registry_pulls WHERE owner = $1`, [
          of.owner,
        ])
      ).rows
    const before = await row()
    for (let n = 0; n < 5; n++) await claimPull(database.db, of, PAUSE)
    expect(await row()).toEqual(before)
  })

  it('runs until it has landed or failed, and then was recent', async () => {
    const of = await source()
    const attempt = await claimed(of)
    expect(await isPulling(database.db, of, PAUSE)).toBe(true)
    await failPull(database.db, attempt, 'listing_status')
    expect(await isPulling(database.db, of, PAUSE)).toBe(false)
    expect(await claimPull(database.db, of, PAUSE)).toEqual({ because: 'recent' })
  })

  it('is of an active server that publishes, and of no other', async () => {
    const owner = await seed.seedOwner(database.db)
    await register(owner)
    for (const id of [client_id, seed.CLIENT_ID, asClientId('nobody')])
      expect(await claimPull(database.db, { owner, client_id: id }, PAUSE)).toEqual({ because: 'recent' })
    await decide(owner, 'active')
    await decide(owner, 'revoked')
    expect(await claimPull(database.db, { owner, client_id }, PAUSE)).toEqual({ because: 'recent' })
  })

  it('that a later one has overtaken lands nothing, and its failure says nothing', async () => {
    const of = await source()
    const slow = await claimed(of)
    await age(of.owner, PAUSE + 1)
    const quick = await claimed(of)
    expect(await landListing(database.db, quick, [entry(of.owner, 'new')])).toMatchObject({ landed: 1 })
    expect(await landListing(database.db, slow, [entry(of.owner, 'old')])).toBe('superseded')
    expect(await failPull(database.db, slow, 'listing_status')).toBe(false)
    const { rows } = await database.pool.query(
      'SELECT resource_id FROM resources WHERE owner = $1 AND client_id = $2',
      [of.owner, of.client_id],
    )
    expect(rows).toEqual([{ resource_id: `${of.owner}/new` }])
  })

  it('that began before a withdrawal lands nothing, even if she approved it again', async () => {
    const of = await source()
    const attempt = await claimed(of)
    await decide(of.owner, 'revoked')
    expect(await landListing(database.db, attempt, [entry(of.owner, 'x')])).toBe('superseded')
    await register(of.owner)
    await decide(of.owner, 'active')
    expect(await landListing(database.db, attempt, [entry(of.owner, 'x')])).toBe('superseded')
    expect(await landListing(database.db, await claimed(of), [entry(of.owner, 'x')])).toMatchObject({
      landed: 1,
    })
  })

  it('of two at once with other listings, one whole listing stands', async () => {
    for (let round = 0; round < 5; round++) {
      const of = await source()
      const first = await claimed(of)
      await age(of.owner, PAUSE + 1)
      const second = await claimed(of)
      const ids = (names: string[]) => names.map(one => entry(of.owner, one))
      const landings = await Promise.all([
        landListing(database.db, first, ids(['a', 'b'])),
        landListing(database.db, second, ids(['c', 'd'])),
      ])
      expect(landings[0]).toBe('superseded')
      const { rows } = await database.pool.query<{ resource_id: string }>(
        `SELECT resource_id FROM resources WHERE owner = $1 AND client_id = $2 ORDER BY 1`,
        [of.owner, client_id],
      )
      expect(rows.map(row => row.resource_id)).toEqual([`${of.owner}/c`, `${of.owner}/d`])
    }
  })

  it('of ten thousand resources lands, and lands again without rewriting a row', async () => {
    const of = await source()
    const many = Array.from({ length: 10_000 }, (_, n) => entry(of.owner, `r${n}`))
    expect(await landListing(database.db, await claimed(of), many)).toMatchObject({ landed: 10_000 })
    const rows = () =>
      database.pool.query<{ x: string }>(
        `SELECT max(xmin::text::bigint)::text AS x FROM resources WHERE owner = $1 AND client_id = $2`,
        [of.owner, client_id],
      )
    const before = (await rows()).rows
    await age(of.owner, PAUSE + 1)
    await landListing(database.db, await claimed(of), many)
    expect((await rows()).rows).toEqual(before)
  })
})

describe('what is due', () => {
  const pauses = { landedSeconds: 300, failedSeconds: 30 }
  /** Seconds until the source is due, as the due-queue has it; undefined if it is not in it. */
  const dueIn = async (owner: Owner) => {
    const { rows } = await database.pool.query<{ s: number }>(
      `SELECT extract(epoch FROM at - clock_timestamp())::float8 AS s FROM due WHERE owner = $1 AND kind = 'pull'`,
      [owner],
    )
    return rows[0]?.s
  }
  /** Takes what is due, until the owner's source comes. */
  const take = async (owner: Owner): Promise<DueClaim> => {
    for (;;) {
      const [taken] = await takeDue(database.db, 'pull', { limit: 1, seconds: 15 })
      if (taken === undefined) throw new Error('nothing of hers is due')
      if (taken.owner === owner) return taken
    }
  }
  const makeDue = (owner: Owner) => dueNow(database.db, owner, 'pull', client_id)

  it('is what was never tried at once, what landed after one pause, and sooner what failed', async () => {
    const { owner } = await source()
    expect(await dueIn(owner)).toBeLessThanOrEqual(0)
    const first = await take(owner)
    expect(await dueIn(owner)).toBeCloseTo(15, -1)
    await landListing(database.db, await claimed({ owner, client_id }), [])
    await pullAgain(database.db, first, pauses)
    expect(await dueIn(owner)).toBeGreaterThan(290)
    await age(owner, PAUSE + 1)
    await makeDue(owner)
    const second = await take(owner)
    await failPull(database.db, await claimed({ owner, client_id }), 'listing_status')
    await pullAgain(database.db, second, pauses)
    expect(await dueIn(owner)).toBeGreaterThan(20)
    expect(await dueIn(owner)).toBeLessThanOrEqual(30)
  })

  it('is nothing of a server that waits, and leaves the queue with one that was withdrawn', async () => {
    const owner = await seed.seedOwner(database.db)
    await register(owner)
    expect(await dueIn(owner)).toBeUndefined()
    await decide(owner, 'active')
    await decide(owner, 'revoked')
    await pullAgain(database.db, await take(owner), pauses)
    expect(await dueIn(owner)).toBeUndefined()
  })

  it('stays due at once if she decided while it was taken', async () => {
    const { owner } = await source()
    const taken = await take(owner)
    await claimed({ owner, client_id })
    await decide(owner, 'revoked')
    await ageDecision({ database }, client_id)
    await register(owner)
    await decide(owner, 'active')
    await pullAgain(database.db, taken, pauses)
    expect(await dueIn(owner)).toBeLessThanOrEqual(0)
  })
})
