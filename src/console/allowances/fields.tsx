/**
 * Owns the fields of a new allowance that a list of texts does not have: a choice, and rows of several fields
 * each. Contract: "Owner API" (`/owner/allowances/{id}`).
 */
import type { ComponentChildren } from 'preact'
import { useLayoutEffect, useRef } from 'preact/hooks'
import { WORDS } from '../words.ts'

const W = WORDS.allowances

/** A label and its list of choices, by their values. */
export function ChoiceField<Value extends string>(props: {
  label: string
  value: Value
  choices: readonly (readonly [Value, string])[]
  onValue: (value: Value) => void
}) {
  const { label, value, choices, onValue } = props
  return (
    <label>
      <span class="label">{label}</span>
      <select value={value} onChange={event => onValue(event.currentTarget.value as Value)}>
        {choices.map(([one, name]) => (
          <option key={one} value={one}>
            {name}
          </option>
        ))}
      </select>
    </label>
  )
}

/** The choices of a set of words, by their values. */
export function choicesOf<Value extends string>(words: Record<Value, string>): [Value, string][] {
  return Object.entries(words) as [Value, string][]
}

/** A field, and what she should know of it. */
export function FieldWithNote({ note, children }: { note: string; children: ComponentChildren }) {
  return (
    <div>
      {children}
      <span class="note">{note}</span>
    </div>
  )
}

/** For a member of a row, what its field shows, and what changes it. */
type FieldOf<Row> = <Member extends keyof Row>(
  member: Member,
) => { value: Row[Member]; onValue: (value: Row[Member]) => void }

/** The fields of a row, each of which changes its own member. */
export function fieldsOf<Row extends object>(
  row: Row,
  change: (changed: Partial<Row>) => void,
): FieldOf<Row> {
  return member => ({
    value: row[member],
    onValue: value => change({ [member]: value } as unknown as Partial<Row>),
  })
}

/** Rows of fields, each with a name of its own, that she adds and takes out. */
export function FieldRows<Row extends object>(props: {
  legend: string
  hint: string
  each: (place: number) => string
  add: string
  most: number
  rows: readonly Row[]
  fresh: Row
  onChange: (rows: Row[]) => void
  children: (field: FieldOf<Row>) => ComponentChildren
}) {
  const { legend, hint, each, add, most, rows, fresh, onChange, children } = props
  const list = useRef<HTMLUListElement>(null)
  const hasNew = useRef(false)
  useLayoutEffect(() => {
    if (!hasNew.current) return
    hasNew.current = false
    list.current?.querySelector<HTMLElement>(':scope > li:last-child :is(input, select)')?.focus()
  }, [rows])
  return (
    <fieldset>
      <legend>{legend}</legend>
      <p class="quiet">{hint}</p>
      <ul class="rows" ref={list}>
        {rows.map((row, at) => (
          <li key={at}>
            <div class="rule" role="group" aria-label={each(at + 1)}>
              {children(fieldsOf(row, changed => onChange(rows.with(at, { ...row, ...changed }))))}
              <div class="row">
                <button
                  type="button"
                  class="link"
                  aria-label={W.takeOut(each(at + 1))}
                  onClick={() => onChange(rows.toSpliced(at, 1))}
                >
                  {WORDS.rules.drop}
                </button>
              </div>
            </div>
          </li>
        ))}
      </ul>
      <button
        type="button"
        class="link"
        disabled={rows.length >= most}
        onClick={() => {
          hasNew.current = true
          onChange([...rows, fresh])
        }}
      >
        {add}
      </button>
    </fieldset>
  )
}
