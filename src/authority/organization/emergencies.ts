/**
 * The member's side of an emergency of her organization: whether its grant is accepted, and what she sees of
 * each emergency. Contract: "Organization membership, on the member's authorization server" (`/org/notice`),
 * "The organization's authority" (`/break-glass`), "Events".
 */
import { thumbprintHandle } from '../../wire/agents/handles.ts'
import { emergencyFault } from '../../rules/organization/emergency.ts'
import type { Tx } from '../../storage/authority/database.ts'
import {
  countEmergencyNotice,
  endAccepted,
  insertAccepted,
  readEmergencyRecord,
} from '../../storage/authority/membership/emergencies.ts'
import { appendEvent } from '../../storage/authority/ledger/events.ts'
import { appendLedger } from '../../storage/authority/ledger/ledger.ts'
import { spendSignature } from '../../storage/authority/owners/owners.ts'
import type { Membership } from '../../storage/authority/membership/membership.ts'
import type { BreakGlassAcceptance } from '../../wire/organization/break-glass.ts'
import { sha256 } from '../../wire/encoding.ts'
import type { Handle, Owner } from '../../wire/identifiers.ts'
import { EMERGENCIES_PER_HOUR, type Notice, type NoticeClaims } from '../../wire/organization/notice.ts'
import { askLater, refuse } from '../../wire/refusal.ts'
import { named } from './membership.ts'

/** A notice about an emergency, for a membership that is in force; under the lock of its owner's queue. */
export interface Emergency<N extends Notice = EmergencyNotice> {
  readonly claims: NoticeClaims
  readonly notice: N
  readonly membership: Membership
}
type BreakGlassNotice = Extract<Notice, { kind: 'break_glass' }>
type EmergencyNotice = Extract<
  Notice,
  { kind: 'break_glass_opened' | 'break_glass_used' | 'break_glass_void' }
>

/** `refused`: her server says no, and she has it on record. */
export type EmergencyAnswer = BreakGlassAcceptance | 'refused'

/**
 * Refuses 429 what is beyond the bound of an hour and owner: what a hostile organization may write to her
 * ledger and stream is bounded so, and an honest one opens no more. It sends again later what is refused. The
 * caller holds the queue's lock.
 */
export async function admitNotice(tx: Tx, owner: Owner, kind: 'told' | 'asked'): Promise<void> {
  if ((await countEmergencyNotice(tx, owner, kind)) > EMERGENCIES_PER_HOUR)
    throw askLater(
      `Send it again later: ${EMERGENCIES_PER_HOUR} notices about emergencies came within an hour.`,
      600,
    )
}

const THUMBPRINT = /^[\w-]{43}$/

/**
 * Decides about one grant, once, and records the decision either way. Refuses 400 if the notice names no key,
 * and 409 if the grant was decided about before, whichever notice names it.
 */
export async function decideEmergency(
  tx: Tx,
  emergency: Emergency<BreakGlassNotice>,
  { now, retentionSeconds }: { now: number; retentionSeconds: number },
): Promise<EmergencyAnswer> {
  const { claims, notice, membership } = emergency
  const { sub: owner, iss, aud, iat } = claims
  const { grant, reason, authorised_by } = notice
  const { resource_id, cnf_jkt } = grant
  if (!THUMBPRINT.test(cnf_jkt) || [resource_id, authorised_by].some(text => text.includes('\0')))
    refuse('invalid_request', 'Name the key of the grant by its thumbprint, and leave out NUL characters.')
  const digest = sha256(JSON.stringify(['break_glass', iss, grant.jti]))
  if (!(await spendSignature(tx, owner, digest, retentionSeconds)))
    refuse('conflict', 'This grant was decided about before.')
  const record = await readEmergencyRecord(tx, owner, { resource_id, cnf_jkt, authorised_by })
  const because = emergencyFault(membership, { grant, reason, authorised_by, iat }, { ...record, now })
  const { exp, ...grantFacts } = grant
  const handle = thumbprintHandle({ thumbprint: cnf_jkt })
  if (
    because === undefined &&
    !(await insertAccepted(tx, owner, { jti: grant.jti, issuer: iss, resource_id, handle, exp }))
  )
    refuse('conflict', 'A grant of this name was accepted before.')
  await tell(tx, emergency, {
    what: because === undefined ? 'accepted' : 'refused',
    ...(because === undefined ? {} : { because: [because] }),
    admin: authorised_by,
    handle,
    details: { ...grantFacts, expires_at: exp, reason, authorised_by },
  })
  return because === undefined ? { iss: aud, aud: iss, owner, ...grant } : 'refused'
}

/**
 * Tells her of an opening, or how an accepted emergency ended; it changes nothing. Nothing is told of a grant
 * that was never accepted: the void may follow a request that was lost, and a hostile organization may name
 * any.
 */
export async function tellEmergency(tx: Tx, emergency: Emergency): Promise<void> {
  const { claims, notice } = emergency
  if (notice.kind !== 'break_glass_opened') {
    const what = notice.kind === 'break_glass_used' ? 'used' : 'void'
    const { jti } = notice.grant
    // The end of an accepted emergency is news once for each, so their bound is a bound on these notices,
    // too.
    if (!(await endAccepted(tx, claims.sub, { issuer: claims.iss, jti, what }))) return
    return tell(tx, emergency, { what, details: { jti } })
  }
  const { resources, reason, by, window_s } = notice
  const details = { resources, reason, authorised_by: by, window_s }
  return tell(tx, emergency, { what: 'opened', admin: by, details })
}

interface Announcement {
  what: 'opened' | 'accepted' | 'refused' | 'used' | 'void'
  because?: string[]
  /** The party that lets in, if that is known. */
  admin?: string
  handle?: Handle
  details: Record<string, unknown>
}

/** Written to both her ledger and her stream. */
async function tell(
  tx: Tx,
  { claims: { sub: owner }, membership }: Emergency<Notice>,
  { what, because, admin, handle, details }: Announcement,
): Promise<void> {
  const { issuer, org, name } = named(membership.view)
  const actor = { kind: 'organization', org, name, ...(admin === undefined ? {} : { admin }) }
  const data = { what, ...(because && { because }), issuer, ...details, by: 'organization', actor }
  await appendLedger(tx, owner, { kind: 'break_glass', handle, data })
  await appendEvent(tx, owner, 'break_glass', { ...data, ...(handle && { handle }) })
}
