/**
 * Owns what an allowance says at one tier, and how the rules of the tier keep to it. Contract: "Policy
 * vocabulary and tiers", "Owner API" (`/owner/allowances`).
 */
import type { ComponentChildren } from 'preact'
import { otherLine, tierLines } from '../../rules/words/allowance-words.ts'
import type { OwnerAllowance } from '../../wire/documents/allowance.ts'
import type { Tier } from '../../wire/owner/owner-api.ts'
import { Part, Sentences } from '../organization/commitment.tsx'
import { sentenceOf, shownText } from '../parts/shown.tsx'
import { RuleLines } from '../rules/rule-lines.tsx'
import { WORDS } from '../words.ts'
import { isNamedIn, isOpen, mayName } from './tier-rules.ts'

const W = WORDS.allowances

/** What an operation at the tier must be like; `name` is that of the tier, or its id if there is none. */
export function TierCard(props: {
  allowance: OwnerAllowance
  id: string
  name: string
  children?: ComponentChildren
}) {
  const { allowance, id, name, children } = props
  const lines = tierLines(allowance, id)
  if (lines.length === 0) return null
  return (
    <Part title={W.at(shownText(name))}>
      <Sentences texts={lines} />
      <p class="note">{sentenceOf(otherLine(allowance))}</p>
      {children}
    </Part>
  )
}

/** Whether the rules of the tier keep to the allowance, in words, and the way to have them do so. */
export function TierStanding(props: {
  allowance: string
  tier: Tier | undefined
  /** Left out if nothing may be opened any more. */
  onOpen?: (() => void) | undefined
}) {
  const { allowance, tier, onOpen } = props
  if (tier === undefined) return <p class="note warn">{W.noSuchTier}</p>
  const { rules, ask_me } = tier
  if (!isNamedIn(rules, allowance))
    return (
      <>
        <p class="note warn">{W.notNamed}</p>
        {ask_me ? null : <p class="note">{W.notAsking}</p>}
        {onOpen === undefined || !mayName(tier, allowance) ? null : (
          <button
            type="button"
            class="plain"
            aria-label={`${W.openIt}: ${allowance}, ${shownText(tier.name)}`}
            onClick={onOpen}
          >
            {W.openIt}
          </button>
        )}
      </>
    )
  return (
    <>
      <p class="note">{W.isNamed}</p>
      <RuleLines rules={rules} />
      {isOpen(tier, allowance) ? null : <p class="note">{W.opensNothing}</p>}
    </>
  )
}
