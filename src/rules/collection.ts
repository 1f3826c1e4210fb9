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
  /** She withdrew her answer. */
  readonly withdrawn: boolean
}

/** `final`: ask those who are ready for signatures; otherwise the state of the pending ones. */
export type NextStep = 'approved' | 'denied' | 'final' | 'ask'

/** Whether a holder's allowance counts at `now`. */
export function isAllowing({ state, verdict_exp, withdrawn }: HolderAnswer, now: number): boolean {
  return state === 'allowed' && !withdrawn && (verdict_exp ?? 0) > now
}

/** Whether she is asked at a step. If nobody collected an allowance in time, she is asked again. */
export function isAskedAt(step: NextStep, answer: HolderAnswer, now: number): boolean {
  if (answer.withdrawn || answer.state === 'refused' || isAllowing(answer, now)) return false
  return step === 'final' ? answer.state !== 'pending' : step === 'ask' && answer.state === 'pending'
}

/** The step, of all holders' answers. */
export function nextStep(answers: readonly HolderAnswer[], threshold: number, now: number): NextStep {
  const weigh = (of: (answer: HolderAnswer) => boolean): number =>
    answers.filter(of).reduce((sum, { weight }) => sum + weight, 0)
  if (weigh(answer => isAllowing(answer, now)) >= threshold) return 'approved'
  if (weigh(answer => answer.state !== 'refused' && !answer.withdrawn) < threshold) return 'denied'
  const wouldAllow = weigh(({ state, withdrawn }) => !withdrawn && (state === 'ready' || state === 'allowed'))
  return wouldAllow >= threshold ? 'final' : 'ask'
}
