/** Redeeming an emergency window: contract, "The organization's authority" (`/break-glass`, `/admin/...`). */
import type { AddressInfo } from 'node:net'
import { describe, expect, it } from 'vitest'
import { inTransaction } from '../../src/storage/core/database.ts'
import { lockHead, publishCharter } from '../../src/storage/organization/charters.ts'
import type { Db } from '../../src/storage/organization/database.ts'
import { charterDigest, parseCharter } from '../../src/wire/organization/charter.ts'
import { s256Json, sha256 } from '../../src/wire/encoding.ts'
import { asOwner } from '../../src/wire/identifiers.ts'
import { parseJws } from '../../src/wire/signatures/jws.ts'
import { publicJwk } from '../../src/wire/signatures/keys.ts'
import { ORGANIZATION_ALIAS } from '../../src/wire/names.ts'
import { exchange } from '../support/authority.ts'
import { row } from '../support/contract-row.ts'
import { charterOf, ORG_ISSUER } from '../support/organization.ts'
import { until } from '../support/until.ts'
import {
  RESOURCE,
  accepts,
  agent,
  answers,
  ask,
  body,
  clause,
  desk,
  granted,
  inDatabase,
  kinds,
  newKey,
  open,
  redeem,
  refusal,
  signed,
  stand,
  startEmergencies,
  stranger,
  voucher,
} from './emergencies.ts'

startEmergencies()

describe("The organization's authority", () => {
  row('org-break-glass', async () => {
    const { status, body: answer } = await redeem({ voucher: await voucher() })
    expect([status, answer.token_type, answer.expires_in <= 300]).toEqual([200, 'PoP', true])
    const { payload } = parseJws(answer.access_token as string)
    const handle = `jkt:${agent.thumbprint}`
    expect(payload).toMatchObject({
      iss: ORG_ISSUER,
      owner: 'amy',
      sub: handle,
      client_id: handle,
      aud: RESOURCE,
      jti: expect.stringMatching(/^rpt_/),
      family: expect.stringMatching(/^bg_/),
      contract: expect.stringMatching(/^s256:/),
      single_use: true,
      operation: { tool: 'open', params_s256: s256Json({ door: 1 }) },
      permissions: [{ resource_id: 'acme/vault', resource_scopes: ['read'] }],
      break_glass: {
        org: 'acme',
        reason: 'fire',
        authorised_by: 'ines',
        charter_version: 1,
        accepted: expect.any(String),
      },
    })
  })

  row('org-introspect-consume', async () => {
    const token = await granted()
    expect((await ask('/introspect', token)).body).toMatchObject({
      active: true,
      owner: 'amy',
      single_use: true,
    })
    expect((await ask('/consume', token)).body).toMatchObject({
      consumed: true,
      family: expect.stringMatching(/^bg_/),
    })
    expect((await ask('/consume', token)).body).toEqual({ consumed: false, error: 'already_consumed' })
    expect((await ask('/introspect', token)).body).toMatchObject({
      active: false,
      reason: 'already_consumed',
    })
    await until(() => kinds().includes('break_glass_used'))
  })
})

