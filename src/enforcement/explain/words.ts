/**
 * Owns the plain words in which an operator is told about a decision of the enforcement point. Contract:
 * "Errors", "Grant (RPT) liveness" and "Authorized call" (the order of the steps).
 */
import { DOCTOR_TOOL } from '../../wire/names.ts'

/** Why, and what to do about it. */
interface ReasonWords {
  why: string
  remedy: string
}

const AGENT_ASKS_AGAIN = 'Nothing is wrong here: the agent negotiates for a new grant.'
const AGENT_MENDS = 'The agent must change its request.'

/** The explanations, by the `reason` of a decision line. */
export const REASONS: Readonly<Record<string, ReasonWords>> = {
  no_grant_needed: { why: 'the method needs no grant', remedy: 'Nothing is to be done.' },
  granted: { why: 'a live grant permits this call', remedy: 'Nothing is to be done.' },
  insufficient_authorization: {
    why: 'the call came without a grant that suffices, and was told where to get one',
    remedy: AGENT_ASKS_AGAIN,
  },
  access_revoked: {
    why: 'the owner or her organization has ended this access',
    remedy: 'Only the owner can give it again: see `usher owner connections` and `usher owner ledger`.',
  },
  connection_revoked: {
    why: 'the owner has revoked this agent, or blocked its operator',
    remedy:
      'Only the owner can let it in again: if it asks anew, its request waits in `usher owner pending`.',
  },
  organization_revoked: {
    why: "the owner's organization has ended this access, or her membership ended",
    remedy: 'Ask the administrators of the organization: see `usher admin activity`.',
  },
  revoked: {
    why: 'the grant is of an earlier time: the owner revoked since, or changed the tier',
    remedy: AGENT_ASKS_AGAIN,
  },
  expired: { why: 'the grant has run out', remedy: AGENT_ASKS_AGAIN },
  already_consumed: { why: 'the grant was for one call, and that call was made', remedy: AGENT_ASKS_AGAIN },
  unknown_token: {
    why: 'the authority knows no such grant for this resource',
    remedy:
      'See that public_url and path here are the `resource_uri` that the authority has for this client_id.',
  },
  invalid_signature: {
    why: 'the grant is not signed by the authority',
    remedy: 'See that the owner has the authority here that her agents negotiate with.',
  },
  unreadable_reason: {
    why: 'the authority says that the grant is not live, by a word that is not known here',
    remedy: 'See that the authority is no older or newer than this sidecar by more than one release.',
  },
  not_single_use: {
    why: 'the authority says that the grant is not for one use, though it was presented so',
    remedy: 'See the log of the authority: this should not happen.',
  },
  invalid_token: {
    why: 'the request is not signed as it must be: by the key of the grant, over what was sent, within 60 s',
    remedy: 'See the clocks, then whether a proxy changes path, query or body on the way.',
  },
  operation_required: {
    why: 'the grant is for one operation, and the call names none that could be compared',
    remedy: AGENT_MENDS,
  },
  operation_mismatch: {
    why: 'the owner approved another operation, or other arguments',
    remedy: `${AGENT_MENDS} Only exactly what was approved is let through.`,
  },
  owner_approval_missing: {
    why: 'the tool asks for a decision that the owner signed for exactly this call, and none came, or it was used',
    remedy:
      'See `detail` of the line. The agent asks again and the owner approves with a key of `owner_approval.keys_file`, by `usher owner approve`.',
  },
  consequence_changed: {
    why: 'the tool is declared graver now than when the owner approved',
    remedy: 'The agent negotiates again; the owner decides on the tool as it is declared now.',
  },
  organization_envelope_exceeded: {
    why: "the grant goes beyond what the owner's organization allows",
    remedy:
      'See `detail` of the line, then the charter: `usher owner organization show`, `usher admin charter show`.',
  },
  joint_mandate_unsatisfied: {
    why: 'not as many holders of the joint account allowed it as its mandate asks for',
    remedy:
      'See `detail` of the line, then `joint` of this owner here: the tally and the pinned digest of the mandate (`usher doctor`); `usher owner joint list` says what each holder agreed to.',
  },
  unknown_tool: {
    why: 'the tool is none of those that this sidecar lists for the owner',
    remedy: 'Add it to `tools` of the owner with its resource and scopes, or leave it closed.',
  },
  unknown_method: {
    why: 'the method is neither a call of a tool nor one that `methods` or `open_methods` lets through',
    remedy:
      'Map it to a tool in `methods` of the resource, or to `free` if anybody may call it; or leave it closed.',
  },
  not_found: {
    why: 'no owner here has this path',
    remedy: 'Check `path` of the owners, and the path that the gateway passes on.',
  },
  method_not_allowed: {
    why: 'the path takes no such HTTP method',
    remedy:
      'GET opens the stream of an MCP session: name it in `open_methods` (under a standing grant), or say `GET: free` in `methods` of the resource. Otherwise the agent must change its request.',
  },
  invalid_origin: {
    why: 'a browser of another site made the call',
    remedy: 'Add that site to `allowed_origins`, if it may call.',
  },
  invalid_request: { why: 'the request cannot be read as one call', remedy: AGENT_MENDS },
  header_body_mismatch: {
    why: 'header fields say something else than the body, which an intermediary may have believed',
    remedy: AGENT_MENDS,
  },
  unsupported_media_type: { why: 'the body is no plain JSON in UTF-8', remedy: AGENT_MENDS },
  request_body_too_large: {
    why: 'the body is longer than this sidecar or the gateway passes on',
    remedy:
      'Raise body_bytes_max here and max_request_bytes of the gateway, both to the same, and the per_connection_buffer_limit_bytes of its listener with them.',
  },
  request_body_missing: {
    why: 'the gateway did not pass the body on',
    remedy: 'Turn with_request_body on in ext_authz of the gateway.',
  },
  temporarily_unavailable: {
    why: 'it could not be judged in time, so it was not let through',
    remedy: 'See `detail` of the line, then the authority: `usher doctor`.',
  },
}

