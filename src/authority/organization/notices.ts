/**
 * POST /org/notice: what an organization tells about a member, signed with a key that it publishes, accepted
 * once. Contract: "Organization membership, on the member's authorization server", "Authentication"
 * (organization notice), "Events" (row 3).
 */
import { z } from 'zod'
import { endpoint, type Endpoint } from '../../http/servers/endpoint.ts'
import type { Tx } from '../../storage/authority/database.ts'
import { dueNow } from '../../storage/authority/due.ts'
import { appendEvent } from '../../storage/authority/ledger/events.ts'
import { appendLedger } from '../../storage/authority/ledger/ledger.ts'
import {
  readMembership,
  updateMembership,
  type Membership,
} from '../../storage/authority/membership/membership.ts'
import {
  countSpentWithinHour,
  lockQueue,
  readOwner,
  spendSignature,
} from '../../storage/authority/owners/owners.ts'
import { endsLeases } from '../../storage/core/after-commit.ts'
import { inTransaction } from '../../storage/core/database.ts'
import { refuseWhileOff } from '../../surface/clock.ts'
import { signBreakGlassAcceptance } from '../../wire/organization/break-glass.ts'
import { sha256 } from '../../wire/encoding.ts'
import type { Owner } from '../../wire/identifiers.ts'
import { parseJws } from '../../wire/signatures/jws.ts'
import { ALIAS, aliasIn, AUTHORITY_PATH, NAME_PATTERN } from '../../wire/names.ts'
import {
  NOTICE_BYTES_MAX,
  NOTICES_PER_HOUR,
  noticeIssuer,
  verifyNotice,
  type ReceivedNotice,
} from '../../wire/organization/notice.ts'
import { askLater, refuse, refusingAs } from '../../wire/refusal.ts'
import type { Authority } from '../context.ts'
import { admitNotice, decideEmergency, tellEmergency, type EmergencyAnswer } from './emergencies.ts'
import { asRefused, endMembershipAndReach, named } from './membership.ts'

/** How long a notice is remembered: longer than an organization repeats it. */
const NOTICE_RETENTION_SECONDS = 8 * 86_400

type Noticed = Pick<
  Authority,
  'issuer' | 'aliases' | 'keys' | 'database' | 'organizations' | 'clearances' | 'clock' | 'now'
>

export const NOTICE: Endpoint<Noticed> = endpoint({
  method: 'post',
  path: AUTHORITY_PATH.notice,
  rows: ['organization-notice'],
  summary: 'A notice signed by an organization about a member, verified with its published keys',
  body: { schema: z.strictObject({ notice: z.string().min(1).max(NOTICE_BYTES_MAX) }) },
  answers: {
    200: {
      says: 'Received, and in effect; a kind that is not known is received and changes nothing. `accepted` is the signed yes to a `break_glass`.',
      schema: z.object({ received: z.string(), accepted: z.string().optional() }),
    },
  },
  refuses: {
    401: ['invalid_token'],
    403: ['request_denied'],
    404: ['not_found'],
    409: ['conflict'],
    429: ['temporarily_unavailable'],
  },
  handle: async (authority: Noticed, { body, answer }) => {
    const received = await verified(authority, body.notice)
    // Her server's yes is a part of the grant, so it is issued here. A notice that ends something is taken
    // all the same.
    if (received.notice?.kind === 'break_glass') refuseWhileOff(authority.clock)
    const decision = await take(authority, received)
    authority.clearances.forget(received.claims.sub)
    // One code for every reason, because the organization may not know what she ended or blocked.
    if (decision === 'refused') refuse('request_denied', 'This emergency is not accepted.')
    const accepted = decision && { accepted: signBreakGlassAcceptance(decision, authority.keys[0]) }
    return answer(200, { received: received.kind, ...accepted })
  },
})

