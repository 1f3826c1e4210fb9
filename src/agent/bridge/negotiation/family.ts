/**
 * Owns one running request as it is kept on disk, and what a repeat of it finds there. Contract: "Permission
 * ticket" (the family id), "Single-use grant": a call that was sent under one is never sent again.
 */
import { s256Json } from '../../../wire/encoding.ts'
import type { Json } from '../../../wire/json.ts'
import type { Challenge } from '../../../wire/negotiation/negotiation.ts'
import { AgentError } from '../../agent-error.ts'
import { toolCallParams, type ToolCall } from '../../transports/mcp.ts'
import type { WaitingRequest } from '../../negotiation/negotiate.ts'
import type { Grant } from '../../store.ts'
import type { ResourceOwner } from './state.ts'

/** Times are in seconds since the epoch. */
export interface FamilyRecord {
  id: string
  resource: string
  call: ToolCall
  /** Hash of the tool as it was when the call came that began this. */
  definition?: string | undefined
  owner?: ResourceOwner | undefined
  /**
   * If a later negotiation of the same terms joined an earlier one: the family and template that the owner
   * was first asked about.
   */
  joined?: { family: string; template_id: string } | undefined
  /** Since when the owner has been asked. */
  since: number
  /** Since when nobody has waited for it. */
  left?: number | undefined
  /** The tasks by which clients wait, even while they are disconnected; none if left out. */
  tasks?: StoredTask[] | undefined
  phase:
    | { name: 'new' }
    | { name: 'waiting'; request: WaitingRequest }
    | { name: 'granted'; grant: Grant }
    | { name: 'sending'; family: string }
    | { name: 'answered'; result: Json; family: string }
    | { name: 'refused'; error: StoredError; family: string | undefined }
}

/** A task that a client waits by, since when, and until when it may be asked for. */
export interface StoredTask {
  id: string
  created: number
  until: number
  /** What it is to be answered with: a grant that is waited for is for every call of its tool. */
  call?: ToolCall | undefined
  /** The tool as its client calls it. */
  name?: string | undefined
}

/** An error as it is kept for the next caller. */
export interface StoredError {
  code: string
  detail: string
  status?: number | undefined
  terminal: boolean
  local?: boolean | undefined
  by?: string | undefined
  /** The tool's own JSON-RPC error. */
  rpc?: AgentError['rpc']
}

/** The name of a negotiation: the tool, and, if each call is approved, the exact call. */
export function familyId(resource: string, call: ToolCall, perOperation: boolean): string {
  const { tool } = call
  const of: Json = perOperation ? { resource, call: toolCallParams(call) } : { resource, tool }
  return s256Json(of).replace(/^s256:/, '')
}

/** Whether they are the same, to the last argument. */
export function isSameCall(one: ToolCall, other: ToolCall): boolean {
  return familyId('', one, true) === familyId('', other, true)
}

/** Whether it is about its call alone, and about no other call of the tool. */
export function isOfOneCall({ id, resource, call }: FamilyRecord): boolean {
  return id === familyId(resource, call, true)
}

/** The `family` of the contract, as far as it is known. */
export function familyName({ phase, joined }: FamilyRecord): string | undefined {
  switch (phase.name) {
    case 'new':
      return undefined
    case 'waiting':
      return joined?.family ?? phase.request.signed.template.family
    case 'granted':
      return phase.grant.family
    default:
      return phase.family
  }
}

export function storedError(error: AgentError): StoredError {
  const { code, detail, status, terminal, local, by, rpc } = error
  return { code, detail, status, terminal, local, by, rpc }
}

export function thrown({ code, ...members }: StoredError): AgentError {
  return new AgentError(code, { ...members, local: members.local ?? false })
}

/** Nobody knows whether it ran. `instead`: what came in the place of an answer, as a sentence. */
export function outcomeUnknown(family: string | undefined, instead?: string): AgentError {
  const which = family === undefined ? '' : ` (negotiation ${family})`
  return new AgentError('outcome_unknown', {
    detail: `The call was sent under a grant for one use, and no answer came${which}. It may have run. It is not sent again; look at the resource before you repeat it.${instead === undefined ? '' : ` ${instead}`}`,
    local: true,
  })
}

const CLOSED: ReadonlySet<string> = new Set(['request_denied', 'access_revoked'])

/** Whether the owner or one of her rules ended it. */
export function isClosed({ local, code }: AgentError): boolean {
  return !local && CLOSED.has(code)
}

const UNDECIDED: ReadonlySet<string> = new Set([
  'aborted',
  'answer_malformed',
  'answer_too_large',
  'invalid_grant',
  'redirect_refused',
  'unreachable',
])

/**
 * Whether somebody decided it, so that no retry can change it. An answer that cannot be read does not say so.
 */
export function isDecision({ code, terminal }: AgentError): boolean {
  return terminal && !UNDECIDED.has(code)
}

/** Whether it says that a request is over, so that nobody need take it back. */
export function isOver(error: AgentError): boolean {
  return error.code === 'invalid_grant' || isDecision(error)
}

/**
 * The owner and authority, by the challenge that was found to agree with the resource: `<owner>/<tool>`, and
 * the authority.
 */
export function ownerIn({ as_uri, authorization_remediation }: Challenge): ResourceOwner {
  const [first] = authorization_remediation.authorization_details
  const owner = first?.identifier.split('/')[0]
  return { as_uri, owner: owner === undefined || owner === '' ? 'unnamed' : owner }
}
