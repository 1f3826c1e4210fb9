/**
 * Owns the form of a new allowance at one tier that asks her each time. Nothing is stored by it: what it
 * makes is read first (opening.tsx). Contract: "Owner API" (`/owner/allowances/{id}`).
 */
import { useLayoutEffect, useRef, useState } from 'preact/hooks'
import { CALLS } from '../../rules/allowance/operation.ts'
import type { OwnerAllowance } from '../../wire/documents/allowance.ts'
import type { Tier } from '../../wire/owner/owner-api.ts'
import { Form, FormEnd } from '../parts/form.tsx'
import { Fault } from '../parts/parts.tsx'
import { shownText } from '../parts/shown.tsx'
import { TextField } from '../parts/text-field.tsx'
import { ListField } from '../rules/list-field.tsx'
import { WORDS } from '../words.ts'
import {
  membersIn,
  NEW_AMOUNT,
  NEW_ONLY,
  NEW_WINDOW,
  type AllowanceForm,
  type AmountFields,
  type OnlyFields,
  type WindowFields,
} from './draft.ts'
import { ChoiceField, choicesOf, FieldRows } from './fields.tsx'

const W = WORDS.allowances
/** What the authority accepts (wire/documents/allowance.ts), in the syntax of browser forms. */
const ID = String.raw`[a-z0-9\-]{1,32}`
const NAME = '[a-z][a-z0-9_]{0,31}'
const NUMBER = String.raw`(0|[1-9]\d{0,14})(\.\d{1,9})?`
const POINTER = String.raw`(\/([^~\/]|~[01])*)+`

interface NewAllowanceProps {
  form: AllowanceForm
  tiers: readonly Tier[]
  onChange: (changed: Partial<AllowanceForm>) => void
  onRead: (allowance: OwnerAllowance) => void
  onLeave: () => void
}

export function NewAllowance({ form, tiers, onChange, onRead, onLeave }: NewAllowanceProps) {
  const [fault, setFault] = useState<string>()
  const heading = useRef<HTMLHeadingElement>(null)
  useLayoutEffect(() => heading.current?.focus(), [])
  const read = (): void => {
    const made = membersIn(form)
    if ('fault' in made) return setFault(made.fault)
    setFault(undefined)
    onRead({ id: form.id, version: 1, ...made.members })
  }
  return (
    <Form class="panel editor" aria-label={W.newTitle} onSubmit={read}>
      <h2 tabIndex={-1} ref={heading}>
        {W.newTitle}
      </h2>
      <p class="quiet">{W.formHint}</p>
      <div>
        <TextField
          label={W.id}
          isExact
          name="id"
          class="mono"
          required
          maxLength={32}
          pattern={ID}
          value={form.id}
          onValue={id => onChange({ id })}
        />
        <span class="note">{W.idHint}</span>
      </div>
      <ChoiceField
        label={W.tier}
        value={form.tier}
        choices={tiers.map(({ id, name }): [string, string] => [id, shownText(name)])}
        onValue={tier => onChange({ tier })}
      />
      <ListField
        legend={W.toolsLegend}
        hint={W.toolsHint}
        each={W.tool}
        add={W.addTool}
        texts={form.tools}
        onChange={tools => onChange({ tools })}
      />
      <Amounts rows={form.amounts} onChange={amounts => onChange({ amounts })} />
      <Windows form={form} onChange={windows => onChange({ windows })} />
      <OnlyThese rows={form.only} onChange={only => onChange({ only })} />
      <ListField
        legend={W.freeLegend}
        hint={W.freeHint}
        each={W.freeOf}
        add={W.addFree}
        texts={form.free}
        onChange={free => onChange({ free })}
      />
      <Times form={form} onChange={onChange} />
      <Fault text={fault} />
      <FormEnd disabled={false} onCancel={onLeave}>
        {W.read}
      </FormEnd>
    </Form>
  )
}

