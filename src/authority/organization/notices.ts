/**
 * POST /org/notice: what an organization tells of a member, signed with a key that it publishes, taken once.
 * Contract: "Organization membership, on the member's authorization server", "Authentication" (organization
 * notice), "Events" (row 3).
 */
import { z } from 'zod'
import { endpoint, type Endpoint } from '../../http/endpoint.ts'
import { onBehalfOf } from '../../storage/core/shares.ts'
import type { Tx } from '../../storage/authority/database.ts'
import { dueNow } from '../../storage/authority/due.ts'
import { appendEvent } from '../../storage/authority/events.ts'
import { appendLedger } from '../../storage/authority/ledger.ts'
import { readMembership, updateMembership } from '../../storage/authority/membership.ts'
import { lockQueue, readOwner, spendSignature } from '../../storage/authority/owners.ts'
import { inTransaction } from '../../storage/core/database.ts'
import { sha256 } from '../../wire/encoding.ts'
import { parseJws } from '../../wire/jws.ts'
import { AUTHORITY_PATH } from '../../wire/names.ts'
import { noticeIssuer, verifyNotice, type ReceivedNotice } from '../../wire/notice.ts'
import { refuse, refusingAs } from '../../wire/refusal.ts'
import type { Authority } from '../context.ts'
import { asRefused, end, named } from './membership.ts'

/** Longer than a notice is told again. */
const KEPT_SECONDS = 8 * 86_400

type Noticed = Pick<Authority, 'issuer' | 'database' | 'organizations' | 'now'>

export const NOTICE: Endpoint<Noticed> = endpoint({
  method: 'post',
  path: AUTHORITY_PATH.notice,
  rows: ['organization-notice'],
  summary: 'A notice signed by an organization about a member, verified with its published keys',
  body: { schema: z.strictObject({ notice: z.string().min(1).max(16_384) }) },
  answers: {
    200: {
      says: 'Received, and in effect; a kind that is not known is received and changes nothing.',
      schema: z.object({ received: z.string() }),
    },
  },
  handle: async (authority: Noticed, { body, answer }) => {
    const received = await verified(authority, body.notice)
    await onBehalfOf(received.claims.sub, () => take(authority, received))
    return answer(200, { received: received.kind })
  },
})

/** Refuses 400 for what is no notice, 401 for one that no listed organization signed for us now. */
async function verified(
  { issuer: audience, organizations, now }: Noticed,
  jwt: string,
): Promise<ReceivedNotice> {
  const issuer = noticeIssuer(jwt)
  if (!organizations.issuers.includes(issuer))
    refuse('invalid_token', 'Ask the operator of this server to list your organization.')
  const kid = parseJws(jwt).header['kid']
  const keys = await organizations.keys(issuer, typeof kid === 'string' ? kid : undefined).catch(asRefused)
  return refusingAs('invalid_token', () => verifyNotice(jwt, keys, { issuer, audience, now: now() }))
}

/** Once, in one transaction with what follows from it. */
async function take({ database }: Noticed, received: ReceivedNotice): Promise<void> {
  const { iss, sub: owner, membership: join_id, jti } = received.claims
  if ((await readOwner(database.db, owner)) === undefined)
    refuse('not_found', 'This server has no owner of that name.')
  await inTransaction(database.db, async tx => {
    await lockQueue(tx, owner)
    const membership = await readMembership(tx, owner)
    if (membership?.issuer !== iss) refuse('request_denied', 'She is no member of your organization.')
    if (membership.join_id !== join_id) refuse('conflict', 'That membership has ended; she joined anew.')
    const digest = sha256(JSON.stringify(['notice', iss, jti]))
    if (!(await spendSignature(tx, owner, digest, KEPT_SECONDS)))
      refuse('conflict', 'This notice was received before.')
    await takeEffect(tx, received)
  })
}

/**
 * What is told of a change is never believed to widen: access ends at once, and how she stands is then asked.
 */
async function takeEffect(tx: Tx, { claims: { sub: owner }, notice }: ReceivedNotice): Promise<void> {
  const { view } = (await readMembership(tx, owner))!
  switch (notice?.kind) {
    case 'membership_ended': {
      const said = { ...named(view), by: notice.by }
      await appendLedger(tx, owner, { kind: 'org_left', data: said })
      await appendEvent(tx, owner, 'organization', { what: 'membership_ended', ...said })
      return end(tx, owner, { by: 'organization' })
    }
    case 'role_changed':
      await updateMembership(tx, owner, { loses: true })
      return dueNow(tx, owner, 'view')
    case 'charter_changed':
      return dueNow(tx, owner, 'view')
    case 'break_glass':
      // Nothing is accepted that cannot be shown to her and ended by her: without a yes of this server there
      // is no such grant.
      return refuse('request_denied', 'Emergency grants are not accepted here.')
    case 'break_glass_opened':
    case 'break_glass_used':
    case 'break_glass_void':
    case undefined:
  }
}
