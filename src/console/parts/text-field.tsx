/** Owns the field for one line of text, with its label. Contract: "Owner API". */
import type { JSX, Ref } from 'preact'

interface TextFieldProps extends Omit<JSX.InputHTMLAttributes, 'label' | 'onInput' | 'ref'> {
  label: string
  value: string
  onValue: (value: string) => void
  /** Whether the text is to be taken as it is typed: nothing completes, corrects or capitalizes it. */
  isExact?: boolean
  /** The input itself, to be focused. */
  field?: Ref<HTMLInputElement>
}

const EXACT = { autocomplete: 'off', autocapitalize: 'off', spellcheck: false } as const

/** A label and its input; every other attribute is the input's own. */
export function TextField({ label, onValue, isExact = false, field = null, ...input }: TextFieldProps) {
  return (
    <label>
      <span class="label">{label}</span>
      <input
        ref={field}
        {...(isExact ? EXACT : {})}
        {...input}
        onInput={event => onValue(event.currentTarget.value)}
      />
    </label>
  )
}
