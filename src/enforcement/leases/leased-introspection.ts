/**
 * Owns introspection under a lease: which calls are judged by an answer that is kept, and which answers are.
 * Contract: "Grant (RPT) liveness", "Introspection and consume answers" (leases, docs/choices.md, ADR 0021).
 * The permissions of a grant are judged for every call all the same.
 */
import { isJsonObject } from '../../wire/json.ts'
import type { Introspection, LiveGrant } from '../introspection.ts'
import type { LeaseHolder } from './holder.ts'

/** The authority's answer, and what was read of it. */
export interface LeaseAnswer {
  answer: unknown
  introspection: Introspection
}

/** Answers from what is kept, or asks and keeps the answer if it has a lease. */
export async function introspectUnderLease(
  holder: LeaseHolder,
  token: string,
  ask: () => Promise<LeaseAnswer>,
): Promise<Introspection> {
  const grant = holder.find(token)
  if (grant !== undefined) return { active: true, grant, leased: true }
  const question = holder.asking()
  const { answer, introspection } = await ask()
  if (introspection.active && isStanding(introspection.grant))
    holder.answered(question, token, { grant: introspection.grant, leaseMs: leaseMsOf(answer) })
  return introspection
}

/**
 * The authority is asked about a grant for a single use, and about an account that several hold, each time.
 */
function isStanding({ single_use, joint, ownerDecision, breakGlass }: LiveGrant): boolean {
  return !single_use && joint === undefined && ownerDecision === undefined && breakGlass === undefined
}

/** 0: the answer is for the one call. */
function leaseMsOf(answer: unknown): number {
  const leaseMs = isJsonObject(answer) ? answer['lease_ms'] : undefined
  return typeof leaseMs === 'number' && Number.isSafeInteger(leaseMs) && leaseMs > 0 ? leaseMs : 0
}