const STEPS: Readonly<Record<string, string>> = {
  read: 'before it was judged, as it was read',
  route: 'finding whose resource it is',
  request: 'reading what it calls',
  introspect: 'asking the authority whether the grant is live',
  permission: 'comparing the call with what the grant permits',
  signature: 'verifying the signature of the request',
  operation: 'comparing the call with the operation that was approved',
  consume: 'spending the grant',
  allow: 'letting it through',
}

/**
 * The part of a decision line that is shown. Anybody may have written the line, so its values are shown, not
 * trusted.
 */
export interface DecisionLine {
  decision: string
  reason?: unknown
  status?: unknown
  step?: unknown
  owner?: unknown
  tool?: unknown
  family?: unknown
  handle?: unknown
  detail?: unknown
  time?: unknown
  request_id?: unknown
  leased?: unknown
}

/** The decision line for people, as a few lines of text. */
export function explainLine(line: DecisionLine): string[] {
  const { decision, reason, status, step, owner, tool, family, handle, detail, time, leased } = line
  const words = typeof reason === 'string' && Object.hasOwn(REASONS, reason) ? REASONS[reason] : undefined
  const what = `${textOf(tool) ?? 'a call'} of ${textOf(owner) ?? 'nobody known'}`
  const who = [textOf(handle) && `by ${textOf(handle)}`, textOf(family) && `under ${textOf(family)}`].filter(
    Boolean,
  )
  const when = textOf(time) === undefined ? '' : `${textOf(time)}: `
  const outcome =
    decision === 'allow' ? 'let through' : `refused with ${textOf(status) ?? 'an unknown status'}`
  const at = typeof step === 'string' && Object.hasOwn(STEPS, step) ? STEPS[step] : undefined
  return [
    `${when}${[what, ...who].join(' ')} was ${outcome}.`,
    `Why (${textOf(reason) ?? 'no reason given'}): ${words?.why ?? 'a word that is not known here'}.`,
    ...(at === undefined || decision === 'allow' ? [] : [`It ended at the step of ${at}.`]),
    ...(leased === true
      ? [
          'It was judged by what the authority had said of the grant at most 1.9 s before, under a lease (`liveness: leased`).',
        ]
      : []),
    ...(textOf(detail) === undefined ? [] : [`The sidecar noted: ${textOf(detail)}`]),
    `What to do: ${isOfDoctor(line) ? DOCTOR_ASKED : (words?.remedy ?? 'See docs/operating.md, and the release of the party that said it.')}`,
  ]
}

const DOCTOR_ASKED =
  'Nothing, if `usher doctor` was run then: it calls a tool that nobody has, to see that the gateway asks this sidecar.'

/** An owner's tool of that name is no probe, and neither is a call that was refused for another reason. */
const isOfDoctor = ({ decision, reason, tool }: DecisionLine): boolean =>
  decision === 'deny' && reason === 'unknown_tool' && tool === DOCTOR_TOOL

function textOf(value: unknown): string | undefined {
  if (typeof value === 'number') return String(value)
  return typeof value === 'string' && value !== '' ? value : undefined
}
