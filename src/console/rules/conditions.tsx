/**
 * Owns one condition of a rule as it is picked: a word of the vocabulary and, if it takes one, a value.
 * Contract: "Policy vocabulary and tiers", "Owner API" (`/owner/policy-vocabulary`).
 */
import { CONDITIONS } from '../../rules/conditions.ts'
import { CONSEQUENCES } from '../../rules/permission.ts'
import type { Tier, VocabularyWord } from '../../wire/owner/owner-api.ts'
import { WORDS } from '../words.ts'

const W = WORDS.rules

/** The initial value of a word. */
const FIRST_VALUE = {
  duration: '30d',
  count: '10',
  level: '1',
  class: 'irreversible',
  allowance: '',
} as const
/** The highest level of any axis that this page knows; also used for an unknown axis. */
const LEVELS = [1, 2]

interface Props {
  written: string
  then: Tier['rules'][number]['then']
  vocabulary: readonly VocabularyWord[]
  /** Its name: the position of the rule and its own. */
  label: string
  onChange: (written: string) => void
}

export function ConditionEditor({ written, then, vocabulary, label, onChange }: Props) {
  const { name, value } = parted(written)
  const word = vocabulary.find(({ condition }) => condition === name)
  const offered = vocabulary.filter(one => then !== 'auto' || one.may_relax)
  const pick = (chosen: string): void => {
    const takes = vocabulary.find(({ condition }) => condition === chosen)?.takes ?? null
    const keeps = takes !== null && takes === word?.takes && isLevel(chosen, value)
    onChange(takes === null ? chosen : `${chosen}:${keeps ? value : FIRST_VALUE[takes]}`)
  }
  return (
    <div class="condition">
      <select
        class="word"
        aria-label={label}
        value={name}
        onChange={event => pick(event.currentTarget.value)}
      >
        {offered.some(({ condition }) => condition === name) ? null : <option value={name}>{name}</option>}
        {Object.entries(W.groups).map(([group, title]) => (
          <optgroup key={group} label={title}>
            {offered
              .filter(({ condition }) => condition.startsWith(`${group}.`))
              .map(one => (
                <option key={one.condition} value={one.condition}>
                  {one.takes === null ? one.label : `${one.label} …`}
                </option>
              ))}
          </optgroup>
        ))}
      </select>
      {word === undefined || word.takes === null ? null : (
        <Value
          takes={word.takes}
          name={name}
          value={value}
          label={`${label}: ${W.value}`}
          onChange={next => onChange(`${name}:${next}`)}
        />
      )}
    </div>
  )
}

function Value(props: {
  takes: NonNullable<VocabularyWord['takes']>
  name: string
  value: string
  label: string
  onChange: (value: string) => void
}) {
  const { takes, name, value, label, onChange } = props
  if (takes === 'duration') return <Duration value={value} label={label} onChange={onChange} />
  if (takes === 'count')
    return (
      <input
        type="number"
        inputMode="numeric"
        class="short"
        required
        min={0}
        max={999_999_999}
        aria-label={label}
        value={value}
        onInput={event => onChange(event.currentTarget.value)}
      />
    )
  if (takes === 'allowance')
    return (
      <input
        type="text"
        required
        maxLength={32}
        pattern="[a-z0-9\-]+"
        aria-label={label}
        value={value}
        onInput={event => onChange(event.currentTarget.value)}
      />
    )
  const choices = takes === 'class' ? CONSEQUENCES : levelsOf(name)
  return (
    <select
      class="short"
      aria-label={label}
      value={value}
      onChange={event => onChange(event.currentTarget.value)}
    >
      {choices.map(one => (
        <option key={one} value={String(one)}>
          {takes === 'class' ? (W.classes[one] ?? one) : one}
        </option>
      ))}
    </select>
  )
}

function Duration({
  value,
  label,
  onChange,
}: {
  value: string
  label: string
  onChange: (value: string) => void
}) {
  const [, count = '', unit = 'd'] = /^(\d*)([dhm])$/.exec(value) ?? []
  return (
    <span class="row nowrap amount">
      <input
        type="number"
        inputMode="numeric"
        class="short"
        required
        min={1}
        max={999_999}
        aria-label={label}
        value={count}
        onInput={event => onChange(`${event.currentTarget.value}${unit}`)}
      />
      <select
        class="short"
        aria-label={`${label}: ${W.unit}`}
        value={unit}
        onChange={event => onChange(`${count}${event.currentTarget.value}`)}
      >
        {Object.entries(W.units).map(([letter, name]) => (
          <option key={letter} value={letter}>
            {name}
          </option>
        ))}
      </select>
    </span>
  )
}

/** The word and its value; `value` is empty if it has none. */
export function parted(written: string): { name: string; value: string } {
  const colon = written.indexOf(':')
  return colon === -1
    ? { name: written, value: '' }
    : { name: written.slice(0, colon), value: written.slice(colon + 1) }
}

function levelsOf(name: string): number[] {
  const highest = CONDITIONS.get(name)?.levelMax
  return highest === undefined ? LEVELS : LEVELS.filter(level => level <= highest)
}

/** Whether a value of one word is valid for the other, because both take the same kind. */
function isLevel(name: string, value: string): boolean {
  return CONDITIONS.get(name)?.takes !== 'level' || levelsOf(name).includes(Number(value))
}
