/**
 * Owns the form of a new allowance at one tier that asks her each time. Nothing is stored by it: what it
 * makes is read first (opening.tsx). Contract: "Owner API" (`/owner/allowances/{id}`).
 */
import { useLayoutEffect, useRef, useState } from 'preact/hooks'
import { CALLS } from '../../rules/allowance/judge-operation.ts'
import type { OwnerAllowance } from '../../wire/documents/allowance.ts'
import type { Tier } from '../../wire/owner/owner-api.ts'
import { useFocusHandover } from '../parts/focus.ts'
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
import { ChoiceField, choicesOf, FieldRows, fieldsOf, FieldWithNote } from './fields.tsx'

const W = WORDS.allowances
/** What the authority accepts (wire/documents/allowance.ts), in the syntax of browser forms. */
const ID = String.raw`[a-z0-9\-]{1,32}`
const NAME = '[a-z][a-z0-9_]{0,31}'
const POINTER = {
  class: 'mono',
  maxLength: 400,
  pattern: String.raw`(\/([^~\/]|~[01])*)+`,
  title: W.pointerHint,
  placeholder: W.pointerHint,
}
const NUMBER = {
  inputMode: 'decimal',
  maxLength: 25,
  pattern: String.raw`(0|[1-9]\d{0,14})(\.\d{1,9})?`,
  title: W.decimal,
} as const

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
  useFocusHandover(() => heading.current?.closest('form') ?? null)
  const field = fieldsOf(form, onChange)
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
      <FieldWithNote note={W.idHint}>
        <TextField
          label={W.id}
          isExact
          name="id"
          class="mono"
          required
          maxLength={32}
          pattern={ID}
          {...field('id')}
        />
      </FieldWithNote>
      <ChoiceField
        label={W.tier}
        choices={tiers.map(({ id, name }): [string, string] => [id, shownText(name)])}
        {...field('tier')}
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
      {field => (
        <>
          <TextField label={W.name} isExact required maxLength={32} pattern={NAME} {...field('name')} />
          <TextField label={W.pointer} isExact required {...POINTER} {...field('pointer')} />
          <ChoiceField label={W.asLabel} choices={choicesOf(W.asChoices)} {...field('as')} />
          <TextField label={W.eachMax} isExact {...NUMBER} {...field('eachMax')} />
          <FieldWithNote note={W.unitHint}>
            <TextField label={W.unit} isExact maxLength={64} {...field('unit')} />
          </FieldWithNote>
          <FieldWithNote note={W.unitPointerHint}>
            <TextField label={W.unitPointer} isExact {...POINTER} {...field('unitPointer')} />
          </FieldWithNote>
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
      {field => (
        <>
          <ChoiceField
            label={W.of}
            choices={[CALLS, ...amounts(field('of').value)].map((name): [string, string] => [
              name,
              name === CALLS ? W.ofCalls : name,
            ])}
            {...field('of')}
          />
          <TextField label={W.max} isExact required {...NUMBER} {...field('max')} />
          <ChoiceField label={W.perLabel} choices={choicesOf(W.perChoices)} {...field('per')} />
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
      {field => (
        <>
          <TextField label={W.pointer} isExact required {...POINTER} {...field('pointer')} />
          <ChoiceField label={W.valuesAre} choices={choicesOf(W.valueChoices)} {...field('kind')} />
          <ValuesField {...field('values')} />
        </>
      )}
    </FieldRows>
  )
}

function ValuesField({ value, onValue }: { value: string; onValue: (value: string) => void }) {
  return (
    <label>
      <span class="label">{W.values}</span>
      <textarea
        required
        rows={3}
        autocapitalize="off"
        spellcheck={false}
        value={value}
        onInput={event => onValue(event.currentTarget.value)}
      />
    </label>
  )
}

function Times({ form, onChange }: Pick<NewAllowanceProps, 'form' | 'onChange'>) {
  const field = fieldsOf(form, onChange)
  return (
    <>
      <ChoiceField label={W.amongLabel} choices={choicesOf(W.amongChoices)} {...field('among')} />
      <TextField label={W.zone} isExact required maxLength={64} {...field('zone')} />
      <FieldWithNote note={W.untilHint}>
        <TextField label={W.untilLabel} type="datetime-local" {...field('until')} />
      </FieldWithNote>
    </>
  )
}
