/**
 * Administrators open emergency windows, see which are open, and close them. Contract: "The organization's
 * authority" (`/admin/...`: break-glass windows).
 */
import { randomBytes } from 'node:crypto'
import { z } from 'zod'
import { endpoint, type Endpoint } from '../../http/servers/endpoint.ts'
import { nextLink, PAGE, pageOf, plainText } from '../../http/servers/pages.ts'
import { agreedCharter } from '../../rules/organization/agreed-charter.ts'
import { appendActivity } from '../../storage/organization/activity.ts'
import { closeWindow, insertVoucher, listWindows } from '../../storage/organization/break-glass.ts'
import { readCharterVersion } from '../../storage/organization/charters.ts'
import type { Tx } from '../../storage/organization/database.ts'
import { readMember, type MemberRow } from '../../storage/organization/members.ts'
import { ALONE, insertNotice } from '../../storage/organization/notices.ts'
import { sha256 } from '../../wire/encoding.ts'
import { asOwner } from '../../wire/identifiers.ts'
import { NAME_PATTERN } from '../../wire/names.ts'
import { refuse } from '../../wire/refusal.ts'
import type { Administration } from '../context.ts'
import { ADMINISTRATOR, changeAs } from './guard.ts'

/** An emergency is minutes long: a voucher that is stolen or forgotten is worth nothing soon after. */
const WINDOW_SECONDS = 300
const WINDOW_SECONDS_MAX = 3_600

const rows = { addedUnder: "The organization's authority" } as const

const WINDOW = z
  .strictObject({
    window_id: z.string(),
    owner: z.string(),
    by: z.string(),
    reason: z.string(),
    opened_at: z.string(),
    expires_at: z.string(),
    redeeming: z.boolean(),
  })
  .meta({ id: 'EmergencyWindow' })
const NO_SUCH_WINDOW = 'No window of this id is open.'

export const BREAK_GLASS_WINDOWS: readonly Endpoint<Administration>[] = [
  endpoint({
    method: 'post',
    path: '/admin/break-glass',
    rows,
    summary: 'Opens an emergency window for one call at a member’s; she is told of it',
    credential: ADMINISTRATOR,
    body: {
      schema: z.strictObject({
        owner: z.string().regex(NAME_PATTERN, 'give the name of an owner').transform(asOwner),
        reason: plainText(500),
        window_s: z.int().min(1).max(WINDOW_SECONDS_MAX).default(WINDOW_SECONDS),
      }),
    },
    answers: {
      201: {
        says: 'The voucher, shown once, and how many seconds it may be redeemed for.',
        schema: z.strictObject({ voucher: z.string(), expires_in: z.int() }),
      },
    },
    refuses: { 404: ['not_found'], 409: ['conflict'] },
    handle: async (api: Administration, { caller, body: { owner, reason, window_s }, answer }) => {
      const voucher = `bgv_${randomBytes(32).toString('base64url')}`
      await changeAs(api, caller, async tx => {
        const member = await readMember(tx, owner)
        if (member === undefined) refuse('not_found', 'This owner is no member.')
        const resources = await openResources(tx, member)
        const by = caller.admin
        const row = { voucher_sha256: sha256(voucher), owner, admin: by, reason }
        const window_id = await insertVoucher(tx, row, window_s)
        const notice = { kind: 'break_glass_opened', resources, reason, by, window_s } as const
        await insertNotice(tx, member, notice, ALONE)
        const data = { window_id, reason, window_s }
        await appendActivity(tx, { kind: 'break_glass_opened', admin: by, owner, data })
      })
      return answer(201, { voucher, expires_in: window_s })
    },
  }),
  endpoint({
    method: 'get',
    path: '/admin/break-glass',
    rows,
    summary: 'Emergency windows that can still be redeemed, without their vouchers',
    credential: ADMINISTRATOR,
    query: PAGE,
    answers: {
      200: {
        says: 'By window_id; `redeeming`: her server is being asked about it just now.',
        schema: WINDOW.array(),
      },
    },
    handle: async ({ database }: Administration, { query: { after, limit }, answer }) => {
      const { items, last } = pageOf(await listWindows(database.ofNobody, { after, limit: limit + 1 }), limit)
      const shown = items.map(({ admin, held, ...window }) => ({ ...window, by: admin, redeeming: held }))
      return answer(200, shown, nextLink('/admin/break-glass', last && { after: last.window_id, limit }))
    },
  }),
  endpoint({
    method: 'delete',
    path: '/admin/break-glass/{window_id}',
    rows,
    summary: 'Closes an emergency window: its voucher is dead, also if it is being redeemed just now',
    credential: ADMINISTRATOR,
    parameters: { schema: z.strictObject({ window_id: plainText(64) }), unknown: NO_SUCH_WINDOW },
    answers: { 200: { says: 'Closed.', schema: z.strictObject({ closed: z.string() }) } },
    handle: async (api: Administration, { caller, parameters: { window_id }, answer }) => {
      await changeAs(api, caller, async tx => {
        const closed = await closeWindow(tx, window_id)
        if (closed === undefined) refuse('not_found', NO_SUCH_WINDOW)
        const { owner } = closed
        const data = { window_id }
        await appendActivity(tx, { kind: 'break_glass_closed', admin: caller.admin, owner, data })
      })
      return answer(200, { closed: window_id })
    },
  }),
]

/** The reach of a window, as she agreed to it. */
async function openResources(tx: Tx, { view_version, agreed_version }: MemberRow): Promise<string[]> {
  const inForce = (await readCharterVersion(tx, view_version))!
  const agreed = (await readCharterVersion(tx, agreed_version))!
  const { enabled, resources } = agreedCharter(inForce.charter, agreed.charter).break_glass
  if (!enabled) refuse('conflict', 'Have a charter with an emergency clause, and her agreement to it, first.')
  return resources
}
