/**
 * Owns the check that a call is exactly the operation that its owner approved. Contract: "Authorized call",
 * order 4: `operation.params_s256` must match exactly, and the tool must read exactly what was approved.
 */
import { operationMatches } from '../rules/permission.ts'
import { inexactSentence } from '../wire/json.ts'
import { refuse } from '../wire/refusal.ts'
import type { Call } from './call.ts'
import type { ToolRequest } from './request/call-request.ts'
import type { LiveGrant } from './introspection.ts'

/**
 * Refuses 403 `operation_required` for a single-use grant that names no operation, 403 `operation_mismatch`
 * for another tool or other parameters, and 400 `invalid_request` if the tool could read other parameters
 * than were hashed.
 */
export function checkOperation(
  grant: Pick<LiveGrant, 'operation'>,
  request: ToolRequest,
  received: { body: Call['body']; digestCovered: boolean },
): void {
  if (grant.operation === undefined) {
    refuse('operation_required', 'Ask for a grant that names the operation: this one allows none.')
  }
  if (!operationMatches(grant.operation, request.tool, request.params_s256)) {
    refuse(
      'operation_mismatch',
      'Call the approved tool with the approved parameters, or ask for this operation.',
    )
  }
  if (request.inexactNumber !== undefined) {
    refuse('invalid_request', inexactSentence(request.inexactNumber))
  }
  if (request.ambiguity !== undefined) refuse('invalid_request', request.ambiguity)
  if (received.body.state === 'complete' && received.body.lossyText && !received.digestCovered) {
    refuse(
      'invalid_request',
      'Sign a content-digest, or have the proxy set pack_as_bytes: true: this body may have lost bytes on its way.',
    )
  }
}
