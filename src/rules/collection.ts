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

/** `final`: those who are ready are asked for signatures, too; `ask`: only the pending ones, how they would answer. */
export type NextStep = 'approved' | 'denied' | 'final' | 'ask'

/** Whether a holder's allowance counts at `now`. */
export function isAllowing({ state, verdict_exp, withdrawn }: HolderAnswer, now: number): boolean {
  return state === 'allowed' && !withdrawn && (verdict_exp ?? 0) > now
}

/**
 * Whether she is asked at a step, and whether to sign now. She who is undecided is asked at each step: one who
 * was ready and then falls silent stops nobody. If nobody collected an allowance in time, she is asked again.
 */
export function questionAt(
  step: NextStep,
  answer: HolderAnswer,
  now: number,
): { final: boolean } | undefined {
  if (answer.withdrawn || answer.state === 'refused' || isAllowing(answer, now)) return undefined
  if (answer.state === 'pending') return step === 'final' || step === 'ask' ? { final: false } : undefined
  return step === 'final' ? { final: true } : undefined
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
