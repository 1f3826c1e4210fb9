/**
 * Joining and leaving an organization. The order ensures that nobody stays a member on one side only: the
 * intent is written first, then the organization is asked, then one transaction makes her a member and cuts
 * her tiers. An intent that is not concluded is taken back. Contract: "Organization membership, on the
 * member's authorization server".
 */
import { randomBytes } from 'node:crypto'
import { readToken } from '../../credentials/oidc.ts'
import { isAssertionTo } from '../../rules/identity-assertion.ts'
import { ADMINISTRATOR_POWERS, shownView, type MemberView } from '../../rules/organization/member-view.ts'
import { enlargements } from '../../rules/organization/membership.ts'
import type { Tx } from '../../storage/authority/database.ts'
import { dueIn, dueNow } from '../../storage/authority/due.ts'
import { appendEvent, appendEvents } from '../../storage/authority/ledger/events.ts'
import { appendLedger, appendLedgerAll } from '../../storage/authority/ledger/ledger.ts'
import {
  endMembership,
  insertMembership,
  readMembership,
  updateMembership,
  type Membership,
} from '../../storage/authority/membership/membership.ts'
import { endAdmittedWithin } from '../../storage/authority/membership/organization-acts.ts'
import {
  beginJoin,
  endJoin,
  tellOrganization,
} from '../../storage/authority/membership/organization-calls.ts'
import { lockQueue, readOwner } from '../../storage/authority/owners/owners.ts'
import { endsLeases } from '../../storage/core/after-commit.ts'
import { inTransaction } from '../../storage/core/database.ts'
import type { Owner } from '../../wire/identifiers.ts'
import type { ShownView } from '../../wire/owner/owner-organization.ts'
import { Refusal, refuse, unavailable } from '../../wire/refusal.ts'
import type { OwnerApi } from '../owner/api.ts'
import type { OwnerCredential } from '../owner/credentials/credential.ts'
import { changeAs } from '../owner/credentials/guard.ts'
import { OrganizationOutage, OrganizationRefusal, type JoinEntry } from './client.ts'
import { warmReach, previewCuts, ungovernAll, applyMembership, type TierChange } from './membership-effect.ts'

const JOIN_ID_BYTES = 24
/**
 * Roughly how often an organization is asked for a member's view. The rest is random, so that owners do not
 * become due together.
 */
export const VIEW_SECONDS = 60

/** What joining would commit her to, and what it would change. */
export type Foreseen = ShownView & { changes: TierChange[]; governed_resources: string[] }

/**
 * An organization's answer to a code or assertion, with what it would change here. This changes nothing on
 * either side.
 */
export async function preview(
  api: OwnerApi,
  owner: Owner,
  { issuer, entry }: { issuer: string; entry: JoinEntry },
): Promise<Foreseen> {
  refuseMisdirected(entry, issuer)
  const view = await api.organizations.preview(issuer, { owner, ...entry }).catch(asRefused)
  return foreseen(api, owner, view)
}

async function foreseen({ database }: OwnerApi, owner: Owner, view: MemberView): Promise<Foreseen> {
  const { changes, governed_resources } = await previewCuts(database.of(owner), owner, { agreed: view, view })
  return { ...shownView(view), changes, governed_resources }
}

/** What she agrees to, by the digest of what binds her. */
export interface Agreeing {
  issuer: string
  entry: JoinEntry
  charter_version: number
  binds_s256: string
  administrators_may: readonly string[]
}

