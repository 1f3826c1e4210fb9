/**
 * Owns the box by which she says that she agrees to what she was shown. Contract: "Organization membership,
 * on the member's authorization server", "Tally for a jointly held resource", "Policy vocabulary and tiers".
 */
import { useState } from 'preact/hooks'
import { CheckBox } from './check-box.tsx'
import { Shown } from './shown.tsx'

/** Whether she agrees to what a page shows. */
interface PageAgreement {
  isAgreed: boolean
  /** She agreed to what was shown before, and not yet to what is shown now. */
  isMoved: boolean
  setAgreed: (isAgreed: boolean) => void
}

/**
 * Her yes to exactly what `shown` names, such as a digest: as soon as the page shows something else, it is no
 * yes any more.
 */
export function useAgreement(shown: string): PageAgreement {
  const [agreedTo, setAgreedTo] = useState<string>()
  const isAgreed = agreedTo === shown
  return {
    isAgreed,
    isMoved: agreedTo !== undefined && !isAgreed,
    setAgreed: isAgreed => setAgreedTo(isAgreed ? shown : undefined),
  }
}

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
