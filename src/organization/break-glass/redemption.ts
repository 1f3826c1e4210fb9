/**
 * From an admitted request to a grant: it is held first, sent to her authorization server, and live only
 * with that server's signed acceptance, in time. Contract: "The organization's authority" (`/break-glass`),
 * "Organization membership, on the member's authorization server" (`/org/notice`).
 */
import { randomBytes, randomUUID } from 'node:crypto'
import { setTimeout as delay } from 'node:timers/promises'
import { LATE, waitAtMost } from '../../limits/patience.ts'
import { acceptsGrant } from '../../rules/organization/break-glass.ts'
import { inTransaction } from '../../storage/core/database.ts'
import { appendActivity } from '../../storage/organization/activity.ts'
import {
  activateGrant,
  freeVoucher,
  holdVoucher,
  insertPendingGrant,
  readVoucher,
  spendVoucher,
  voidGrant,
} from '../../storage/organization/break-glass.ts'
import { lockHead } from '../../storage/organization/charters.ts'
import type { Tx } from '../../storage/organization/database.ts'
import { ALONE, insertNotice, isOpeningUntold, type Addressee } from '../../storage/organization/notices.ts'
import { verifyBreakGlassAcceptance, type BreakGlassClaims } from '../../wire/organization/break-glass.ts'
import { sha256 } from '../../wire/encoding.ts'
import { asFamily, type Owner } from '../../wire/identifiers.ts'
import { signJws } from '../../wire/signatures/jws.ts'
import { thumbprintHandle } from '../../wire/agents/handles.ts'
import { aliasIn, AUTHORITY_PATH, ORGANIZATION_ALIAS, TYP } from '../../wire/names.ts'
import type { BreakGlassGrant } from '../../wire/organization/notice.ts'
import { Refusal } from '../../wire/refusal.ts'
import type { Organization } from '../context.ts'
import { spendOnce } from '../member/authority.ts'
import type { Asker } from './asker.ts'
import {
  beingUsed,
  denied,
  refuseScopes,
  tooMany,
  wrongVoucher,
  type AllowedEmergency,
  type BreakGlassRequest,
} from './request.ts'

const ACCEPTANCE_TIMEOUT_MS = 5_000
const VOUCHER_RESERVATION_SECONDS = 10

/** Her authority certainly said no: to this grant, or because it cannot take it now. */
const REFUSED = Symbol('refused')
const NOT_TAKEN = Symbol('not taken')
type AuthorityReply = string | typeof REFUSED | typeof NOT_TAKEN

export interface Redemption extends Asker, AllowedEmergency {
  request: BreakGlassRequest
  /** The digest of the request as it was sent. */
  bodyDigest: string
}

/** The token, and for how many seconds it is valid. */
export interface Redeemed {
  token: string
  expires_in: number
}

/**
 * Throws 409 if the signature was seen before, 403 for scopes or if her authority refuses, 503 if her
 * authority does not accept in time; in each case nothing is granted.
 */
export async function redeem(organization: Organization, redemption: Redemption): Promise<Redeemed> {
  const grant = grantOf(redemption, organization.now())
  await hold(organization, redemption, grant)
  await awaitOpeningNotice(organization, redemption)
  const reply = await askAuthority(organization, redemption, grant).catch((error: unknown) => {
    organization.log.warn({ err: error, jti: grant.jti }, 'an emergency was not accepted')
    return undefined
  })
  if (reply === undefined || reply === REFUSED || reply === NOT_TAKEN) {
    await giveUp(organization, redemption, { jti: grant.jti, isDefinite: reply !== undefined })
    if (reply === REFUSED)
      return denied(
        'not_accepted',
        'Negotiate with the member’s own authorization server: it accepts no emergency here.',
      )
    throw reply === NOT_TAKEN ? tooMany() : unanswered()
  }
  return makeLive(organization, redemption, { grant, accepted: reply })
}

/** How long an emergency waits at most for her server to be told that its window was opened. */
const OPENING_NOTICE_TIMEOUT_MS = 2_000
const OPENING_PAUSE_MS = 20

