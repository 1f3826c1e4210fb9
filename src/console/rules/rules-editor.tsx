/**
 * Owns the editor of a tier's rules: which conditions together give which answer. Contract: "Policy
 * vocabulary and tiers": the strictest matching rule decides; only what she did herself relaxes.
 */
import { ruleText } from '../../rules/words/rule-words.ts'
import { CONDITIONS_PER_RULE_MAX, RULES_MAX } from '../../rules/tier.ts'
import type { Tier, VocabularyWord } from '../../wire/owner/owner-api.ts'
import { sentenceOf, Shown } from '../parts/shown.tsx'
import { WORDS } from '../words.ts'
import { ConditionEditor, parted } from './conditions.tsx'

const W = WORDS.rules
type TierRule = Tier['rules'][number]

const NEW_RULE: TierRule = { when: ['standing.first_at_tier'], then: 'ask' }

interface Props {
  rules: readonly TierRule[]
  vocabulary: readonly VocabularyWord[]
  onChange: (rules: TierRule[]) => void
}

export function RulesEditor({ rules, vocabulary, onChange }: Props) {
  return (
    <fieldset class="rules">
      <legend>{W.rules}</legend>
      <p class="quiet">{W.rulesHint}</p>
      <ol class="list">
        {rules.map((rule, at) => (
          <RuleEditor
            // Rules have no names, so each is identified by its position.
            key={at}
            rule={rule}
            at={at}
            vocabulary={vocabulary}
            onChange={changed => onChange(rules.with(at, changed))}
            onRemove={() => onChange(rules.toSpliced(at, 1))}
          />
        ))}
      </ol>
      <button
        type="button"
        class="plain"
        disabled={rules.length >= RULES_MAX}
        onClick={() => onChange([...rules, NEW_RULE])}
      >
        {W.addRule}
      </button>
    </fieldset>
  )
}

function RuleEditor(props: {
  rule: TierRule
  at: number
  vocabulary: readonly VocabularyWord[]
  onChange: (rule: TierRule) => void
  onRemove: () => void
}) {
  const { rule, at, vocabulary, onChange, onRemove } = props
  const { when, then } = rule
  const mayRelax = when.every(
    written => vocabulary.find(({ condition }) => condition === parted(written).name)?.may_relax === true,
  )
  return (
    <li class="rule" data-rule={at}>
      <p class="label">{W.rule(at + 1)}</p>
      {when.map((written, place) => (
        <div key={place} class="row nowrap when">
          <span class="joins">{place === 0 ? W.when : W.and}</span>
          <ConditionEditor
            written={written}
            then={then}
            vocabulary={vocabulary}
            label={W.condition(at + 1, place + 1)}
            onChange={changed => onChange({ when: when.with(place, changed), then })}
          />
          {when.length === 1 ? null : (
            <button
              type="button"
              class="plain small"
              aria-label={`${W.dropCondition}: ${W.condition(at + 1, place + 1)}`}
              onClick={() => onChange({ when: when.toSpliced(place, 1), then })}
            >
              ×
            </button>
          )}
        </div>
      ))}
      <div class="row nowrap when">
        <span class="joins">{W.then}</span>
        <select
          aria-label={W.answerOf(at + 1)}
          value={then}
          onChange={event => onChange({ when, then: event.currentTarget.value as TierRule['then'] })}
        >
          {(['ask', 'refuse', 'auto'] as const).map(one => (
            <option key={one} value={one} disabled={one === 'auto' && !mayRelax}>
              {W.answers[one]}
            </option>
          ))}
        </select>
      </div>
      {mayRelax || then === 'auto' ? null : <p class="note">{W.observed}</p>}
      <p class="note sentence">
        <Shown text={sentenceOf(ruleText(rule))} />
      </p>
      <div class="row">
        <button
          type="button"
          class="link"
          disabled={when.length >= CONDITIONS_PER_RULE_MAX}
          onClick={() => onChange({ when: [...when, nextWord(rule, vocabulary)], then })}
        >
          {W.addCondition}
        </button>
        <button type="button" class="link" onClick={onRemove}>
          {W.dropRule}
        </button>
      </div>
    </li>
  )
}

/** A condition that the rule does not have yet, takes no value, and may be in this rule. */
function nextWord({ when, then }: TierRule, vocabulary: readonly VocabularyWord[]): string {
  const free = vocabulary.find(
    ({ condition, takes, may_relax }) =>
      takes === null && (then !== 'auto' || may_relax) && !when.includes(condition),
  )
  return free?.condition ?? when[0]!
}
