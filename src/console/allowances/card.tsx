/**
 * Owns the card of an allowance that is read before she says yes to it: all that it says, in words. Contract:
 * "Policy vocabulary and tiers", "Owner API" (`/owner/allowances*`).
 */
import type { OwnerAllowance } from '../../wire/documents/allowance.ts'
import { nowOf } from '../access/api.ts'
import { useSession } from '../access/session.ts'
import { Part, Sentences } from '../organization/commitment.tsx'
import { Shown } from '../parts/shown.tsx'
import { WORDS } from '../words.ts'
import { timeSentences, unboundedOf } from './allowance-card.ts'
import { LimitList } from './edits.tsx'
import { TierCard } from './tier-card.tsx'

const W = WORDS.allowances

/** `tierName` is the name of the tier at which it is to be used. */
export function AllowanceCard(props: { allowance: OwnerAllowance; tierId: string; tierName: string }) {
  const { allowance, tierId, tierName } = props
  const { access } = useSession()
  return (
    <>
      <Part title={W.limits}>
        <LimitList allowance={allowance} />
        <Unbounded allowance={allowance} />
      </Part>
      <TierCard allowance={allowance} id={tierId} name={tierName} />
      <Part title={W.time}>
        <Sentences texts={timeSentences(allowance, nowOf(access))} />
      </Part>
    </>
  )
}

/** What no number bounds, as warnings. */
export function Unbounded({ allowance }: { allowance: OwnerAllowance }) {
  return (
    <>
      {unboundedOf(allowance).map(text => (
        <p key={text} class="note warn">
          <Shown text={text} />
        </p>
      ))}
    </>
  )
}
