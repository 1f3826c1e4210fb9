/** Contract, "Permission ticket" (identity before terms): an assertion opens one negotiation, whosever. */
import { sql } from 'kysely'
import { describe, expect, it } from 'vitest'
import { acceptIdentity } from '../../src/storage/authority/negotiations/identities.ts'
import { sweepOwner } from '../../src/storage/authority/sweep.ts'
import type { Owner } from '../../src/wire/identifiers.ts'
import { PATIENT } from '../support/postgres.ts'
import * as seed from '../support/seed.ts'
import { coreStand } from '../support/stands.ts'

const database = coreStand({ poolMax: 40, ...PATIENT })

const identity = {
  issuer: 'https://idp.example',
  subject: 'p-1',
  s256: 's256:x',
  jkt: 'k'.repeat(43),
  client_id: null,
  operations: ['read'],
}
/** A negotiation of hers whose ticket was just spent takes the assertion. */
async function takes(owner: Owner, digest: Buffer, keptSeconds = 300) {
  const family = await seed.seedFamily(database.db, owner, null)
  const offer = { tier_id: seed.TIER, template: seed.templateOf(owner, family) }
  const next = { ticketHash: seed.bytes(), ticketSeconds: 300 }
  return acceptIdentity(database.db, {
    owner,
    family,
    identity,
    digest,
    retentionSeconds: keptSeconds,
    offer,
    ...next,
  })
}
const owners = (count: number) =>
  Promise.all(Array.from({ length: count }, () => seed.seedOwner(database.db)))

describe('An identity assertion', () => {
  it('that opened a negotiation with one owner opens none with another', async () => {
    const [one, other] = await owners(2)
    const digest = seed.bytes()
    expect(await takes(one!, digest)).toBe('accepted')
    expect([await takes(other!, digest), await takes(one!, digest)]).toEqual(['spent', 'spent'])
    expect(await takes(other!, seed.bytes())).toBe('accepted')
  })

  it('that negotiations of 16 owners are shown at once opens one of them', async () => {
    const digest = seed.bytes()
    const outcomes = await Promise.all((await owners(16)).map(owner => takes(owner, digest)))
    expect(outcomes.filter(outcome => outcome === 'accepted')).toHaveLength(1)
    expect(outcomes.filter(outcome => outcome === 'spent')).toHaveLength(15)
  })

  it('is remembered until it has expired, and no longer', async () => {
    const [owner] = await owners(1)
    await takes(owner!, seed.bytes(), -1)
    await takes(owner!, seed.bytes(), 300)
    await sweepOwner(database.db, owner!, 100)
    const { rows } = await sql`SELECT 1 FROM spent_assertions WHERE owner = ${owner!}`.execute(database.db)
    expect(rows).toHaveLength(1)
  })
})
