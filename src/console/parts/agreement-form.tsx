/**
 * The form in which she agrees to exactly what she was shown, in a step of its own: it cannot be sent before
 * she says so. Contract: "Organization membership, on the member's authorization server", "Tally for a
 * jointly held resource".
 */
import type { ComponentChildren } from 'preact'
import { AgreementBox, useAgreement } from './agreement-box.tsx'
import { Form, FormEnd } from './form.tsx'
import { Fault } from './parts.tsx'
import { useDeed } from '../access/session.ts'

interface Props {
  title: ComponentChildren
  /** Names what she agrees to, such as a digest: if it becomes something else, she says so anew. */
  about: string
  /** What she reads differs from what she was shown before. */
  isMoved: boolean
  words: {
    moved: string
    previewHint: string
    /** What she says by agreeing. */
    agreed: string
    act: string
    acting: string
  }
  onAgree: () => Promise<void>
  onCancel: () => void
  children: ComponentChildren
}

export function AgreementForm({ title, about, isMoved, words, onAgree, onCancel, children }: Props) {
  const { busy, fault, run } = useDeed()
  const { isAgreed, setAgreed } = useAgreement(about)
  return (
    <Form class="panel preview" onSubmit={() => run(onAgree)}>
      {title}
      {isMoved ? (
        <p class="notice warn" role="alert">
          {words.moved}
        </p>
      ) : (
        <p class="notice">{words.previewHint}</p>
      )}
      {children}
      <AgreementBox text={words.agreed} isAgreed={isAgreed} onChange={setAgreed} />
      <Fault text={fault} />
      <FormEnd disabled={busy || !isAgreed} onCancel={onCancel}>
        {busy ? words.acting : words.act}
      </FormEnd>
    </Form>
  )
}
