/** A list of texts that she writes, one to a row. Contract: "Owner API" (`prohibited`, `clearance`). */
import { useLayoutEffect, useRef } from 'preact/hooks'
import { WORDS } from '../words.ts'

const W = WORDS.rules

export function ListField(props: {
  legend: string
  hint: string
  each: (place: number) => string
  add: string
  texts: readonly string[]
  onChange: (texts: string[]) => void
}) {
  const { legend, hint, each, add, texts, onChange } = props
  const rows = useRef<HTMLUListElement>(null)
  const added = useRef(false)
  useLayoutEffect(() => {
    if (!added.current) return
    added.current = false
    rows.current?.querySelector<HTMLInputElement>('li:last-child input')?.focus()
  }, [texts])
  return (
    <fieldset>
      <legend>{legend}</legend>
      <p class="quiet">{hint}</p>
      <ul class="rows" ref={rows}>
        {texts.map((text, at) => (
          <li key={at} class="row nowrap">
            <input
              required
              maxLength={500}
              aria-label={each(at + 1)}
              value={text}
              onInput={event => onChange(texts.with(at, event.currentTarget.value))}
            />
            <button
              type="button"
              class="plain small"
              aria-label={`${W.drop}: ${each(at + 1)}`}
              onClick={() => onChange(texts.toSpliced(at, 1))}
            >
              ×
            </button>
          </li>
        ))}
      </ul>
      <button
        type="button"
        class="link"
        onClick={() => {
          added.current = true
          onChange([...texts, ''])
        }}
      >
        {add}
      </button>
    </fieldset>
  )
}
