/**
 * What a signed revocation says of a call on record: whether its grant was ended before the call, and who
 * broke the promise then. docs/proof.md, "Calls after a revocation". Contract: "Grant (RPT) liveness", "What
 * the service does" (row 9: revocation is immediate).
 */
import type { OwnerEnds } from '../../wire/documents/owner-ends.ts'
import { s256Json } from '../../wire/encoding.ts'
import type { Handle } from '../../wire/identifiers.ts'
import type { RecordedCall } from '../../wire/ledger/recorded-call.ts'
import type { RevocationClaims } from '../../wire/ledger/revocation.ts'
import { refuse } from '../../wire/refusal.ts'
import { LEASE_MS } from '../../wire/resources/leases.ts'

/**
 * How far two clocks may be apart, in milliseconds: those of the databases that an authority has one after
 * the other, and of an enforcement point.
 */
const CLOCKS_APART_MS = 60_000

/** How old the authority's word may be when a call is let through by it, in milliseconds. */
export interface CallBounds {
  /** How long the enforcement point may take for a check. */
  timeOutMs: number
  /** How long it may use an answer again. */
  leaseMs: number
}

/** A sidecar has these if nothing else is configured (`deadline_ms`), and its authority offers leases. */
export const USUAL_BOUNDS: CallBounds = { timeOutMs: 2_000, leaseMs: LEASE_MS }

export type CallVerdict = 'in order' | 'undecided' | 'authority at fault' | 'enforcement point at fault'

/**
 * Why a revocation says nothing of a call: another authority judged it, it is of another grant, of a later
 * one, or was refused.
 */
export type CallOutside = 'other authority' | 'other grant' | 'later grant' | 'refused'

/** A verdict, or why there is none; the sentence says what it rests on. */
export type CallJudgement =
  | { verdict: CallVerdict; sentence: string }
  | { verdict?: undefined; outside: CallOutside; sentence: string }

/** What calls are judged by: a revocation that was verified, and the handles that it ended. */
export interface EndedGrants extends Pick<RevocationClaims, 'iss' | 'owner' | 'iat' | 'at' | 'ends'> {
  ended: ReadonlySet<Handle>
}

/**
 * What calls are judged by. `handles` are those that the entry of the ledger lists (`ended`), in its order,
 * where the revocation has only their hash. Refuses (`invalid_request`) if they are needed and absent, if
 * they are others, and if the revocation names them itself.
 */
export function endedGrants(revocation: RevocationClaims, handles?: readonly Handle[]): EndedGrants {
  const { iss, owner, iat, at, ends, ended, ended_s256 } = revocation
  if (ended !== undefined) {
    if (handles !== undefined)
      refuse('invalid_request', 'Give no list of handles: the revocation names them itself.')
    return { iss, owner, iat, at, ends, ended: new Set(ended) }
  }
  if (handles === undefined)
    refuse('invalid_request', 'Give the handles that ended: the revocation has only their hash.')
  if (s256Json([...handles]) !== ended_s256)
    refuse('invalid_request', 'Give the handles that the entry of the revocation lists, in its order.')
  return { iss, owner, iat, at, ends, ended: new Set(handles) }
}

/**
 * Judges one call. It is judged if its grant is one that the revocation ended, issued over 60 s before. A
 * record that names no issuer counts as one of this authority. The record is the enforcement point's word,
 * which nobody signed, and so is each verdict.
 */
export function judgeCall(
  call: RecordedCall,
  revocation: EndedGrants,
  bounds: CallBounds = USUAL_BOUNDS,
): CallJudgement {
  const { issuer, owner, handle, iat, judged } = call
  if (issuer !== undefined && issuer !== revocation.iss)
    return {
      outside: 'other authority',
      sentence: 'Another authority than that of the revocation judged it.',
    }
  if (owner !== revocation.owner || handle === undefined || !revocation.ended.has(handle))
    return { outside: 'other grant', sentence: 'The revocation did not end the access of this agent.' }
  if (iat !== undefined && (revocation.iat - iat) * 1_000 <= CLOCKS_APART_MS)
    return {
      outside: 'later grant',
      sentence: 'The grant was not issued over 60 s before the revocation: it may be one of after it.',
    }
  const judgement = iat === undefined ? undated(judged) : judgeRecord(call.time, judged, revocation, bounds)
  if (call.decision === 'deny' && judgement.verdict !== 'authority at fault')
    return { outside: 'refused', sentence: 'The call was refused.' }
  return judgement
}

const NO_WORD: CallJudgement = {
  verdict: 'undecided',
  sentence: 'The record does not say what the authority knew when it judged the grant.',
}

/** It may be of a grant that was issued after the revocation. */
function undated(judged: OwnerEnds | undefined): CallJudgement {
  if (judged === undefined) return NO_WORD
  return { verdict: 'undecided', sentence: 'The record does not say when the grant was issued.' }
}

/** The first row that fits decides. */
function judgeRecord(
  time: number,
  judged: OwnerEnds | undefined,
  { ends, at }: EndedGrants,
  { timeOutMs, leaseMs }: CallBounds,
): CallJudgement {
  if (judged === undefined) return NO_WORD
  if (judged.ends >= ends)
    return {
      verdict: 'authority at fault',
      sentence: `The authority found the grant live and knew of ${judged.ends} acts that had ended something; the revocation was act ${ends}.`,
    }
  const lateMs = judged.at - at
  if (lateMs > CLOCKS_APART_MS)
    return {
      verdict: 'authority at fault',
      sentence: `The authority found the grant live ${seconds(lateMs)} after the revocation was complete, and clocks may be 60 s apart.`,
    }
  const ageMs = time - judged.at
  if (ageMs > timeOutMs + leaseMs + CLOCKS_APART_MS)
    return {
      verdict: 'enforcement point at fault',
      sentence: `The call was let through ${seconds(ageMs)} after the authority had judged its grant. A check may take ${seconds(timeOutMs)}, a lease ${seconds(leaseMs)}, and clocks may be 60 s apart.`,
    }
  if (lateMs < 0)
    return {
      verdict: 'in order',
      sentence: `The authority judged the grant ${seconds(-lateMs)} before the revocation was complete.`,
    }
  return {
    verdict: 'undecided',
    sentence: `The authority judged the grant ${seconds(lateMs)} after the revocation was complete and did not know of it: clocks that are 60 s apart explain that.`,
  }
}

const seconds = (ms: number): string => `${ms / 1_000} s`