/**
 * Her ledger should say that a window was opened before it says what it was used for, so that goes first. If
 * the notice cannot be delivered, the emergency continues all the same.
 */
async function awaitOpeningNotice(
  { database }: Organization,
  { member, voucher_sha256 }: Pick<Redemption, 'member' | 'voucher_sha256'>,
): Promise<void> {
  if (voucher_sha256 === undefined) return
  const until = performance.now() + OPENING_NOTICE_TIMEOUT_MS
  while ((await isOpeningUntold(database.ofNobody, member)) && performance.now() < until)
    await delay(OPENING_PAUSE_MS)
}

function grantOf({ request, key, operation, lifetimeSeconds }: Redemption, now: number): BreakGlassGrant {
  return {
    jti: `rpt_${randomBytes(16).toString('base64url')}`,
    resource_id: request.resource_id,
    scopes: [...new Set(request.scopes)],
    cnf_jkt: key.thumbprint,
    operation,
    exp: now + lifetimeSeconds,
  }
}

function hold(
  { database }: Organization,
  redemption: Redemption,
  { jti, exp }: BreakGlassGrant,
): Promise<void> {
  const { request, member, voucher_sha256, charter, signature } = redemption
  const { owner, join_id: membership } = member
  return inTransaction(database.ofNobody, async tx => {
    await spendOnce(tx, signature, 'conflict')
    refuseScopes(charter, request.scopes)
    if (voucher_sha256 !== undefined) await holdOrRefuse(tx, { voucher_sha256, owner, jti })
    await insertPendingGrant(tx, { jti, owner, membership, aud: request.resource, expires_at: exp })
  })
}

/** If there are several at once, one holds it; the others wait for the outcome, unless it is spent by now. */
async function holdOrRefuse(
  tx: Tx,
  voucher: { voucher_sha256: Buffer; owner: Owner; jti: string },
): Promise<void> {
  if (await holdVoucher(tx, voucher, VOUCHER_RESERVATION_SECONDS)) return
  if ((await readVoucher(tx, voucher.voucher_sha256, voucher.owner)) === undefined) throw wrongVoucher()
  throw beingUsed()
}

/**
 * Her authority's signed acceptance, verified; `REFUSED` if it certainly refused. Throws in any other case.
 */
async function askAuthority(
  organization: Organization,
  { member, reason, authorised_by }: Redemption,
  grant: BreakGlassGrant,
): Promise<AuthorityReply> {
  const { owner, as_uri, join_id } = member
  const notice = { kind: 'break_glass' as const, grant, reason, authorised_by }
  const message = {
    sub: owner,
    membership: join_id,
    jti: `ntc_${randomUUID().replaceAll('-', '')}`,
    as_uri,
    notice,
  }
  const asking = async (): Promise<AuthorityReply> => {
    const { status, body } = await organization.notices.send(message, { timeoutMs: ACCEPTANCE_TIMEOUT_MS })
    if (status === 403) return REFUSED
    // It says so itself: nothing was decided, so there is nothing to take back.
    if (status === 429) return NOT_TAKEN
    const accepted = body?.['accepted']
    if (status !== 200 || typeof accepted !== 'string')
      throw new Error(`the authority answered ${status} without a yes`)
    await verifyAccepted(organization, accepted, { member, grant })
    return accepted
  }
  const reply = await waitAtMost(ACCEPTANCE_TIMEOUT_MS, asking())
  if (reply === LATE) throw new Error('the authority gave no answer in time')
  return reply
}

/**
 * The enforcement point checks the redeemed grant in the same way: an invalid acceptance would only be spent
 * for nothing.
 */
async function verifyAccepted(
  organization: Organization,
  accepted: string,
  { member, grant }: { member: { owner: string; as_uri: string }; grant: BreakGlassGrant },
): Promise<void> {
  const { issuer, authorityKeys, aliases } = organization
  const { owner, as_uri } = member
  const keys = await authorityKeys.keys(as_uri + AUTHORITY_PATH.jwks)
  const claims = verifyBreakGlassAcceptance(accepted, keys, {
    authority: as_uri,
    organization: issuer,
    now: organization.now(),
    typAlias: aliasIn(aliases, ORGANIZATION_ALIAS.breakGlassAcceptedTyp),
  })
  const { jti, resource_id, scopes, exp, cnf_jkt, operation } = grant
  const permissions = [{ resource_id, resource_scopes: scopes, exp }]
  if (!acceptsGrant(claims, { owner, jti, permissions, cnf_jkt, operation, single_use: true }))
    throw new Error('the authority accepted another grant')
}

