/** Owns what the forms of the page have in common. Contract: "Owner API". */
import type { ComponentChildren, JSX } from 'preact'
import { WORDS } from '../words.ts'

interface FormProps extends Omit<JSX.FormHTMLAttributes, 'onSubmit' | 'ref'> {
  onSubmit: () => void
}

/** A form of which the browser sends nothing; every other attribute is the form's own. */
export function Form({ onSubmit, ...form }: FormProps) {
  return (
    <form
      {...form}
      onSubmit={event => {
        event.preventDefault()
        onSubmit()
      }}
    />
  )
}

/** The end of a form: the button that sends it, and the one that leaves it. */
export function FormEnd(props: {
  kind?: string
  disabled: boolean
  onCancel: () => void
  children: ComponentChildren
}) {
  const { kind = 'primary', disabled, onCancel, children } = props
  return (
    <div class="row">
      <button type="submit" class={kind} disabled={disabled}>
        {children}
      </button>
      <button type="button" class="plain" onClick={onCancel}>
        {WORDS.waiting.cancel}
      </button>
    </div>
  )
}
