/**
 * Whether a grant that the organization signed is live, and how it is spent, for the enforcement point of its
 * resource. Contract: "The organization's authority" (`/introspect`, `/consume`: as a member's authority
 * answers), "Grant (RPT) liveness", "Single-use grant".
 */
import { endpoint, type Endpoint } from '../../http/servers/endpoint.ts'
import { consumeError, livenessReason, type LivenessFacts } from '../../rules/grant-end.ts'
import { inTransaction } from '../../storage/core/database.ts'
import { appendActivity } from '../../storage/organization/activity.ts'
import {
  consumeBreakGlass,
  readGrantByRpt,
  type BreakGlassReading,
} from '../../storage/organization/break-glass.ts'
import { lockHead } from '../../storage/organization/charters.ts'
import { readMember } from '../../storage/organization/members.ts'
import { ALONE, insertNotice } from '../../storage/organization/notices.ts'
import { CONSUMED, INTROSPECTED, TOKEN_QUERY } from '../../surface/introspection.ts'
import { sha256 } from '../../wire/encoding.ts'
import { ORGANIZATION_PATH } from '../../wire/names.ts'
import { refuse } from '../../wire/refusal.ts'
import { verifyRpt } from '../../wire/negotiation/tokens.ts'
import type { Organization } from '../context.ts'
import { ENFORCEMENT_POINT, type Enforcing } from './guard.ts'

const query = { credential: ENFORCEMENT_POINT, body: { schema: TOKEN_QUERY, form: true } } as const
const headers = { 'cache-control': 'no-store' }

export const SIGNED_GRANTS: readonly Endpoint<Organization>[] = [
  endpoint({
    ...query,
    method: 'post',
    path: ORGANIZATION_PATH.introspect,
    rows: ['org-introspect-consume'],
    summary: 'Whether a grant of an emergency window is live (RFC 7662); never consumes',
    answers: { 200: { says: 'Live with its permissions, or why not.', schema: INTROSPECTED, headers } },
    handle: async (organization: Organization, { caller, body, answer }) => {
      const reading = await readGrantByRpt(organization.database.ofNobody, sha256(body.token))
      const reason = livenessReason(factsOf(organization, { reading, caller, token: body.token }))
      if (reason !== undefined) return answer(200, { active: false, reason, error: reason })
      return answer(200, { active: true as const, ...reading!.claims! })
    },
  }),
  endpoint({
    ...query,
    method: 'post',
    path: ORGANIZATION_PATH.consume,
    rows: ['org-introspect-consume'],
    summary: 'Spends a grant of an emergency window; atomic, and told to the member’s authorization server',
    answers: { 200: { says: 'Spent by this call, or why not.', schema: CONSUMED, headers } },
    handle: async (organization: Organization, { caller, body: { token }, answer }) => {
      const digest = sha256(token)
      const reading = await readGrantByRpt(organization.database.ofNobody, digest)
      const facts = factsOf(organization, { reading, caller, token })
      if (facts.known && (await spend(organization, reading!, digest)))
        return answer(200, { consumed: true, family: reading!.claims!.family })
      const now = await readGrantByRpt(organization.database.ofNobody, digest)
      const error = consumeError(factsOf(organization, { reading: now, caller, token }), true)
      if (error === undefined)
        refuse('temporarily_unavailable', 'Ask again: the grant changed while it was being spent.')
      return answer(200, { consumed: false, error })
    },
  }),
]

/** Spends it and tells her, in one step. @returns whether this call spent it. */
function spend(
  { database }: Organization,
  { jti, owner }: BreakGlassReading,
  digest: Buffer,
): Promise<boolean> {
  return inTransaction(database.ofNobody, async tx => {
    await lockHead(tx)
    if (!(await consumeBreakGlass(tx, digest))) return false
    await insertNotice(
      tx,
      (await readMember(tx, owner))!,
      { kind: 'break_glass_used', grant: { jti } },
      ALONE,
    )
    await appendActivity(tx, { kind: 'break_glass_used', owner, data: { jti } })
    return true
  })
}

interface PresentedGrant {
  reading: BreakGlassReading | undefined
  caller: Enforcing
  token: string
}

/**
 * If the resource does not belong to the calling enforcement point, the grant is unknown to it, whatever its
 * state.
 */
function factsOf({ keys }: Organization, { reading, caller, token }: PresentedGrant): LivenessFacts {
  const known = reading !== undefined && caller.resources.get(reading.aud) === reading.owner
  const facts = { signatureValid: reading !== undefined || isOurs(keys, token), known }
  if (!known) return facts
  const ended = reading.stands ? null : ('organization_revoked' as const)
  return { ...facts, ended, consumed: reading.state !== 'live', expired: reading.expired }
}

function isOurs(keys: Organization['keys'], token: string): boolean {
  try {
    verifyRpt(token, keys)
    return true
  } catch {
    return false
  }
}
