/**
 * Joining and leaving an organization, in an order in which nobody is a member here and not there for long:
 * the intent is written first, then the organization is asked, then one transaction makes her a member and
 * cuts her tiers; an intent that is not concluded is taken back. Contract: "Organization membership, on the
 * member's authorization server".
 */
import { randomBytes } from 'node:crypto'
import { ADMINISTRATOR_POWERS, type MemberView } from '../../rules/member-view.ts'
import { enlargements } from '../../rules/membership.ts'
import type { Tx } from '../../storage/authority/database.ts'
import { dueIn, dueNow } from '../../storage/authority/due.ts'
import { appendEvent } from '../../storage/authority/events.ts'
import { appendLedger } from '../../storage/authority/ledger.ts'
import {
  endMembership,
  insertMembership,
  readMembership,
  updateMembership,
  type Membership,
} from '../../storage/authority/membership.ts'
import { beginJoin, endJoin, tellOrganization } from '../../storage/authority/organization-calls.ts'
import { lockQueue } from '../../storage/authority/owners.ts'
import { inTransaction } from '../../storage/core/database.ts'
import type { Owner } from '../../wire/identifiers.ts'
import { Refusal, refuse } from '../../wire/refusal.ts'
import type { OwnerApi } from '../owner/api.ts'
import type { OwnerCredential } from '../owner/credential.ts'
import { changeAs } from '../owner/guard.ts'
import { OrganizationOutage, OrganizationRefusal } from './client.ts'
import { foresee, settle, type TierChange } from './settlement.ts'

const JOIN_ID_BYTES = 24
/**
 * Of one that is asked how it stands again and again, about; the rest is chance, so that owners do not come
 * together.
 */
export const VIEW_SECONDS = 60

/** What she would commit herself to, and what it would change. */
export type Foreseen = MemberView & { changes: TierChange[]; governed_resources: string[] }

/** What an organization said to her code, with what it would change here. Has no effect on either side. */
export async function preview(
  api: OwnerApi,
  owner: Owner,
  { issuer, code }: { issuer: string; code: string },
): Promise<Foreseen> {
  const view = await api.organizations.preview(issuer, { owner, code }).catch(asRefused)
  return foreseen(api, owner, view)
}

async function foreseen({ database }: OwnerApi, owner: Owner, view: MemberView): Promise<Foreseen> {
  const { changes, governed_resources } = await foresee(database.db, owner, { agreed: view, view })
  return { ...view, changes, governed_resources }
}

/** What she agrees to, by the digest of what binds her. */
export interface Agreeing {
  issuer: string
  code: string
  charter_version: number
  binds_s256: string
  administrators_may: readonly string[]
}

/** Makes her a member of exactly what she agreed to, or of nothing. */
export async function join(api: OwnerApi, credential: OwnerCredential, agreeing: Agreeing): Promise<void> {
  const { owner } = credential
  const { issuer, code, charter_version, binds_s256, administrators_may } = agreeing
  const join_id = randomBytes(JOIN_ID_BYTES).toString('base64url')
  await changeAs(api, credential, async tx => {
    if ((await readMembership(tx, owner)) !== undefined) refuseAlreadyMember()
    if (!(await beginJoin(tx, owner, { id: join_id, issuer }))) refuseJoinInProgress()
  })
  const { db } = api.database
  const asked = { owner, code, join_id, charter_version, binds_s256 }
  const joined = await joinSurely(api, issuer, asked).catch(async (error: unknown) => {
    // It said no, so there is nothing to take back.
    if (error instanceof OrganizationRefusal) await endJoin(db, owner, join_id)
    if (error instanceof OrganizationRefusal && error.reason === 'charter_moved')
      refuseMoved(await preview(api, owner, { issuer, code }))
    return asRefused(error)
  })
  const { view, token } = joined
  if (view.binds_s256 !== binds_s256) {
    await inTransaction(db, async tx => {
      await lockQueue(tx, owner)
      await tellOrganization(tx, owner, { id: join_id, kind: 'leave', issuer })
    })
    refuseMoved(await foreseen(api, owner, view))
  }
  await inTransaction(db, async tx => {
    await lockQueue(tx, owner)
    if (!(await endJoin(tx, owner, join_id)))
      refuse('temporarily_unavailable', 'Join again: this one took so long that it was taken back.')
    await insertMembership(tx, owner, { issuer, join_id, token, view, administrators_may })
    await tell(tx, credential, 'org_joined', {
      ...named(view),
      charter_version: view.charter_version,
      binds_s256,
      claims: view.claims,
      administrators_may,
    })
    await settle(tx, owner, by(credential))
    await dueIn(tx, owner, 'view', VIEW_SECONDS)
    await dueNow(tx, owner, 'compliance')
  })
}

/** Once more under the same id, where the first answer was lost: the organization then answers the same. */
function joinSurely(
  { organizations }: OwnerApi,
  issuer: string,
  asked: Parameters<OwnerApi['organizations']['join']>[1],
): ReturnType<OwnerApi['organizations']['join']> {
  return organizations.join(issuer, asked).catch((error: unknown) => {
    if (!(error instanceof OrganizationOutage)) throw error
    return organizations.join(issuer, asked)
  })
}

