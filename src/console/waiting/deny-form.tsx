/**
 * Owns the form of a denial: a reason that the agent reads, or none. Contract: "Owner API"
 * (`/owner/pending/{family}/decision`, `reason`).
 */
import { useLayoutEffect, useRef, useState } from 'preact/hooks'
import { Form, FormEnd } from '../parts/form.tsx'
import { TextField } from '../parts/text-field.tsx'
import { WORDS } from '../words.ts'

const W = WORDS.waiting
const REASON_LENGTH_MAX = 200

/** `onDeny` gets at most 200 characters as people count them, and an empty text for no reason. */
export function DenyForm(props: {
  busy: boolean
  confirm: string
  onDeny: (reason: string) => void
  onCancel: () => void
}) {
  const { busy, confirm, onDeny, onCancel } = props
  const [reason, setReason] = useState('')
  const field = useRef<HTMLInputElement>(null)
  useLayoutEffect(() => field.current?.focus(), [])
  return (
    <Form
      class="deny-form"
      onSubmit={() => onDeny(Array.from(reason).slice(0, REASON_LENGTH_MAX).join(''))}
      onKeyDown={event => {
        if (event.key === 'Escape') onCancel()
      }}
    >
      <TextField
        label={W.denyReason}
        field={field}
        name="reason"
        autocomplete="off"
        maxLength={REASON_LENGTH_MAX}
        value={reason}
        onValue={setReason}
      />
      <FormEnd kind="danger" disabled={busy} onCancel={onCancel}>
        {confirm}
      </FormEnd>
    </Form>
  )
}