async function makeLive(
  organization: Organization,
  redemption: Redemption,
  { grant, accepted }: { grant: BreakGlassGrant; accepted: string },
): Promise<Redeemed> {
  const { keys, database } = organization
  const { member, voucher_sha256, authorised_by, reason } = redemption
  const { jti, exp, resource_id } = grant
  const iat = exp - redemption.lifetimeSeconds
  const claims = {
    ...claimsOf(organization, redemption, grant),
    iat,
    break_glass: breakGlassOf(organization, redemption, accepted),
  }
  const token = signJws({ typ: TYP.rpt, payload: claims }, keys[0])
  const isLive = await inTransaction(database.ofNobody, async tx => {
    await lockHead(tx)
    const mayRedeem = voucher_sha256 === undefined || (await spendVoucher(tx, jti))
    if (!mayRedeem || !(await activateGrant(tx, { jti, rpt_sha256: sha256(token), claims }))) return false
    const data = { jti, resource_id, reason, authorised_by }
    await appendActivity(tx, { kind: 'break_glass_redeemed', owner: member.owner, data })
    return true
  })
  if (isLive) return { token, expires_in: exp - organization.now() }
  await giveUp(organization, redemption, { jti, isDefinite: false })
  throw unanswered()
}

function claimsOf(
  { issuer }: Organization,
  { request, key, operation, bodyDigest }: Redemption,
  { jti, resource_id, scopes, exp }: BreakGlassGrant,
): Omit<BreakGlassClaims, 'iat' | 'break_glass'> {
  const handle = thumbprintHandle(key)
  return {
    iss: issuer,
    sub: handle,
    client_id: handle,
    aud: request.resource,
    jti,
    exp,
    cnf: { jwk: { kty: 'OKP', crv: 'Ed25519', x: key.x } },
    permissions: [{ resource_id, resource_scopes: scopes, exp }],
    contract: bodyDigest,
    owner: request.owner,
    family: asFamily(`bg_${randomBytes(12).toString('base64url')}`),
    single_use: true,
    operation,
  }
}

function breakGlassOf(
  { id }: Organization,
  { reason, authorised_by, charter_version }: Redemption,
  accepted: string,
) {
  return { org: id, reason, authorised_by, charter_version, accepted }
}

/**
 * Nothing is granted. A voucher is free again at once after a refusal, and otherwise when the time for an
 * acceptance has certainly passed.
 */
async function giveUp(
  { database }: Organization,
  { member }: Redemption,
  { jti, isDefinite }: { jti: string; isDefinite: boolean },
): Promise<void> {
  await inTransaction(database.ofNobody, async tx => {
    await lockHead(tx)
    if (isDefinite) await freeVoucher(tx, jti)
    await makeVoid(tx, { jti, to: member, needsNotice: !isDefinite })
  })
}

/** Ends a held grant under the lock of the head, and notifies her authority if it may have accepted it. */
export async function makeVoid(
  tx: Tx,
  { jti, to, needsNotice }: { jti: string; to: Addressee; needsNotice: boolean },
): Promise<void> {
  if (!(await voidGrant(tx, jti))) return
  if (needsNotice) await insertNotice(tx, to, { kind: 'break_glass_void', grant: { jti } }, ALONE)
  await appendActivity(tx, { kind: 'break_glass_voided', owner: to.owner, data: { jti } })
}

function unanswered(): Refusal {
  return new Refusal(
    'temporarily_unavailable',
    'Try again in a while: the member’s authorization server gave no answer in time, and nothing was granted.',
    { headers: { 'retry-after': String(VOUCHER_RESERVATION_SECONDS) } },
  )
}
