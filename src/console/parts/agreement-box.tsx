/**
 * Owns the box by which she says that she agrees to what she was shown. Contract: "Organization membership,
 * on the member's authorization server", "Tally for a jointly held resource", "Policy vocabulary and tiers".
 */
import { Shown } from './shown.tsx'

/** `text` is what she says by it. Whether she may go on without it is up to the form. */
export function AgreementBox(props: {
  text: string
  isAgreed: boolean
  onChange: (isAgreed: boolean) => void
}) {
  const { text, isAgreed, onChange } = props
  return (
    <label class="check agreed">
      <input
        type="checkbox"
        name="agreed"
        checked={isAgreed}
        onChange={event => onChange(event.currentTarget.checked)}
      />
      <span>
        <Shown text={text} />
      </span>
    </label>
  )
}
