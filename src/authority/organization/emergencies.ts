/**
 * The member's side of an emergency of her organization: whether its grant is accepted, and what she sees of
 * each emergency. Contract: "Organization membership, on the member's authorization server" (`/org/notice`),
 * "The organization's authority" (`/break-glass`), "Events".
 */
import { emergencyFault } from '../../rules/emergency.ts'
import type { Tx } from '../../storage/authority/database.ts'
import { readEmergencyRecord } from '../../storage/authority/emergencies.ts'
import { appendEvent } from '../../storage/authority/events.ts'
import { appendLedger } from '../../storage/authority/ledger.ts'
import { spendSignature } from '../../storage/authority/owners.ts'
import type { Membership } from '../../storage/authority/membership.ts'
import type { BreakGlassAcceptance } from '../../wire/break-glass.ts'
import { sha256 } from '../../wire/encoding.ts'
import { asHandle, type Handle } from '../../wire/identifiers.ts'
import type { Notice, NoticeClaims } from '../../wire/notice.ts'
import { refuse } from '../../wire/refusal.ts'
import { named } from './membership.ts'

/** A notice about an emergency, for a membership that stands; under the lock of its owner's queue. */
export interface Emergency<N extends Notice = EmergencyNotice> {
  readonly claims: NoticeClaims
  readonly notice: N
  readonly membership: Membership
}
type Asking = Extract<Notice, { kind: 'break_glass' }>
type EmergencyNotice = Extract<
  Notice,
  { kind: 'break_glass_opened' | 'break_glass_used' | 'break_glass_void' }
>

/** `refused`: her server says no, and she has it on record. */
export type Decision = BreakGlassAcceptance | 'refused'

const THUMBPRINT = /^[\w-]{43}$/

/**
 * Decides about one grant, once, and records the decision either way. Refuses 400 if the notice names no key,
 * and 409 if the grant was decided about before, whichever notice names it.
 */
export async function decideEmergency(
  tx: Tx,
  emergency: Emergency<Asking>,
  { now, keptSeconds }: { now: number; keptSeconds: number },
): Promise<Decision> {
  const { claims, notice, membership } = emergency
  const { sub: owner, iss, aud, iat } = claims
  const { grant, reason, authorised_by } = notice
  const { resource_id, cnf_jkt } = grant
  if (!THUMBPRINT.test(cnf_jkt) || [resource_id, authorised_by].some(text => text.includes('\0')))
    refuse('invalid_request', 'Name the key of the grant by its thumbprint, and leave out NUL characters.')
  const digest = sha256(JSON.stringify(['break_glass', iss, grant.jti]))
  if (!(await spendSignature(tx, owner, digest, keptSeconds)))
    refuse('conflict', 'This grant was decided about before.')
  const record = await readEmergencyRecord(tx, owner, { resource_id, cnf_jkt, authorised_by })
  const because = emergencyFault(membership, { grant, reason, authorised_by, iat }, { ...record, now })
  const { exp, ...given } = grant
  await tell(tx, emergency, {
    what: because === undefined ? 'accepted' : 'refused',
    ...(because === undefined ? {} : { because: [because] }),
    admin: authorised_by,
    handle: asHandle(`jkt:${cnf_jkt}`),
    said: { ...given, expires_at: exp, reason, authorised_by },
  })
  return because === undefined ? { iss: aud, aud: iss, owner, ...grant } : 'refused'
}

/** Tells her how an emergency ended; it changes nothing. */
export async function tellEmergency(tx: Tx, emergency: Emergency): Promise<void> {
  const { notice } = emergency
  if (notice.kind !== 'break_glass_opened')
    return tell(tx, emergency, {
      what: notice.kind === 'break_glass_used' ? 'used' : 'void',
      said: { jti: notice.grant.jti },
    })
  const { resources, reason, by, window_s } = notice
  const said = { resources, reason, authorised_by: by, window_s }
  return tell(tx, emergency, { what: 'opened', admin: by, said })
}

interface Told {
  what: 'opened' | 'accepted' | 'refused' | 'used' | 'void'
  because?: string[]
  /** The party that lets in, if that is known. */
  admin?: string
  handle?: Handle
  said: Record<string, unknown>
}

/** Written to both her ledger and her stream. */
async function tell(
  tx: Tx,
  { claims: { sub: owner }, membership }: Emergency<Notice>,
  { what, because, admin, handle, said }: Told,
): Promise<void> {
  const { issuer, org, name } = named(membership.view)
  const actor = { kind: 'organization', org, name, ...(admin === undefined ? {} : { admin }) }
  const data = { what, ...(because && { because }), issuer, ...said, by: 'organization', actor }
  await appendLedger(tx, owner, { kind: 'break_glass', handle, data })
  await appendEvent(tx, owner, 'break_glass', { ...data, ...(handle && { handle }) })
}
