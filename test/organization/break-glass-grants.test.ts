/**
 * Vouchers and grants of emergency windows: contract, "The organization's authority" (`/introspect`,
 * `/consume`), "Limits".
 */
import { randomBytes } from 'node:crypto'
import { describe, expect, it } from 'vitest'
import { deadlineAt } from '../../src/enforcement/deadline.ts'
import { createOrganizationClient } from '../../src/enforcement/organization/organization-client.ts'
import { createOutbound } from '../../src/http/outbound/outbound.ts'
import { inTransaction, isOutage } from '../../src/storage/core/database.ts'
import { voidAbandoned } from '../../src/organization/break-glass/abandoned.ts'
import { holdVoucher, insertPendingGrant, insertVoucher } from '../../src/storage/organization/break-glass.ts'
import { readMember } from '../../src/storage/organization/members.ts'
import { asOwner } from '../../src/wire/identifiers.ts'
import { parseJws } from '../../src/wire/signatures/jws.ts'
import { until } from '../support/until.ts'
import { ORG_ISSUER } from '../support/organization.ts'
import {
  OTHER,
  OWN,
  RESOURCE,
  ask,
  clause,
  granted,
  inDatabase,
  open,
  redeem,
  refusal,
  stand,
  startEmergencies,
  voucher,
} from './emergencies.ts'

startEmergencies()

describe('One voucher', () => {
  it('that 32 redeem at once lets one in', async () => {
    const good = await voucher()
    const replies = await Promise.all(Array.from({ length: 32 }, () => redeem({ voucher: good })))
    const statuses = replies.map(({ status }) => status)
    expect(statuses.filter(status => status === 200)).toHaveLength(1)
    expect(statuses.every(status => [200, 403, 503].includes(status))).toBe(true)
  })

  it('is held by one of 32, a hundred times over', async () => {
    await inDatabase(async db => {
      const owner = asOwner('amy')
      for (let round = 0; round < 100; round++) {
        const voucher_sha256 = randomBytes(32)
        await inTransaction(db, tx =>
          insertVoucher(tx, { voucher_sha256, owner, admin: 'ines', reason: 'x' }, 60),
        )
        const held = await Promise.allSettled(
          Array.from({ length: 32 }, (_, i) =>
            inTransaction(db, tx => holdVoucher(tx, { voucher_sha256, owner, jti: `rpt_${round}_${i}` }, 10)),
          ),
        )
        expect(held.filter(one => one.status === 'fulfilled' && one.value)).toHaveLength(1)
        // A caller that waited too long on a busy machine holds nothing either.
        for (const one of held) if (one.status === 'rejected') expect(isOutage(one.reason)).toBe(true)
      }
    })
  })
})

describe('A grant of an emergency window at the organization', () => {
  it('is spent by one of 32 that consume it at once', async () => {
    const token = await granted()
    const replies = await Promise.all(Array.from({ length: 32 }, () => ask('/consume', token)))
    expect(replies.filter(({ body: said }) => said.consumed === true)).toHaveLength(1)
    // A caller that waited too long on a busy machine is told to retry, and has spent nothing.
    const others = replies.filter(
      ({ status, body: said }) => status === 503 || said.error === 'already_consumed',
    )
    expect(others).toHaveLength(31)
    expect((await ask('/consume', token)).body).toEqual({ consumed: false, error: 'already_consumed' })
  })

  it('is what the client of an enforcement point reads, with the membership beside it', async () => {
    const outbound = createOutbound({ devLoopback: true })
    const client = createOrganizationClient({
      issuer: stand.organization.publicUrl,
      owner: asOwner('amy'),
      proof: { kind: 'secret', secret: OWN },
      outbound,
      clock: Date.now,
    })
    const deadline = deadlineAt(Date.now() + 10_000, Date.now)
    expect(await client.membership(deadline)).toMatchObject({
      member: true,
      as_uri: stand.first.uri,
      claims: ['acme/*', 'acme/*/*'],
      break_glass: { enabled: true, resources: ['acme/vault'], max_expires_in: 300 },
    })
    const token = await granted()
    expect(await client.introspect(token, deadline)).toMatchObject({
      active: true,
      iss: ORG_ISSUER,
      single_use: true,
    })
    expect(await client.consume(token, deadline)).toEqual({ consumed: true })
    expect(await client.consume(token, deadline)).toEqual({ consumed: false, error: 'already_consumed' })
    await outbound.close()
  })

  it('is unknown to whoever does not enforce its resource, and to whoever is nobody', async () => {
    const token = await granted()
    expect((await ask('/introspect', token, OTHER)).body).toMatchObject({
      active: false,
      reason: 'unknown_token',
    })
    expect((await ask('/consume', token, OTHER)).body).toEqual({ consumed: false, error: 'unknown_token' })
    expect((await ask('/introspect', token, 'nobody')).status).toBe(401)
    expect((await ask('/introspect', 'x.y.z')).body).toMatchObject({
      active: false,
      reason: 'invalid_signature',
    })
    expect((await ask('/consume', token)).body.consumed).toBe(true)
  })

  it('ends with the membership', async () => {
    const token = await granted()
    await stand.post('leave', { owner: 'amy', as_uri: stand.first.uri, join_id: 'join-of-amy-0000000' })
    expect((await ask('/introspect', token)).body).toMatchObject({
      active: false,
      reason: 'organization_revoked',
    })
    expect((await ask('/consume', token)).body).toEqual({ consumed: false, error: 'organization_revoked' })
    await stand.joined('amy')
    expect((await ask('/introspect', token)).body).toMatchObject({
      active: false,
      reason: 'organization_revoked',
    })
  })

  it('is given to nobody if the charter lets nobody in', async () => {
    const good = await voucher()
    await stand.publish({ break_glass: clause({ enabled: false }) })
    expect(refusal(await redeem({ voucher: good }))).toEqual([403, 'disabled'])
    expect((await open()).status).toBe(409)
    const { body: metadata } = await stand.organization.request('/.well-known/ext-organization')
    expect(metadata.break_glass).toBe(false)
  })

  it('that was held when its replica ended is made void, and her authority is told', async () => {
    const jti = `rpt_${randomBytes(8).toString('hex')}`
    await inDatabase(async db => {
      const { join_id } = (await readMember(db, asOwner('amy')))!
      const grant = {
        jti,
        owner: asOwner('amy'),
        membership: join_id,
        aud: RESOURCE,
        expires_at: Math.floor(Date.now() / 1000) + 300,
      }
      await inTransaction(db, tx => insertPendingGrant(tx, grant))
      expect(await voidAbandoned(db, 10)).toBe(0)
      const held_at = new Date(Date.now() - 31_000).toISOString()
      await db.updateTable('break_glass_grants').set({ held_at }).where('jti', '=', jti).execute()
      expect(await voidAbandoned(db, 10)).toBe(1)
      expect(await voidAbandoned(db, 10)).toBe(0)
    })
    await until(() =>
      stand.first.notices.some(notice => JSON.stringify(parseJws(notice).payload).includes(jti)),
    )
  })
})
