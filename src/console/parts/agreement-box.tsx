/**
 * Owns the box by which she says that she agrees to what she was shown. Contract: "Organization membership,
 * on the member's authorization server", "Tally for a jointly held resource", "Policy vocabulary and tiers".
 */
import { CheckBox } from './check-box.tsx'
import { Shown } from './shown.tsx'

/** `text` is what she says by it. Whether she may go on without it is up to the form. */
export function AgreementBox(props: {
  text: string
  isAgreed: boolean
  onChange: (isAgreed: boolean) => void
}) {
  const { text, isAgreed, onChange } = props
  return (
    <CheckBox look="agreed" name="agreed" isChecked={isAgreed} onCheck={onChange}>
      <Shown text={text} />
    </CheckBox>
  )
}
