/**
 * A call as the decision log of an enforcement point has it (docs/operating.md, "Log"), for whoever holds it
 * against a signed revocation. Nobody signed it. Contract: "Events" (one log line per decision).
 */
import type { OwnerEnds } from '../documents/owner-ends.ts'
import { asHandle, asOwner, type Handle, type Owner } from '../identifiers.ts'
import { isJsonObject, parseJson, type Json, type JsonObject } from '../json.ts'
import { integerMember, member, objectMember, textMember, wordMember } from '../json-members.ts'
import { Refusal, refuse } from '../refusal.ts'

export interface RecordedCall {
  /** The enforcement point's own time when it decided, in milliseconds since the epoch. */
  time: number
  decision: 'allow' | 'deny'
  /** Undefined until it is known whose call it is. */
  owner: Owner | undefined
  /** Undefined until the grant is known. */
  handle: Handle | undefined
  /** Who issued the grant and found it live; undefined if the record does not say, as those of older logs. */
  issuer: string | undefined
  /** When the grant was issued, in seconds since the epoch; undefined if the record does not say. */
  iat: number | undefined
  /** What the authority knew when it judged the grant; undefined if it did not say. */
  judged: OwnerEnds | undefined
}

const DECIDED = 'decided'
const DECISIONS = ['allow', 'deny'] as const
/**
 * What a part of a line may have of a decision: itself, the end, where the log writes `msg`, or no more than
 * the beginning of each line of the log.
 */
const PART_OF_DECISION = /"decision"\s*:|"msg"\s*:\s*"decided"|\{"level":"[^{}]*$/
/** The one form in which the log writes its times. */
const TIME = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/

/**
 * The call in one line of a log, without its end. A prefix that a container runtime added is skipped.
 * Undefined: the line tells of no decision. Refuses (`invalid_request`) a decision that cannot be read, and a
 * line that begins as an object and does not end as one, because it may be half of one.
 */
export function readRecordedCall(line: string): RecordedCall | undefined {
  const value = objectIn(line)
  if (value === undefined || !isDecision(value)) return undefined
  const time = textMember(value, 'time')
  if (!TIME.test(time) || Number.isNaN(Date.parse(time)))
    refuse('invalid_request', 'Give time as the log writes it, such as 2026-11-29T09:30:00.000Z.')
  return {
    time: Date.parse(time),
    decision: wordMember(value, 'decision', DECISIONS),
    owner: mapped(textOrNothing(value, 'owner'), asOwner),
    handle: mapped(textOrNothing(value, 'handle'), asHandle),
    issuer: textOrNothing(value, 'issuer'),
    iat: secondsIn(value),
    judged: member(value, 'judged') === undefined ? undefined : endsIn(objectMember(value, 'judged')),
  }
}

function objectIn(line: string): JsonObject | undefined {
  const text = line.trim()
  try {
    const begin = text.indexOf('{')
    const value: Json = begin < 0 ? null : parseJson(text.slice(begin))
    if (isJsonObject(value)) return value
  } catch (error) {
    if (!(error instanceof Refusal)) throw error
    // Text of another program may hold a brace, and another line of the log may name a member twice.
    if (text.startsWith('{') && !text.endsWith('}')) throw error
  }
  return PART_OF_DECISION.test(text)
    ? refuse('invalid_request', 'Give the decision as one whole JSON object.')
    : undefined
}

function isDecision(value: JsonObject): boolean {
  return member(value, 'msg') === DECIDED || DECISIONS.some(word => word === member(value, 'decision'))
}

/** Null and an absent member say the same. */
function textOrNothing(value: JsonObject, name: string): string | undefined {
  return (member(value, name) ?? null) === null ? undefined : textMember(value, name)
}

/** Any number may be there, because an authority may have answered any: it makes no log unreadable. */
function secondsIn(value: JsonObject): number | undefined {
  const iat = member(value, 'iat') ?? null
  if (iat === null) return undefined
  if (typeof iat !== 'number') refuse('invalid_request', 'Give iat as a number of seconds.')
  return Number.isSafeInteger(iat) ? iat : undefined
}

function endsIn(judged: JsonObject): OwnerEnds {
  return { ends: integerMember(judged, 'ends'), at: integerMember(judged, 'at') }
}

function mapped<From, To>(value: From | undefined, to: (value: From) => To): To | undefined {
  return value === undefined ? undefined : to(value)
}
