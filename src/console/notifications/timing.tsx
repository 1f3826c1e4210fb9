/**
 * When one of her addresses is told of what can be undone: what is set, and the form that sets it. Contract:
 * "Owner API", "Events" (row 1).
 */
import { useState } from 'preact/hooks'
import type { MessageTiming, Subscription } from '../../wire/owner/owner-api.ts'
import { ask } from '../access/api.ts'
import { Form, FormEnd } from '../parts/form.tsx'
import { Fault } from '../parts/parts.tsx'
import { useDeed, useSession } from '../access/session.ts'
import { TextField } from '../parts/text-field.tsx'
import { WORDS } from '../words.ts'

const W = WORDS.notifications

/** What is set, in words. */
export function timingText({ quiet_hours, digest_minutes }: MessageTiming): string {
  const quiet =
    quiet_hours === null ? [] : [W.notFrom(quiet_hours.from, quiet_hours.until, quiet_hours.time_zone)]
  const together = digest_minutes === null ? [] : [W.togetherAfter(digest_minutes)]
  const parts = [...quiet, ...together]
  return parts.length === 0 ? W.atOnce : parts.join(', ')
}

interface TimingProps {
  one: Subscription
  onSaved: () => void
  onCancel: () => void
}

/** The form that sets it. */
export function TimingForm({ one, onSaved, onCancel }: TimingProps) {
  const { access } = useSession()
  const { busy, fault, run } = useDeed()
  const [from, setFrom] = useState(one.quiet_hours?.from ?? '')
  const [until, setUntil] = useState(one.quiet_hours?.until ?? '')
  const [zone, setZone] = useState(one.quiet_hours?.time_zone ?? ownZone())
  const [digest, setDigest] = useState(one.digest_minutes?.toString() ?? '')
  const hasHours = from !== '' || until !== ''
  const save = async (): Promise<void> => {
    const body: MessageTiming = {
      quiet_hours: hasHours ? { from, until, time_zone: zone.trim() } : null,
      digest_minutes: digest === '' ? null : Number(digest),
    }
    await ask(access, { method: 'PUT', path: `owner/notifications/${encodeURIComponent(one.id)}`, body })
    onSaved()
  }
  return (
    <Form class="timing" onSubmit={() => run(save)}>
      <p class="quiet">{W.whenHint}</p>
      <fieldset>
        <legend>{W.quiet}</legend>
        <div class="times">
          <TextField
            label={W.from}
            name="from"
            type="time"
            required={hasHours}
            value={from}
            onValue={setFrom}
          />
          <TextField
            label={W.until}
            name="until"
            type="time"
            required={hasHours}
            value={until}
            onValue={setUntil}
          />
          <TextField
            label={W.zone}
            name="time_zone"
            isExact
            required={hasHours}
            maxLength={64}
            value={zone}
            onValue={setZone}
          />
        </div>
      </fieldset>
      <TextField
        label={W.digest}
        name="digest_minutes"
        type="number"
        inputMode="numeric"
        min={1}
        max={1440}
        step={1}
        value={digest}
        onValue={setDigest}
      />
      <p class="quiet">{W.leaveEmpty}</p>
      <Fault text={fault} />
      <FormEnd disabled={busy} onCancel={onCancel}>
        {W.save}
      </FormEnd>
    </Form>
  )
}

/** The time zone of this browser. */
const ownZone = (): string => Intl.DateTimeFormat().resolvedOptions().timeZone
