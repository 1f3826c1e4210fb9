/**
 * Owns what an allowance says at one tier, and how the rules of the tier keep to it. Contract: "Policy
 * vocabulary and tiers", "Owner API" (`/owner/allowances`).
 */
import type { ComponentChildren } from 'preact'
import type { OwnerAllowance } from '../../wire/documents/allowance.ts'
import type { Tier } from '../../wire/owner/owner-api.ts'
import { Part, Sentences } from '../organization/commitment.tsx'
import { Chips } from '../parts/parts.tsx'
import { Field, shownText } from '../parts/shown.tsx'
import { RuleLines } from '../rules/rule-lines.tsx'
import { WORDS } from '../words.ts'
import { tierLines } from './allowance-card.ts'
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
  if (lines === undefined) return null
  const { tools, amounts, only, free } = lines
  return (
    <Part title={W.at(shownText(name))}>
      <dl>
        <Field name={W.tools}>
          <Chips texts={tools} />
        </Field>
        {amounts.length === 0 ? null : (
          <Field name={W.amounts}>
            <Sentences texts={amounts} />
          </Field>
        )}
        {only.map(({ pointer, values }) => (
          <Field key={pointer} name={W.only(pointer)}>
            <Chips texts={values} />
          </Field>
        ))}
        {free.length === 0 ? null : (
          <Field name={W.free}>
            <Chips texts={free} />
          </Field>
        )}
      </dl>
      <p class="note">{W.nothingElse}</p>
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
          <button type="button" class="plain" onClick={onOpen}>
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
