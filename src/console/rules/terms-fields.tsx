/**
 * Owns the fields for the terms of a tier: their purpose, what they govern and allow, for how long, and what
 * is prohibited or must be proved. Contract: "Terms document", "Policy vocabulary and tiers".
 */
import { useState } from 'preact/hooks'
import { TERMS_SECONDS_MAX } from '../../rules/tier.ts'
import type { Resource } from '../../wire/owner/owner-api.ts'
import { CheckBox } from '../parts/check-box.tsx'
import { Shown } from '../parts/shown.tsx'
import { WORDS } from '../words.ts'
import type { Draft } from './draft.ts'
import { ListField } from './list-field.tsx'

const W = WORDS.rules

interface Props {
  id: string
  draft: Draft
  resources: readonly Resource[]
  onChange: (changed: Partial<Draft>) => void
}

export function TermsFields({ id, draft, resources, onChange }: Props) {
  const offered = new Set(draft.scope)
  for (const { _id, resource_scopes } of resources)
    if (draft.resources.includes(_id)) for (const scope of resource_scopes) offered.add(scope)
  return (
    <>
      <label>
        <span class="label">{W.members.name}</span>
        <input
          name="name"
          required
          maxLength={200}
          value={draft.name}
          onInput={event => onChange({ name: event.currentTarget.value })}
        />
      </label>
      <label>
        <span class="label">{W.members.purpose}</span>
        <input
          name="purpose"
          required
          maxLength={1_000}
          value={draft.purpose}
          onInput={event => onChange({ purpose: event.currentTarget.value })}
        />
      </label>
      <Choices
        legend={W.members.resources}
        none={W.noResources}
        choices={resources.map((one): Choice => ({
          value: one._id,
          note:
            one.tier !== null && one.tier !== id
              ? W.governedBy(one.tier_name ?? one.tier)
              : one.name === one._id
                ? undefined
                : one.name,
          inOtherTier: one.tier !== null && one.tier !== id,
        }))}
        chosen={draft.resources}
        onChange={chosen => onChange({ resources: chosen })}
      />
      <Choices
        legend={W.members.scope}
        none={W.noScopes}
        choices={[...offered].map(value => ({ value }))}
        chosen={draft.scope}
        onChange={scope => onChange({ scope })}
      />
      <Lifetime seconds={draft.expires_in} onChange={expires_in => onChange({ expires_in })} />
      <CheckBox name="ask_me" isChecked={draft.ask_me} onCheck={ask_me => onChange({ ask_me })}>
        {W.askMe}
        <span class="note">{draft.ask_me ? W.asksEach : W.asksSome}</span>
      </CheckBox>
      <ListField
        legend={W.members.prohibited}
        hint={W.prohibitedHint}
        each={W.prohibition}
        add={W.addProhibition}
        texts={draft.prohibited}
        onChange={prohibited => onChange({ prohibited })}
      />
      <Clearance clearance={draft.clearance} onChange={clearance => onChange({ clearance })} />
    </>
  )
}

interface Choice {
  value: string
  note?: string | undefined
  /** Another tier governs it, so it cannot be chosen; if it was chosen before, it can be taken out. */
  inOtherTier?: boolean
}

function Choices(props: {
  legend: string
  none: string
  choices: readonly Choice[]
  chosen: readonly string[]
  onChange: (chosen: string[]) => void
}) {
  const { legend, none, choices, chosen, onChange } = props
  return (
    <fieldset>
      <legend>{legend}</legend>
      {choices.length === 0 ? <p class="quiet">{none}</p> : null}
      {choices.map(({ value, note, inOtherTier = false }) => (
        <CheckBox
          key={value}
          value={value}
          isChecked={chosen.includes(value)}
          disabled={inOtherTier && !chosen.includes(value)}
          onCheck={isChecked =>
            onChange(isChecked ? [...chosen, value] : chosen.filter(other => other !== value))
          }
        >
          <Shown text={value} isName />
          {note === undefined ? null : (
            <span class="note">
              <Shown text={note} />
            </span>
          )}
        </CheckBox>
      ))}
    </fieldset>
  )
}

const SECONDS = { d: 86_400, h: 3_600, m: 60, s: 1 } as const
type Unit = keyof typeof SECONDS

function Lifetime({ seconds, onChange }: { seconds: number; onChange: (seconds: number) => void }) {
  const [unit, setUnit] = useState<Unit>(() => unitOf(seconds))
  const count = seconds / SECONDS[unit]
  return (
    <fieldset>
      <legend>{W.members.expires_in}</legend>
      <span class="row nowrap amount">
        <input
          type="number"
          inputMode="numeric"
          name="lasts"
          class="short"
          required
          min={1}
          step={1}
          max={Math.floor(TERMS_SECONDS_MAX / SECONDS[unit])}
          aria-label={W.members.expires_in}
          value={Number.isNaN(count) ? '' : count}
          onInput={event => onChange(event.currentTarget.valueAsNumber * SECONDS[unit])}
        />
        <select
          class="short"
          aria-label={W.unit}
          value={unit}
          onChange={event => {
            const next = event.currentTarget.value as Unit
            setUnit(next)
            onChange(count * SECONDS[next])
          }}
        >
          {Object.entries({ ...W.units, s: W.seconds }).map(([letter, name]) => (
            <option key={letter} value={letter}>
              {name}
            </option>
          ))}
        </select>
      </span>
    </fieldset>
  )
}

function unitOf(seconds: number): Unit {
  const found = (['d', 'h', 'm'] as const).find(
    unit => seconds >= SECONDS[unit] && seconds % SECONDS[unit] === 0,
  )
  return found ?? 's'
}

/** Who gets these terms at all: claims that an organization attests, each with the accepted values. */
function Clearance({
  clearance,
  onChange,
}: {
  clearance: Draft['clearance']
  onChange: (clearance: Draft['clearance']) => void
}) {
  const [name, setName] = useState('')
  return (
    <fieldset>
      <legend>{W.members.clearance}</legend>
      <p class="quiet">{W.clearanceHint}</p>
      {Object.entries(clearance).map(([claim, values]) => (
        <div key={claim} class="claim">
          <ListField
            legend={claim}
            hint={W.claimHint}
            each={place => W.claimValue(claim, place)}
            add={W.addValue}
            texts={values}
            onChange={changed => onChange({ ...clearance, [claim]: changed })}
          />
          <button
            type="button"
            class="link"
            onClick={() =>
              onChange(Object.fromEntries(Object.entries(clearance).filter(([other]) => other !== claim)))
            }
          >
            {W.dropClaim(claim)}
          </button>
        </div>
      ))}
      <div class="row nowrap">
        <input
          maxLength={200}
          aria-label={W.claimName}
          placeholder={W.claimName}
          value={name}
          onInput={event => setName(event.currentTarget.value)}
        />
        <button
          type="button"
          class="plain"
          disabled={name.trim() === '' || Object.hasOwn(clearance, name.trim())}
          onClick={() => {
            onChange({ ...clearance, [name.trim()]: [''] })
            setName('')
          }}
        >
          {W.addClaim}
        </button>
      </div>
    </fieldset>
  )
}