describe('An emergency window', () => {
  it('is opened for a member, who is told of it, under a clause that she agreed to', async () => {
    const { status, body: opened } = await open()
    expect([status, opened]).toEqual([201, { voucher: expect.stringMatching(/^bgv_/), expires_in: 600 }])
    await until(() => kinds().includes('break_glass_opened'))
    const { payload } = parseJws(stand.first.notices.at(-1)!)
    expect(payload).toMatchObject({
      resources: ['acme/vault'],
      reason: 'the server room burns',
      by: 'ines',
      window_s: 600,
    })
    expect((await open({ owner: 'nobody' })).status).toBe(404)
    expect((await open({ reason: '' })).status).toBe(400)
    expect((await open({ window_s: 3_601 })).status).toBe(400)
  })

  it('is of 300 seconds, unless the administrator gives another time, of an hour at most', async () => {
    expect((await open({ window_s: undefined })).body).toMatchObject({ expires_in: 300 })
    const long = (await open({ window_s: 3_600 })).body
    expect(long).toMatchObject({ expires_in: 3_600 })
    const told = () => stand.first.notices.map(notice => parseJws(notice).payload['window_s'])
    await until(() => told().includes(300) && told().includes(3_600))
  })

  it('is redeemed once: a spent voucher, an unknown one and another member’s are answered alike', async () => {
    const spent = await voucher()
    expect((await redeem({ voucher: spent })).status).toBe(200)
    const again = await redeem({ voucher: spent })
    expect(refusal(again)).toEqual([403, 'invalid_voucher'])
    expect((await redeem({ voucher: 'bgv_unknown' })).body).toEqual(again.body)
    expect((await redeem({ owner: 'ben', voucher: await voucher() })).body).toEqual(again.body)
  })

  it('ends with the membership that it was opened for, and is none when she joins again', async () => {
    const before = await voucher()
    await stand.post('leave', { owner: 'amy', as_uri: stand.first.uri, join_id: 'join-of-amy-0000000' })
    await stand.joined('amy')
    expect(refusal(await redeem({ voucher: before }))).toEqual([403, 'invalid_voucher'])
    expect((await redeem({ voucher: await voucher() })).status).toBe(200)
  })

  it('is redeemed by the key that the grant binds, whose proof comes before everything else', async () => {
    const json = body({ owner: 'nobody', voucher: 'bgv_unknown', operation: 1 })
    expect((await exchange(signed(json, {}, newKey()))).status).toBe(401)
    expect((await exchange(signed(json, { sign: false }))).status).toBe(401)
    expect((await exchange(signed(json, { sign: { digestOf: 'another body' } }))).status).toBe(401)
    expect((await exchange(signed(json))).status).toBe(403)
  })

  it('refuses in the settled order: who lets in, the member, the clause, reason and operation, the signature, the scopes', async () => {
    // Whatever is wrong with a request, the earliest fault answers.
    const faults: [object, number, string][] = [
      [{ voucher: 'bgv_unknown' }, 403, 'invalid_voucher'],
      [{ resource_id: 'acme/mail-in' }, 403, 'outside_clause'],
      [{ operation: { params: {} } }, 400, 'invalid_request'],
      [{ operation: undefined }, 400, 'invalid_request'],
      [{ scopes: ['burn'] }, 403, 'scope'],
    ]
    const good = await voucher()
    for (const [at, [, status, word]] of faults.entries()) {
      const wrong = Object.assign(
        { voucher: good },
        ...faults.slice(at).map(([changes]) => changes),
      ) as object
      expect(refusal(await redeem(wrong))).toEqual([status, word])
    }
    expect(refusal(await redeem({ voucher: good, reason: undefined }))).toEqual([400, 'invalid_request'])
    expect(refusal(await redeem({ voucher: good, resource: 'https://other.example/mcp/ben' }))).toEqual([
      403,
      'outside_clause',
    ])
    // None of them was any use of the voucher.
    expect((await redeem({ voucher: good })).status).toBe(200)
  })

  it('takes a signature once', async () => {
    const call = signed(body({ voucher: await voucher(), scopes: ['read'] }))
    answers({ status: 403 })
    expect((await exchange(call)).status).toBe(403)
    accepts()
    expect((await exchange(call)).status).toBe(409)
  })

  it('is let in by an invoker whom she agreed to and that publishes the key, and by no other', async () => {
    const origin = `http://127.0.0.1:${(desk.address() as AddressInfo).port}`
    const client_id = `${origin}/client`
    expect(refusal(await redeem({ client_id }))).toEqual([403, 'not_an_invoker'])
    expect((await redeem({})).status).toBe(400)
    // An invoker is https, which a charter is held to when it is saved; this one is put past that.
    const charter = parseCharter(charterOf({ break_glass: clause({ invokers: [origin] }) }))
    const publish = (db: Db) =>
      inTransaction(db, async tx => {
        await lockHead(tx)
        return publishCharter(tx, { charter, s256: charterDigest(charter), by: 'test', affects: 'everybody' })
      })
    await inDatabase(async db => {
      const { version } = await publish(db)
      expect(refusal(await redeem({ client_id }))).toEqual([403, 'outside_clause'])
      await db
        .updateTable('members')
        .set({ agreed_version: version })
        .where('owner', '=', asOwner('amy'))
        .execute()
      const { status, body: answer } = await redeem({ client_id })
      expect(status).toBe(200)
      const { payload } = parseJws(answer.access_token as string)
      expect(payload['break_glass']).toMatchObject({ authorised_by: origin })
      expect(refusal(await redeem({ client_id, agent_jwk: publicJwk(stranger) }, {}, stranger))).toEqual([
        403,
        'not_an_invoker',
      ])
    })
  })
})

describe("The authority's yes is part of the grant", () => {
  it('a definite no is passed on as 403, and frees the voucher at once', async () => {
    const good = await voucher()
    answers({ status: 403 })
    expect(refusal(await redeem({ voucher: good }))).toEqual([403, 'not_accepted'])
    accepts()
    expect((await redeem({ voucher: good })).status).toBe(200)
  })

  it('if it takes no more within the hour that is said, the voucher is free at once, and nothing is to be void', async () => {
    const good = await voucher()
    const before = kinds().length
    answers({ status: 429 })
    const { status, headers, body } = await redeem({ voucher: good })
    expect([status, headers.get('retry-after'), body.error]).toEqual([429, '600', 'temporarily_unavailable'])
    accepts()
    expect((await redeem({ voucher: good })).status).toBe(200)
    expect(kinds().slice(before)).not.toContain('break_glass_void')
  })

  it.each<[string, () => void]>([
    ['fails', () => answers({ status: 500 })],
    ['says nothing of a yes', () => answers({ status: 200, body: { received: 'break_glass' } })],
    ['accepts another grant', () => accepts({ jti: 'rpt_other' })],
    ['accepts for another key', () => accepts({ cnf_jkt: newKey().thumbprint })],
    ['accepts fewer scopes', () => accepts({ scopes: [] })],
    ['accepts to another organization', () => accepts({ aud: 'https://other.example' })],
    ['accepts under a name that is not listed', () => accepts({}, ORGANIZATION_ALIAS.breakGlassAcceptedTyp)],
    ['does not answer within 5 s', () => answers('hang')],
  ])(
    'an authority that %s gives none: 503, nothing is granted, and it is told that it is void',
    async (_how, prepared) => {
      prepared()
      const good = await voucher()
      const { status, headers, text } = await redeem({ voucher: good })
      expect([status, headers.get('retry-after')]).toEqual([503, '10'])
      expect(text).not.toContain('127.0.0.1')
      // Until the time for an answer has certainly passed the voucher is held.
      accepts()
      expect((await redeem({ voucher: good })).status).toBe(503)
      await until(() => kinds().includes('break_glass_void'))
    },
  )

  it('and a voucher is free again 10 s after silence', async () => {
    answers({ status: 500 })
    const good = await voucher()
    expect((await redeem({ voucher: good })).status).toBe(503)
    await inDatabase(async db => {
      const held_until = new Date(Date.now() - 1).toISOString()
      await db
        .updateTable('vouchers')
        .set({ held_until })
        .where('voucher_sha256', '=', sha256(good))
        .execute()
    })
    accepts()
    expect((await redeem({ voucher: good })).status).toBe(200)
  })
})