/** Makes her a member under exactly what she agreed to, or not at all. */
export async function join(api: OwnerApi, credential: OwnerCredential, agreeing: Agreeing): Promise<void> {
  const { owner } = credential
  const { issuer, entry, charter_version, binds_s256, administrators_may } = agreeing
  refuseMisdirected(entry, issuer)
  const join_id = randomBytes(JOIN_ID_BYTES).toString('base64url')
  await changeAs(api, credential, async tx => {
    if ((await readMembership(tx, owner)) !== undefined) {
      // Perhaps by a join whose answer was lost: it ended grants on what was hers alone.
      endsLeases(tx, owner)
      refuseAlreadyMember()
    }
    if (!(await beginJoin(tx, owner, { id: join_id, issuer }))) refuseJoinInProgress()
  })
  const db = api.database.of(owner)
  const request = { owner, ...entry, join_id, charter_version, binds_s256 }
  const joined = await joinSurely(api, issuer, request).catch(async (error: unknown) => {
    // The organization refused, so there is nothing to take back.
    if (error instanceof OrganizationRefusal) await endJoin(db, owner, join_id)
    if (error instanceof OrganizationRefusal && error.reason === 'charter_moved')
      refuseMoved(await preview(api, owner, { issuer, entry }))
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
  await warmReach(db, owner, { agreed: view, view })
  await inTransaction(db, async tx => {
    await lockQueue(tx, owner)
    // If she is served here no more, the intent stays, so that the join is taken back.
    const isServed = (await readOwner(tx, owner)) !== undefined
    if (!isServed || !(await endJoin(tx, owner, join_id)))
      refuse('temporarily_unavailable', 'Join again: this join took too long and was taken back.')
    await insertMembership(tx, owner, { issuer, join_id, token, view, administrators_may })
    await tell(tx, credential, 'org_joined', {
      ...named(view),
      charter_version: view.charter_version,
      binds_s256,
      claims: view.claims,
      administrators_may,
    })
    await applyMembership(tx, owner, by(credential))
    await dueIn(tx, owner, 'view', VIEW_SECONDS)
    await dueNow(tx, owner, 'compliance')
  })
}

/**
 * If the first answer was lost, asks once more under the same id: the organization then answers the same. A
 * refusal of the second request does not prove that the first had no effect (a gateway may have sent it). So
 * it counts as an outage: the intent stays, and is taken back.
 */
async function joinSurely(
  { organizations }: OwnerApi,
  issuer: string,
  request: Parameters<OwnerApi['organizations']['join']>[1],
): ReturnType<OwnerApi['organizations']['join']> {
  try {
    return await organizations.join(issuer, request)
  } catch (error) {
    if (!(error instanceof OrganizationOutage)) throw error
  }
  try {
    return await organizations.join(issuer, request)
  } catch (error) {
    if (!(error instanceof OrganizationRefusal)) throw error
    throw new OrganizationOutage('it refused what it may have granted before', { cause: error })
  }
}

/** She agrees to what a later version enlarges: only to the version that waits, and to no other. */
export async function agreeAgain(
  api: OwnerApi,
  credential: OwnerCredential,
  { charter_version, binds_s256 }: Pick<Agreeing, 'charter_version' | 'binds_s256'>,
): Promise<void> {
  const { owner } = credential
  const db = api.database.of(owner)
  const present = (await readMembership(db, owner))?.view
  if (present !== undefined) await warmReach(db, owner, { agreed: present, view: present })
  return changeAs(api, credential, async tx => {
    // Also if she agreed already: the first answer may have been lost.
    endsLeases(tx, owner)
    const { view } = (await readMembership(tx, owner)) ?? refuseNoMember()
    if (view.charter_version !== charter_version || view.binds_s256 !== binds_s256)
      refuseMoved({ ...shownView(view), ...(await previewCuts(tx, owner, { agreed: view, view })) })
    await updateMembership(tx, owner, { agreed: view })
    await tell(tx, credential, 'org_joined', { ...named(view), charter_version, binds_s256, again: true })
    await applyMembership(tx, owner, by(credential))
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
 * Takes back access at once, and leaves every narrowing in place. The organization is told again until it
 * acknowledges.
 */
export function leave(api: OwnerApi, credential: OwnerCredential): Promise<void> {
  const { owner } = credential
  return changeAs(api, credential, async tx => {
    // Also if she is no member any more: the first answer may have been lost.
    endsLeases(tx, owner)
    const membership = (await readMembership(tx, owner)) ?? refuseNoMember()
    await tellOrganization(tx, owner, {
      id: membership.join_id,
      kind: 'leave',
      issuer: membership.issuer,
    })
    await tell(tx, credential, 'org_left', named(membership.view))
    await endMembershipAndReach(tx, owner, by(credential))
  })
}

/**
 * Ends a membership, and with it every connection that its administrators admitted. The caller has recorded
 * who ended it.
 */
export async function endMembershipAndReach(
  tx: Tx,
  owner: Owner,
  done: Parameters<typeof applyMembership>[2],
): Promise<void> {
  await endMembership(tx, owner)
  const { handles, families } = await endAdmittedWithin(tx, owner, done)
  await appendLedgerAll(tx, owner, [
    ...handles.map(handle => ({ kind: 'revoked' as const, handle, data: { ...done } })),
    ...families.map(family => ({ kind: 'denied' as const, family, data: { ...done } })),
  ])
  await appendEvents(tx, owner, [
    ...handles.map(handle => ({ event: 'connection_revoked' as const, data: { handle, ...done } })),
    ...families.map(family => ({
      event: 'decided' as const,
      data: { family, decision: 'denied', ...done },
    })),
  ])
  await ungovernAll(tx, owner)
}

/** Records that she declines an invitation, and the organization is told. */
export function decline(api: OwnerApi, credential: OwnerCredential, issuer: string): Promise<void> {
  const { owner } = credential
  return changeAs(api, credential, async tx => {
    const id = randomBytes(JOIN_ID_BYTES).toString('base64url')
    await tellOrganization(tx, owner, { id, kind: 'decline', issuer })
    await appendLedger(tx, owner, { kind: 'org_declined', data: { issuer, ...by(credential) } })
    await dueNow(tx, owner, 'tell')
  })
}

/** What a later version would enlarge, if one waits for her; null if nothing does. */
export function waitingFor(membership: Membership): { version: number; changes: string[] } | null {
  const changes = enlargements(membership)
  return changes.length === 0 ? null : { version: membership.view.charter_version, changes }
}

/** All powers that administrators can have. */
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

/**
 * An assertion is sent only to the organization that its provider made it for; any other could present it
 * elsewhere in her name.
 */
function refuseMisdirected(entry: JoinEntry, issuer: string): void {
  if ('assertion' in entry && !isForOnly(entry.assertion, issuer))
    refuse('request_denied', 'Get an identity assertion whose only audience is the organization.', {
      extra: { reason: 'invalid_assertion' },
    })
}

function isForOnly(assertion: string, issuer: string): boolean {
  try {
    return isAssertionTo(readToken(assertion), issuer)
  } catch (error) {
    if (error instanceof Refusal) return false
    throw error
  }
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

/** The answer to the owner if the organization refused, or cannot be asked now. */
export function asRefused(cause: unknown): never {
  if (cause instanceof OrganizationOutage)
    throw unavailable('Try again shortly: the organization gives no usable answer.', 5, cause)
  if (!(cause instanceof OrganizationRefusal)) throw cause
  const { status, reason } = cause
  if (reason === 'invalid_code')
    throw new Refusal('request_denied', 'Ask the organization for a code: this one is not valid.', {
      extra: { reason },
      cause,
    })
  if (reason === 'invalid_assertion')
    throw new Refusal(
      'request_denied',
      'Get a fresh assertion, or a code: its identity provider does not vouch for you by this one.',
      { extra: { reason }, cause },
    )
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
    throw new Refusal('temporarily_unavailable', 'Wait before you try another code or assertion.', {
      status: 429,
      headers: { 'retry-after': '60' },
      cause,
    })
  throw new Refusal('request_denied', 'The organization refuses: ask its administrators.', { cause })
}