/** She agrees to what a later version enlarges: to the one that waits, and no other. */
export function agreeAgain(
  api: OwnerApi,
  credential: OwnerCredential,
  { charter_version, binds_s256 }: Pick<Agreeing, 'charter_version' | 'binds_s256'>,
): Promise<void> {
  const { owner } = credential
  return changeAs(api, credential, async tx => {
    const { view } = (await readMembership(tx, owner)) ?? refuseNoMember()
    if (view.charter_version !== charter_version || view.binds_s256 !== binds_s256)
      refuseMoved({ ...view, ...(await foresee(tx, owner, { agreed: view, view })) })
    await updateMembership(tx, owner, { agreed: view })
    await tell(tx, credential, 'org_joined', { ...named(view), charter_version, binds_s256, again: true })
    await settle(tx, owner, by(credential))
    await dueNow(tx, owner, 'compliance')
  })
}

/** Takes powers of administrators away, and never adds one. */
export function restrictAdministrators(
  api: OwnerApi,
  credential: OwnerCredential,
  administrators_may: readonly string[],
): Promise<void> {
  const { owner } = credential
  return changeAs(api, credential, async tx => {
    const membership = (await readMembership(tx, owner)) ?? refuseNoMember()
    if (administrators_may.some(one => !membership.administrators_may.includes(one)))
      refuse(
        'invalid_request',
        'Name only powers that its administrators have: they can be taken away alone.',
      )
    await updateMembership(tx, owner, { administrators_may })
    await tell(tx, credential, 'org_role', { ...named(membership.view), administrators_may })
  })
}

/**
 * Takes back access at once, and leaves every narrowing in place. The organization is told until it has
 * acknowledged it.
 */
export function leave(api: OwnerApi, credential: OwnerCredential): Promise<void> {
  const { owner } = credential
  return changeAs(api, credential, async tx => {
    const membership = (await readMembership(tx, owner)) ?? refuseNoMember()
    await tellOrganization(tx, owner, {
      id: membership.join_id,
      kind: 'leave',
      issuer: membership.issuer,
    })
    await tell(tx, credential, 'org_left', named(membership.view))
    await end(tx, owner, by(credential))
  })
}

/** Ends a membership; whoever ended it has told so. */
export async function end(tx: Tx, owner: Owner, done: Parameters<typeof settle>[2]): Promise<void> {
  await endMembership(tx, owner)
  await settle(tx, owner, done)
}

/** Her answer to an invitation is no, on record, and the organization is told. */
export function decline(api: OwnerApi, credential: OwnerCredential, issuer: string): Promise<void> {
  const { owner } = credential
  return changeAs(api, credential, async tx => {
    const id = randomBytes(JOIN_ID_BYTES).toString('base64url')
    await tellOrganization(tx, owner, { id, kind: 'decline', issuer })
    await appendLedger(tx, owner, { kind: 'org_declined', data: { issuer, ...by(credential) } })
    await dueNow(tx, owner, 'tell')
  })
}

/** What a later version would enlarge, where it waits for her; null where nothing does. */
export function waitingFor(membership: Membership): { version: number; changes: string[] } | null {
  const changes = enlargements(membership)
  return changes.length === 0 ? null : { version: membership.view.charter_version, changes }
}

/** All that administrators may be left. */
export const ALL_POWERS: readonly string[] = ADMINISTRATOR_POWERS

function by({ actor }: OwnerCredential): { by: 'owner'; actor: OwnerCredential['actor'] } {
  return { by: 'owner', actor }
}

/** Which organization, as records name it. */
export function named({ issuer, org, name }: MemberView): { issuer: string; org: string; name: string } {
  return { issuer, org, name }
}

async function tell(
  tx: Tx,
  credential: OwnerCredential,
  kind: 'org_joined' | 'org_left' | 'org_role',
  data: Record<string, unknown>,
): Promise<void> {
  const { owner } = credential
  await appendLedger(tx, owner, { kind, data: { ...data, ...by(credential) } })
  await appendEvent(tx, owner, 'organization', { what: kind, ...data, ...by(credential) })
}

function refuseAlreadyMember(): never {
  refuse('conflict', 'Leave your organization first: you are a member of one.', {
    extra: { reason: 'already_member' },
  })
}

function refuseJoinInProgress(): never {
  refuse('conflict', 'Wait a minute: you are joining already.', { extra: { reason: 'join_in_progress' } })
}

function refuseMoved(now: object): never {
  refuse('conflict', 'Read what it binds you to now, and agree to that: the charter has moved.', {
    extra: { reason: 'charter_moved', preview: now },
  })
}

function refuseNoMember(): never {
  refuse('not_found', 'You are a member of no organization.')
}

/** What an owner is told of what an organization answered: its no, or that it cannot be asked now. */
export function asRefused(cause: unknown): never {
  if (cause instanceof OrganizationOutage)
    throw new Refusal(
      'temporarily_unavailable',
      'Try again shortly: the organization gives no usable answer.',
      {
        headers: { 'retry-after': '5' },
        cause,
      },
    )
  if (!(cause instanceof OrganizationRefusal)) throw cause
  const { status, reason } = cause
  if (reason === 'invalid_code')
    throw new Refusal('request_denied', 'Ask the organization for a code: this one is not good.', {
      extra: { reason },
      cause,
    })
  if (reason === 'already_member')
    throw new Refusal(
      'conflict',
      'The organization knows you as a member from elsewhere: leave there first.',
      {
        extra: { reason },
        cause,
      },
    )
  if (status === 429)
    throw new Refusal('temporarily_unavailable', 'Wait before you try another code.', {
      status: 429,
      headers: { 'retry-after': '60' },
      cause,
    })
  throw new Refusal('request_denied', 'The organization refuses: ask its administrators.', { cause })
}
