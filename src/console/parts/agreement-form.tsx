/**
 * The form in which she agrees to exactly what she was shown, in a step of its own: it cannot be sent before
 * she says so. Contract: "Organization membership, on the member's authorization server", "Tally for a
 * jointly held resource".
 */
import type { ComponentChildren } from 'preact'
import { useState } from 'preact/hooks'
import { Fault } from './parts.tsx'
import { useDeed } from '../access/session.ts'
import { Shown } from './shown.tsx'
import { WORDS } from '../words.ts'

interface Props {
  title: ComponentChildren
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

export function AgreementForm({ title, isMoved, words, onAgree, onCancel, children }: Props) {
  const { busy, fault, run } = useDeed()
  const [isAgreed, setAgreed] = useState(false)
  return (
    <form
      class="panel preview"
      onSubmit={event => {
        event.preventDefault()
        run(onAgree)
      }}
    >
      {title}
      {isMoved ? (
        <p class="notice warn" role="alert">
          {words.moved}
        </p>
      ) : (
        <p class="notice">{words.previewHint}</p>
      )}
      {children}
      <label class="check agreed">
        <input
          type="checkbox"
          name="agreed"
          checked={isAgreed}
          onChange={event => setAgreed(event.currentTarget.checked)}
        />
        <span>
          <Shown text={words.agreed} />
        </span>
      </label>
      <Fault text={fault} />
      <div class="row">
        <button type="submit" class="primary" disabled={busy || !isAgreed}>
          {busy ? words.acting : words.act}
        </button>
        <button type="button" class="plain" onClick={onCancel}>
          {WORDS.waiting.cancel}
        </button>
      </div>
    </form>
  )
}
