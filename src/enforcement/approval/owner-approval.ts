/**
 * Owns the check that a call matches the decision that the owner signed, for tools that require one.
 * Contract: "Authorized call", order 4; docs/choices.md. An attacker who controls her authority, its keys and
 * its database cannot make such a decision. The rule itself is `src/rules/approved-call.ts`.
 */
import { approvalFault, type CallToApprove } from '../../rules/approved-call.ts'
import type { Permission } from '../../rules/permission.ts'
import { readStatement, verifyStatement, type StatementClaims } from '../../wire/owner/decision-statement.ts'
import { s256Json } from '../../wire/encoding.ts'
import type { Json } from '../../wire/json.ts'
import { Refusal } from '../../wire/refusal.ts'
import { within, type Deadline } from '../deadline.ts'
import type { LiveGrant } from '../introspection.ts'
import type { ToolRequest } from '../request/call-request.ts'
import { takeInTime, type Mark, type Marks } from './use-marks.ts'
import type { PinnedKeysFile } from './pinned-keys.ts'

/** Whose decisions a tool accepts, and where used ones are marked. */
export interface ToolApproval {
  readonly keys: PinnedKeysFile
  readonly marks: Marks
}

/**
 * A call that has reached the fourth step, and what the route knows about it. `now` in seconds since the
 * epoch.
 */
export interface CallAtTool {
  route: { owner: string; resource: string; authority: string }
  tool: { resource_id: string; consequence?: string | undefined }
  request: ToolRequest
  grant: LiveGrant
  permission: Permission
  deadline: Deadline
  now: number
  /** Called, only for the log, with what was found wrong. */
  note: (detail: string) => void
}

/**
 * Takes the one use of the decision that a grant rests on. The caller gives it back if the grant is not spent
 * after all. Refuses 403 `owner_approval_missing`; 503 if the use cannot be marked. The grant is unspent
 * then.
 */
export async function takeApproval({ keys, marks }: ToolApproval, call: CallAtTool): Promise<Mark> {
  const { deadline, note } = call
  const pinned = await within(deadline, 'the keys of the owner', keys.current())
  const claims = approvedClaims(call, statement =>
    verifyStatement(readStatement(statement), pinned, { audience: call.route.authority, now: call.now }),
  )
  const use = { digest: s256Json(claims), exp: claims.exp, what: 'That the approval is used' }
  const mark = await takeInTime(marks, use, deadline)
  if (mark !== undefined) return mark
  note('owner approval: used before')
  throw missing()
}

/** Refuses 403 `owner_approval_missing`; only the log says what is wrong. */
function missing(cause?: unknown): Refusal {
  return new Refusal(
    'owner_approval_missing',
    'Ask for this one operation again, and have the owner approve it by her signature: no unused approval of exactly this call came with the grant.',
    { cause },
  )
}

function approvedClaims(
  { route, tool, request, grant, permission, note }: CallAtTool,
  verify: (statement: Json) => StatementClaims,
): StatementClaims {
  const { ownerDecision } = grant
  const faulty = (fault: string, cause?: unknown): Refusal => {
    note(`owner approval: ${fault}`)
    return missing(cause)
  }
  if (ownerDecision === undefined) throw faulty('none')
  const { item, statement } = ownerDecision
  const call: CallToApprove = {
    owner: route.owner,
    resource: route.resource,
    resource_id: tool.resource_id,
    tool: request.tool,
    params: request.params,
    params_s256: request.params_s256,
    consequence: tool.consequence,
    grant: {
      family: grant.family,
      handle: grant.sub,
      contract: grant.contract,
      jkt: grant.key.thumbprint,
      scopes: permission.resource_scopes,
      lifetimeSeconds: grant.lifetimeSeconds,
      single_use: grant.single_use,
      isBreakGlass: grant.breakGlass !== undefined,
    },
  }
  let claims: StatementClaims
  let fault: string | undefined
  try {
    claims = verify(statement)
    fault = approvalFault(claims, item, call)
  } catch (error) {
    if (!(error instanceof Refusal)) throw error
    throw faulty(error.detail ?? error.code, error)
  }
  if (fault !== undefined) throw faulty(`${fault} disagrees`)
  return claims
}
