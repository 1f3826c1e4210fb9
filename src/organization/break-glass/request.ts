/**
 * An agent's request in an emergency, and whether it is allowed, in the fixed order: who lets it in, for
 * whom, and within which clause. Contract: "The organization's authority" (`/break-glass`), "What the service
 * does" (nothing above the owner can widen).
 */
import { z } from 'zod'
import { OutboundFault } from '../../http/outbound/outbound.ts'
import { plainText } from '../../http/servers/pages.ts'
import { agreedCharter, type CharterBinding } from '../../rules/organization/agreed-charter.ts'
import { isNamed } from '../../rules/organization/grant-ceiling.ts'
import { readVoucher } from '../../storage/organization/break-glass.ts'
import { readCharter, readCharterVersion } from '../../storage/organization/charters.ts'
import { readMember, type MemberRow } from '../../storage/organization/members.ts'
import type { Charter } from '../../wire/organization/charter.ts'
import { s256Json, sha256 } from '../../wire/encoding.ts'
import { asOwner } from '../../wire/identifiers.ts'
import { isJsonObject } from '../../wire/json.ts'
import { keyNamed, type PublicKey } from '../../wire/signatures/keys.ts'
import { NAME_PATTERN, WELL_KNOWN } from '../../wire/names.ts'
import { EMERGENCIES_PER_HOUR } from '../../wire/organization/notice.ts'
import { askLater, Refusal, refuse, unavailable } from '../../wire/refusal.ts'
import type { RptOperation } from '../../wire/negotiation/tokens.ts'
import type { Organization } from '../context.ts'

/** Only the form is checked here; reason and operation are judged later in the order. */
export const BREAK_GLASS_REQUEST = z.strictObject({
  owner: z.string().regex(NAME_PATTERN, 'give the name of an owner').transform(asOwner),
  resource: plainText(2_048),
  resource_id: plainText(400),
  scopes: z.array(plainText(200)).min(1).max(50),
  reason: z.string().optional(),
  agent_jwk: z.record(z.string(), z.unknown()),
  operation: z.unknown().optional(),
  voucher: plainText(200).optional(),
  client_id: plainText(2_048).optional(),
  expires_in: z.int().min(1).optional(),
})
export type BreakGlassRequest = z.output<typeof BREAK_GLASS_REQUEST>

/** A request that is allowed, if its signature is fresh and her authority accepts it. */
export interface AllowedEmergency {
  member: MemberRow
  charter: Charter
  charter_version: number
  /** The administrator whose voucher it is, or the origin of the invoker. */
  authorised_by: string
  voucher_sha256: Buffer | undefined
  reason: string | null
  operation: RptOperation
  lifetimeSeconds: number
}

const REASON_MAX = 500

/** Refuses in the fixed order, from `enabled` to reason and operation. */
export async function admit(
  organization: Organization,
  request: BreakGlassRequest,
  key: PublicKey,
): Promise<AllowedEmergency> {
  const db = organization.database.ofNobody
  const inForce = await readCharter(db)
  if (inForce === undefined || !inForce.charter.break_glass.enabled)
    denied('disabled', 'Ask the organization: its charter lets nobody in by an emergency.')
  const authorised_by =
    request.voucher === undefined
      ? await invokerOf(organization, request, { key, invokers: inForce.charter.break_glass.invokers })
      : await voucherOf(organization, { ...request, voucher: request.voucher })
  const member = await readMember(db, request.owner)
  if (member === undefined) refuse('not_found', 'This owner is no member.')
  const { charter } = (await readCharterVersion(db, member.view_version))!
  const agreed = (await readCharterVersion(db, member.agreed_version))!
  const bound = agreedCharter(charter, agreed.charter)
  refuseOutsideClause(organization, request, bound)
  if (request.voucher === undefined && !bound.break_glass.invokers.includes(authorised_by))
    denied('outside_clause', 'Ask for a voucher: the member has not agreed to this invoker.')
  return {
    member,
    charter,
    charter_version: member.view_version,
    authorised_by,
    voucher_sha256: request.voucher === undefined ? undefined : sha256(request.voucher),
    reason: reasonOf(request, bound.break_glass.require_reason),
    operation: operationOf(request),
    lifetimeSeconds: Math.min(request.expires_in ?? Infinity, bound.break_glass.max_expires_in),
  }
}