/** Refuses 400 if it is no notice, 401 if no listed organization signed it for this server now. */
async function verified(
  { issuer: audience, organizations, now, aliases }: Noticed,
  jwt: string,
): Promise<ReceivedNotice> {
  const typAlias = aliasIn(aliases, ALIAS.noticeTyp)
  const issuer = noticeIssuer(jwt)
  if (!organizations.issuers.includes(issuer))
    refuse('invalid_token', 'Ask the operator of this server to list your organization.')
  const kid = parseJws(jwt, NOTICE_BYTES_MAX).header['kid']
  const keys = await organizations.keys(issuer, typeof kid === 'string' ? kid : undefined).catch(asRefused)
  return refusingAs('invalid_token', () =>
    verifyNotice(jwt, keys, { issuer, audience, now: now(), typAlias }),
  )
}

/**
 * Accepts it once, in one transaction with what follows from it. A refused emergency counts as accepted, too.
 */
async function take(
  { database, now }: Noticed,
  received: ReceivedNotice,
): Promise<EmergencyAnswer | undefined> {
  const { iss, sub: owner, membership: join_id, jti } = received.claims
  const db = database.of(owner)
  if (!NAME_PATTERN.test(owner) || (await readOwner(db, owner)) === undefined)
    refuse('not_found', 'This server has no owner of that name.')
  return inTransaction(db, async tx => {
    await lockQueue(tx, owner)
    if (endsSomething(received)) endsLeases(tx, owner)
    const membership = await readMembership(tx, owner)
    if (membership?.issuer !== iss) refuse('request_denied', 'She is no member of your organization.')
    if (membership.join_id !== join_id) refuse('conflict', 'That membership has ended; she joined again.')
    const digest = sha256(JSON.stringify(['notice', iss, jti]))
    if (!(await spendSignature(tx, owner, digest, NOTICE_RETENTION_SECONDS)))
      refuse('conflict', 'This notice was received before.')
    const { claims, notice } = received
    if (notice === undefined || notice.kind === 'charter_changed') await admitWord(tx, owner)
    if (notice?.kind === 'break_glass_opened') await admitNotice(tx, owner, 'told')
    if (notice?.kind === 'break_glass') await admitNotice(tx, owner, 'asked')
    if (notice?.kind === 'break_glass')
      return decideEmergency(
        tx,
        { claims, notice, membership },
        { now: now(), retentionSeconds: NOTICE_RETENTION_SECONDS },
      )
    await takeEffect(tx, received, membership)
    return undefined
  })
}

/**
 * Refuses 429 what changes nothing by itself, if more came within an hour than an honest organization has to
 * tell. It sends that again later, and her view is read each minute anyway.
 */
async function admitWord(tx: Tx, owner: Owner): Promise<void> {
  const countTo = NOTICES_PER_HOUR + 1
  if (
    (await countSpentWithinHour(tx, owner, { retentionSeconds: NOTICE_RETENTION_SECONDS, countTo })) < countTo
  )
    return
  throw askLater(`Send it again later: ${NOTICES_PER_HOUR} notices came within an hour.`, 600)
}

/** Also of one that comes again, and is refused: the first answer may have been lost. */
function endsSomething({ notice }: ReceivedNotice): boolean {
  return notice?.kind === 'membership_ended' || notice?.kind === 'role_changed'
}

/**
 * A notice is never believed to widen anything: access ends at once, and then the organization is asked for
 * her standing.
 */
async function takeEffect(tx: Tx, { claims, notice }: ReceivedNotice, membership: Membership): Promise<void> {
  const { sub: owner } = claims
  switch (notice?.kind) {
    case 'membership_ended': {
      // Text that the organization chose could pass as hers.
      const facts = {
        ...named(membership.view),
        by: notice.by === 'administrator' ? notice.by : 'organization',
      }
      await appendLedger(tx, owner, { kind: 'org_left', data: facts })
      await appendEvent(tx, owner, 'organization', { what: 'membership_ended', ...facts })
      return endMembershipAndReach(tx, owner, { by: 'organization' })
    }
    case 'role_changed':
      await updateMembership(tx, owner, { loses: true })
      return dueNow(tx, owner, 'view')
    case 'charter_changed':
      return dueNow(tx, owner, 'view')
    case 'break_glass_opened':
    case 'break_glass_used':
    case 'break_glass_void':
      return tellEmergency(tx, { claims, notice, membership })
    case 'break_glass':
    case undefined:
  }
}
