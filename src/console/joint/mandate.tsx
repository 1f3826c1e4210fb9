/**
 * What a mandate says: who holds the account, how many must agree, and over what. Contract: "Tally for a
 * jointly held resource" (mandate).
 */
import type { JointHolder, JointShare } from '../../wire/owner/owner-api.ts'
import { Chips } from '../parts/parts.tsx'
import { Field, Shown } from '../parts/shown.tsx'
import { WORDS } from '../words.ts'

const W = WORDS.joint

interface Props {
  rule: Pick<JointShare['rule'], 'kind' | 'threshold'>
  total: number
  holders: readonly JointHolder[]
  resources: readonly string[]
}

export function Mandate({ rule, total, holders, resources }: Props) {
  return (
    <>
      <Field name={W.rule}>
        {rule.kind === 'threshold' ? W.threshold(rule.threshold, total) : W.rules[rule.kind]}
      </Field>
      <Field name={W.holders}>
        <ul class="holders">
          {holders.map(({ owner, issuer, weight }) => (
            <li key={`${owner} ${issuer}`}>
              <Shown text={W.holder(owner, issuer)} isName />{' '}
              <span class="quiet small">{W.weight(weight)}</span>
            </li>
          ))}
        </ul>
        <p class="note">{W.holdersHint}</p>
      </Field>
      <Field name={W.resources}>
        <Chips texts={resources} />
      </Field>
    </>
  )
}
