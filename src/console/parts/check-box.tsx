/** Owns the box that is checked or not, with what it says beside it. Contract: "Owner API". */
import type { ComponentChildren, JSX } from 'preact'

interface CheckBoxProps extends Pick<JSX.InputHTMLAttributes, 'name' | 'value' | 'disabled'> {
  isChecked: boolean
  onCheck: (isChecked: boolean) => void
  /** A class of its label beside that of every such label. */
  look?: string
  children: ComponentChildren
}

/** A box and its label, which is `children`; every other attribute is the input's own. */
export function CheckBox({ isChecked, onCheck, look = '', children, ...input }: CheckBoxProps) {
  return (
    <label class={`check ${look}`.trimEnd()}>
      <input
        type="checkbox"
        {...input}
        checked={isChecked}
        onChange={event => onCheck(event.currentTarget.checked)}
      />
      <span>{children}</span>
    </label>
  )
}