function Amounts(props: { rows: readonly AmountFields[]; onChange: (rows: AmountFields[]) => void }) {
  return (
    <FieldRows
      {...props}
      legend={W.amountsLegend}
      hint={W.amountsHint}
      each={W.amountOf}
      add={W.addAmount}
      most={4}
      fresh={NEW_AMOUNT}
    >
      {({ name, pointer, as, eachMax, unit, unitPointer }, change) => (
        <>
          <TextField
            label={W.name}
            isExact
            required
            maxLength={32}
            pattern={NAME}
            value={name}
            onValue={text => change({ name: text })}
          />
          <PointerField
            label={W.pointer}
            required
            value={pointer}
            onValue={text => change({ pointer: text })}
          />
          <ChoiceField
            label={W.asLabel}
            value={as}
            choices={choicesOf(W.asChoices)}
            onValue={chosen => change({ as: chosen })}
          />
          <NumberField label={W.eachMax} value={eachMax} onValue={text => change({ eachMax: text })} />
          <div>
            <TextField
              label={W.unit}
              isExact
              maxLength={64}
              value={unit}
              onValue={text => change({ unit: text })}
            />
            <span class="note">{W.unitHint}</span>
          </div>
          <div>
            <PointerField
              label={W.unitPointer}
              value={unitPointer}
              onValue={text => change({ unitPointer: text })}
            />
            <span class="note">{W.unitPointerHint}</span>
          </div>
        </>
      )}
    </FieldRows>
  )
}

function Windows({ form, onChange }: { form: AllowanceForm; onChange: (rows: WindowFields[]) => void }) {
  /** The names of her amounts, and the one that the row has, also if she takes the amount out. */
  const amounts = (chosen: string): string[] => {
    const names = new Set([...form.amounts.map(({ name }) => name.trim()), chosen])
    return [...names].filter(name => name !== '' && name !== CALLS)
  }
  return (
    <FieldRows
      rows={form.windows}
      onChange={onChange}
      legend={W.windowsLegend}
      hint={W.windowsHint}
      each={W.windowOf}
      add={W.addWindow}
      most={8}
      fresh={NEW_WINDOW}
    >
      {({ of, per, max }, change) => (
        <>
          <ChoiceField
            label={W.of}
            value={of}
            choices={[CALLS, ...amounts(of)].map((name): [string, string] => [
              name,
              name === CALLS ? W.ofCalls : name,
            ])}
            onValue={chosen => change({ of: chosen })}
          />
          <NumberField label={W.max} required value={max} onValue={text => change({ max: text })} />
          <ChoiceField
            label={W.perLabel}
            value={per}
            choices={choicesOf(W.perChoices)}
            onValue={chosen => change({ per: chosen })}
          />
        </>
      )}
    </FieldRows>
  )
}

function OnlyThese(props: { rows: readonly OnlyFields[]; onChange: (rows: OnlyFields[]) => void }) {
  return (
    <FieldRows
      {...props}
      legend={W.onlyLegend}
      hint={W.onlyHint}
      each={W.onlyOf}
      add={W.addOnly}
      most={16}
      fresh={NEW_ONLY}
    >
      {({ pointer, kind, values }, change) => (
        <>
          <PointerField
            label={W.pointer}
            required
            value={pointer}
            onValue={text => change({ pointer: text })}
          />
          <ChoiceField
            label={W.valuesAre}
            value={kind}
            choices={choicesOf(W.valueChoices)}
            onValue={chosen => change({ kind: chosen })}
          />
          <label>
            <span class="label">{W.values}</span>
            <textarea
              required
              rows={3}
              autocapitalize="off"
              spellcheck={false}
              value={values}
              onInput={event => change({ values: event.currentTarget.value })}
            />
          </label>
        </>
      )}
    </FieldRows>
  )
}

function Times({ form, onChange }: Pick<NewAllowanceProps, 'form' | 'onChange'>) {
  const { among, zone, until } = form
  return (
    <>
      <ChoiceField
        label={W.amongLabel}
        value={among}
        choices={choicesOf(W.amongChoices)}
        onValue={chosen => onChange({ among: chosen })}
      />
      <TextField
        label={W.zone}
        isExact
        required
        maxLength={64}
        value={zone}
        onValue={text => onChange({ zone: text })}
      />
      <div>
        <TextField
          label={W.untilLabel}
          type="datetime-local"
          value={until}
          onValue={text => onChange({ until: text })}
        />
        <span class="note">{W.untilHint}</span>
      </div>
    </>
  )
}

interface ExactFieldProps {
  label: string
  required?: boolean
  value: string
  onValue: (value: string) => void
}

function PointerField({ required = false, ...field }: ExactFieldProps) {
  return (
    <TextField
      {...field}
      isExact
      required={required}
      class="mono"
      maxLength={400}
      pattern={POINTER}
      title={W.pointerHint}
      placeholder={W.pointerHint}
    />
  )
}

function NumberField({ required = false, ...field }: ExactFieldProps) {
  return (
    <TextField
      {...field}
      isExact
      required={required}
      inputMode="decimal"
      maxLength={25}
      pattern={NUMBER}
      title={W.decimal}
    />
  )
}
