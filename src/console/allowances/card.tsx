/**
 * Owns the card of an allowance that is read before she says yes to it, and the parts of it that stand
 * wherever an allowance does: all that it says, in the words of a terminal. Contract: "Policy vocabulary and
 * tiers", "Owner API" (`/owner/allowances*`).
 */
import { timeLines, unboundedLines, whoseLine } from '../../rules/words/allowance-words.ts'
import type { OwnerAllowance } from '../../wire/documents/allowance.ts'
import { nowOf } from '../access/api.ts'
import { useSession } from '../access/session.ts'
import { Part, Sentences } from '../organization/commitment.tsx'
import { sentenceOf, Shown } from '../parts/shown.tsx'
import { whenText } from '../parts/time.ts'
import { WORDS } from '../words.ts'
import { LimitList } from './edits.tsx'
import { isBoundless } from './record.ts'
import { TierCard } from './tier-card.tsx'

const W = WORDS.allowances

/** `tierName` is the name of the tier at which it is to be used. */
export function AllowanceCard(props: { allowance: OwnerAllowance; tierId: string; tierName: string }) {
  const { allowance, tierId, tierName } = props
  return (
    <>
      <Part title={W.limits}>
        <LimitList allowance={allowance} />
        <Unbounded allowance={allowance} />
      </Part>
      <TierCard allowance={allowance} id={tierId} name={tierName} />
      <TimePart allowance={allowance} />
    </>
  )
}

/** What no number bounds; a warning if nothing bounds an amount, or all of it. */
export function Unbounded({ allowance }: { allowance: OwnerAllowance }) {
  return (
    <>
      {unboundedLines(allowance).map(text => (
        <p key={text} class={`note${isBoundless(allowance) ? ' warn' : ''}`}>
          <Shown text={text} />
        </p>
      ))}
    </>
  )
}

/** For whom it is, until when, and how its windows follow each other. */
export function TimePart({ allowance }: { allowance: OwnerAllowance }) {
  const { access } = useSession()
  const clock = { nowMs: nowOf(access) * 1_000, timeText: whenText }
  const lines = [whoseLine(allowance), ...timeLines(allowance, clock)]
  return (
    <Part title={W.time}>
      <Sentences texts={[...lines.map(sentenceOf), W.byHand]} />
    </Part>
  )
}
