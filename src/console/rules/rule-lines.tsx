/** Owns how the rules of a tier read as sentences. Contract: "Policy vocabulary and tiers". */
import { ruleText } from '../../rules/words/rule-words.ts'
import type { Tier } from '../../wire/owner/owner-api.ts'
import { sentenceOf, Shown } from '../parts/shown.tsx'

/** A sentence for each rule, in the order of the rules. */
export function RuleLines({ rules }: { rules: Tier['rules'] }) {
  return (
    <ul class="rule-lines">
      {rules.map(rule => (
        <li key={`${rule.then} ${rule.when.join(' ')}`} data-then={rule.then}>
          <Shown text={sentenceOf(ruleText(rule))} />
        </li>
      ))}
    </ul>
  )
}
