/**
 * Owns the next step while verdicts are collected. Contract: "Tally for a jointly held resource": it is
 * refused as soon as the outstanding weight cannot reach the threshold, and holders are asked for signatures
 * only when those who would allow reach it.
 */

/** One holder's answers so far; times in seconds since the epoch. */
export interface HolderAnswer {
  readonly weight: number
  /** `ready`: she would allow. */
  readonly state: 'pending' | 'ready' | 'allowed' | 'refused'
  /** How long her verdict may be collected. */
  readonly verdict_exp: number | null
  /** How long a grant may rest on it. */
  readonly allowed_until: number | null
  /** She withdrew her answer. */
  readonly withdrawn: boolean
}

/** `ask`: the pending ones, how they would answer; `final`: those who are ready for signatures, too. */
export type NextStep = 'approved' | 'denied' | 'final' | 'ask'

/** Whether a holder's allowance counts at `now`. */
export function isAllowing(answer: HolderAnswer, now: number): boolean {
  const { state, verdict_exp, withdrawn } = answer
  return state === 'allowed' && !withdrawn && (verdict_exp ?? 0) > now && !hasRunOut(answer, now)
}

/** She allowed it, for a time that is over. She signs once, so there will be no other. */
function hasRunOut({ state, allowed_until }: HolderAnswer, now: number): boolean {
  return state === 'allowed' && (allowed_until ?? 0) <= now
}

/**
 * The allowances that a grant is made of, and when it ends, at most at `end`. Of all sets that reach the
 * threshold it takes the one that lasts longest, and all who allow it for as long, so that it stands if one
 * of them takes hers back. Undefined if they do not reach it. So one more allowance never makes less of a
 * grant.
 */
export function lastingLongest<T extends Pick<HolderAnswer, 'weight' | 'allowed_until'>>(
  allowing: readonly T[],
  { threshold, end }: { threshold: number; end: number },
): { counted: T[]; end: number } | undefined {
  const untilOf = (one: T): number => Math.min(one.allowed_until ?? 0, end)
  let weight = 0
  for (const one of [...allowing].sort((a, b) => untilOf(b) - untilOf(a))) {
    weight += one.weight
    if (weight < threshold) continue
    const lasting = untilOf(one)
    return { counted: allowing.filter(other => untilOf(other) >= lasting), end: lasting }
  }
  return undefined
}

/**
 * Whether she is asked at a step, and whether to sign now. She who is undecided is asked at each step: one
 * who was ready and then falls silent stops nobody. If nobody collected an allowance in time, she is asked
 * again.
 */
export function questionAt(
  step: NextStep,
  answer: HolderAnswer,
  now: number,
): { final: boolean } | undefined {
  if (answer.withdrawn || answer.state === 'refused' || isAllowing(answer, now)) return undefined
  if (hasRunOut(answer, now)) return undefined
  if (answer.state === 'pending') return step === 'final' || step === 'ask' ? { final: false } : undefined
  return step === 'final' ? { final: true } : undefined
}

/** The step, of all holders' answers. */
export function nextStep(answers: readonly HolderAnswer[], threshold: number, now: number): NextStep {
  const weigh = (of: (answer: HolderAnswer) => boolean): number =>
    answers.filter(of).reduce((sum, { weight }) => sum + weight, 0)
  if (weigh(answer => isAllowing(answer, now)) >= threshold) return 'approved'
  const isOut = (answer: HolderAnswer): boolean =>
    answer.state === 'refused' || answer.withdrawn || hasRunOut(answer, now)
  if (weigh(answer => !isOut(answer)) < threshold) return 'denied'
  return weigh(answer => !isOut(answer) && answer.state !== 'pending') >= threshold ? 'final' : 'ask'
}