/** Refuses 403 a scope above the ceiling. */
export function refuseScopes({ envelope: { allowed_scopes } }: Charter, scopes: readonly string[]): void {
  if (allowed_scopes !== null && !scopes.every(scope => allowed_scopes.includes(scope)))
    denied('scope', 'Ask for the scopes that the organization allows.')
}

/** 403 with its code besides `error`. */
export function denied(reason: string, detail: string): never {
  refuse('request_denied', detail, { extra: { reason } })
}

/**
 * A voucher has 256 random bits and cannot be guessed. So wrong ones are not counted, because a limit could
 * keep a valid one out in an emergency.
 */
async function voucherOf(
  { database }: Organization,
  { owner, voucher, client_id }: BreakGlassRequest & { voucher: string },
): Promise<string> {
  if (client_id !== undefined) refuse('invalid_request', 'Send a voucher or a client_id, not both.')
  const reading = await readVoucher(database.ofNobody, sha256(voucher), owner)
  if (reading === undefined) throw wrongVoucher()
  if (reading.held) throw beingUsed()
  return reading.admin
}

/** 403, the same for every fault. */
export function wrongVoucher(): Refusal {
  return new Refusal('request_denied', 'Ask an administrator for a voucher: this one is not valid.', {
    extra: { reason: 'invalid_voucher' },
  })
}

/** 429: her authority takes no more about emergencies within an hour. */
export function tooMany(): Refusal {
  return askLater(
    `Wait: ${EMERGENCIES_PER_HOUR} emergencies at this member within an hour are the most.`,
    600,
  )
}

/** 503: somebody is redeeming it just now, which may fail. */
export function beingUsed(): Refusal {
  return unavailable('Try again shortly: this voucher is being redeemed just now.', 10)
}

/**
 * The origin of the client_id, if it is an invoker that publishes the key; nothing is read from any other.
 */
async function invokerOf(
  { authorityKeys }: Organization,
  { client_id }: BreakGlassRequest,
  { key, invokers }: { key: PublicKey; invokers: readonly string[] },
): Promise<string> {
  if (client_id === undefined) refuse('invalid_request', 'Send a voucher, or the client_id of an invoker.')
  const origin = URL.parse(client_id)?.origin
  if (origin === undefined || !invokers.includes(origin))
    return denied('not_an_invoker', 'Ask an administrator for a voucher: the charter names no such invoker.')
  try {
    const published = await authorityKeys.find(origin + WELL_KNOWN.signatureDirectory, key.thumbprint)
    if (published !== undefined && keyNamed([published], key.thumbprint)) return origin
  } catch (cause) {
    if (!(cause instanceof OutboundFault)) throw cause
    throw unavailable('Try again shortly: the keys of the invoker cannot be fetched.', 5, cause)
  }
  return denied('not_an_invoker', 'Publish the key in the directory of the invoker.')
}

function refuseOutsideClause(
  { enforcementPoints }: Organization,
  { owner, resource, resource_id }: BreakGlassRequest,
  { claims, break_glass }: CharterBinding,
): void {
  const isEnforced = enforcementPoints.some(({ resources }) => resources.get(resource) === owner)
  const isWithin =
    break_glass.enabled && isNamed(claims, resource_id) && isNamed(break_glass.resources, resource_id)
  if (!isWithin || !isEnforced)
    denied(
      'outside_clause',
      'Negotiate with the member’s own authorization server: the clause does not reach this.',
    )
}

function reasonOf({ reason }: BreakGlassRequest, required: boolean): string | null {
  if (reason === undefined) {
    if (required) refuse('invalid_request', 'Send the member "reason": say what the emergency is.')
    return null
  }
  if (reason.length > REASON_MAX || !/^(?=.*\S)[^\p{Cc}\p{Cs}]+$/u.test(reason))
    refuse(
      'invalid_request',
      `Correct the member "reason": give 1 to ${REASON_MAX} characters without control characters.`,
    )
  return reason
}

function operationOf({ operation }: BreakGlassRequest): RptOperation {
  if (!isJsonObject(operation) || Object.keys(operation).some(name => name !== 'tool' && name !== 'params'))
    refuse(
      'invalid_request',
      'Send the member "operation" as {tool, params}: the one call that is to be let through.',
    )
  const { tool, params = {} } = operation
  if (typeof tool !== 'string' || !/^[\x21-\x7e]{1,128}$/.test(tool) || !isJsonObject(params))
    refuse(
      'invalid_request',
      'Correct the member "operation": name a tool, and give its params as an object.',
    )
  return { tool, params_s256: s256Json(params) }
}
