/**
 * The emergency windows that are open: contract, "The organization's authority" (`/admin/...`: break-glass
 * windows).
 */
import { beforeEach, describe, expect, it } from 'vitest'
import { sql } from 'kysely'
import {
  accepting,
  accepts,
  inDatabase,
  kinds,
  open,
  redeem,
  refusal,
  stand,
  startEmergencies,
} from './emergencies.ts'
import { until } from '../support/until.ts'

interface Window {
  window_id: string
  owner: string
  reason: string
}

startEmergencies()
beforeEach(async () => {
  accepts()
  await inDatabase(async db => void (await sql`DELETE FROM vouchers`.execute(db)))
})

const listed = async (query = '') => {
  const { body, headers } = await stand.organization.admin({ target: `/admin/break-glass${query}` })
  return { windows: body as unknown as Window[], link: headers.get('link') }
}
const close = (window_id: string) =>
  stand.organization.admin({ method: 'DELETE', target: `/admin/break-glass/${window_id}` })

describe('The emergency windows', () => {
  it('are those that can still be redeemed, each with whom it is for, why and until when, and no voucher', async () => {
    const { voucher } = (await open()).body
    const { windows } = await listed()
    expect(windows).toEqual([
      {
        window_id: expect.stringMatching(/^bgw_[0-9a-f]{24}$/),
        owner: 'amy',
        by: 'ines',
        reason: 'the server room burns',
        opened_at: expect.any(String),
        expires_at: expect.any(String),
        redeeming: false,
      },
    ])
    expect(JSON.stringify(windows)).not.toContain(voucher)
    expect((await redeem({ voucher })).status).toBe(200)
    expect((await listed()).windows).toEqual([])
  })

  it('are no longer shown once their time is over', async () => {
    await open()
    await inDatabase(async db => void (await sql`UPDATE vouchers SET expires_at = now()`.execute(db)))
    expect((await listed()).windows).toEqual([])
  })

  it('come in pages, in the order of their ids', async () => {
    for (const reason of ['one', 'two', 'three']) await open({ reason })
    const ids = (await listed()).windows.map(({ window_id }) => window_id)
    expect(ids).toEqual(ids.toSorted())
    const { windows, link } = await listed('?limit=2')
    expect(windows.map(({ window_id }) => window_id)).toEqual(ids.slice(0, 2))
    expect(link).toBe(`</admin/break-glass?after=${ids[1]}&limit=2>; rel="next"`)
    const next = await listed(`?after=${ids[1]}&limit=2`)
    expect([next.windows.map(({ window_id }) => window_id), next.link]).toEqual([ids.slice(2), null])
  })

  it('can be closed: the voucher is dead, once and for all', async () => {
    const { voucher } = (await open()).body
    const [{ window_id } = { window_id: '' }] = (await listed()).windows
    const { status, body } = await close(window_id)
    expect([status, body]).toEqual([200, { closed: window_id }])
    expect(refusal(await redeem({ voucher }))).toEqual([403, 'invalid_voucher'])
    expect((await listed()).windows).toEqual([])
    expect(refusal(await close(window_id))).toEqual([404, 'not_found'])
    const activity = (await stand.organization.admin({ target: '/admin/activity?limit=1000' })).body
    expect((activity['entries'] as { kind: string; data: object }[]).at(-1)).toMatchObject({
      kind: 'break_glass_closed',
      data: { window_id },
    })
  })

  it('that is being redeemed just now is closed too: what her server says yes to meanwhile is void', async () => {
    const asked = Promise.withResolvers<undefined>()
    const closing = Promise.withResolvers<undefined>()
    const accept = accepting(stand.first)
    stand.first.decide = notice => {
      const answer = accept(notice)
      if (answer === undefined) return undefined
      asked.resolve(undefined)
      return closing.promise.then(() => answer)
    }
    const { voucher } = (await open()).body
    const redeeming = redeem({ voucher })
    await asked.promise
    const { windows } = await listed()
    expect(windows).toMatchObject([{ redeeming: true }])
    expect((await close(windows[0]!.window_id)).status).toBe(200)
    closing.resolve(undefined)
    expect((await redeeming).status).toBe(503)
    accepts()
    expect(refusal(await redeem({ voucher }))).toEqual([403, 'invalid_voucher'])
    await until(() => kinds().includes('break_glass_void'))
  })

  it('are closed or redeemed, never both, however the two meet', async () => {
    for (let n = 0; n < 10; n++) {
      const { voucher } = (await open()).body
      const [{ window_id } = { window_id: '' }] = (await listed()).windows
      const [redeemed, closed] = await Promise.all([redeem({ voucher }), close(window_id)])
      const both = `${redeemed.status} ${closed.status}`
      expect(['200 404', '403 200', '503 200']).toContain(both)
    }
  })
})
