/**
 * Administrators open emergency windows. Contract: "The organization's authority" (`/admin/...`: break-glass
 * windows).
 */
import { randomBytes } from 'node:crypto'
import { z } from 'zod'
import { endpoint, type Endpoint } from '../../http/endpoint.ts'
import { plainText } from '../../http/pages.ts'
import { agreedCharter } from '../../rules/agreed-charter.ts'
import { appendActivity } from '../../storage/organization/activity.ts'
import { insertVoucher } from '../../storage/organization/break-glass.ts'
import { readCharterVersion } from '../../storage/organization/charters.ts'
import type { Tx } from '../../storage/organization/database.ts'
import { readMember, type MemberRow } from '../../storage/organization/members.ts'
import { insertNotice } from '../../storage/organization/notices.ts'
import { sha256 } from '../../wire/encoding.ts'
import { asOwner } from '../../wire/identifiers.ts'
import { NAME_PATTERN } from '../../wire/names.ts'
import { refuse } from '../../wire/refusal.ts'
import type { Administration } from '../context.ts'
import { ADMINISTRATOR, changeAs } from './guard.ts'

/** An emergency is minutes long: a voucher that is stolen or forgotten is worth nothing soon after. */
const WINDOW_SECONDS = 300
const WINDOW_SECONDS_MAX = 3_600

export const BREAK_GLASS_WINDOWS: readonly Endpoint<Administration>[] = [
  endpoint({
    method: 'post',
    path: '/admin/break-glass',
    rows: { addedUnder: "The organization's authority" },
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
        await insertVoucher(tx, { voucher_sha256: sha256(voucher), owner, admin: by, reason }, window_s)
        await insertNotice(tx, member, { kind: 'break_glass_opened', resources, reason, by, window_s })
        await appendActivity(tx, { kind: 'break_glass_opened', admin: by, owner, data: { reason, window_s } })
      })
      return answer(201, { voucher, expires_in: window_s })
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
