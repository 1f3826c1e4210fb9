/**
 * How she becomes a member: she first reads what a code would commit her to, and then agrees to exactly that,
 * in a separate step. Contract: "Organization membership, on the member's authorization server".
 */
import { useState } from 'preact/hooks'
import { isJsonObject } from '../../wire/json.ts'
import type { OrganizationPreview, OrganizationStanding } from '../../wire/owner/owner-organization.ts'
import { AgreementForm } from '../parts/agreement-form.tsx'
import { ApiFault, ask } from '../access/api.ts'
import { CheckBox } from '../parts/check-box.tsx'
import { Form } from '../parts/form.tsx'
import { Asking, Fault, Nothing } from '../parts/parts.tsx'
import { useDeed, useSession } from '../access/session.ts'
import { Field, Shown } from '../parts/shown.tsx'
import { whenText } from '../parts/time.ts'
import { WORDS } from '../words.ts'
import { Changes, Commitment, Governed, Part } from './commitment.tsx'
import { TextField } from '../parts/text-field.tsx'

const W = WORDS.organization

type Outside = Extract<OrganizationStanding, { enrolled: false }>
type ShownInvitation = NonNullable<Outside['invitation']>

/** The code, and the organization. */
interface JoinForm {
  issuer: string
  code: string
}

interface Props {
  standing: Outside
  onChanged: () => void
}

export function Joining({ standing, onChanged }: Props) {
  const { access } = useSession()
  const { available, invitation, unreachable } = standing
  const { busy, fault, run } = useDeed()
  const [read, setRead] = useState<{ entry: JoinForm; preview: OrganizationPreview; isMoved: boolean }>()
  const [isDeclined, setDeclined] = useState(false)
  const look = (entry: JoinForm): void =>
    run(async () => {
      setRead(undefined)
      const preview = await ask<OrganizationPreview>(access, {
        method: 'POST',
        path: 'owner/organization/preview',
        body: entry,
      })
      setRead({ entry, preview, isMoved: false })
    })
  const decline = (issuer: string): void =>
    run(async () => {
      await ask(access, { method: 'POST', path: 'owner/organization/decline', body: { issuer } })
      setDeclined(true)
      setRead(undefined)
      onChanged()
    })
  if (available.length === 0) return <Nothing title={W.none} hint={W.noneListed} />
  return (
    <>
      {unreachable.map(issuer => (
        <p key={issuer} class="notice warn">
          <Shown text={W.unreachable(issuer)} />
        </p>
      ))}
      <div role="status">{isDeclined ? <p class="notice good">{W.declined}</p> : null}</div>
      {invitation === null || isDeclined || read !== undefined ? null : (
        <Invited
          {...{ invitation, busy }}
          onRead={() => look({ issuer: invitation.issuer, code: invitation.code })}
          onDecline={() => decline(invitation.issuer)}
        />
      )}
      {read === undefined ? <ByCode {...{ available, busy }} onRead={look} /> : null}
      <Fault text={fault} />
      {read === undefined ? null : (
        <Preview
          {...read}
          onMoved={preview => setRead({ ...read, preview, isMoved: true })}
          onCancel={() => setRead(undefined)}
          onJoined={onChanged}
        />
      )}
    </>
  )
}

function Invited(props: {
  invitation: ShownInvitation
  busy: boolean
  onRead: () => void
  onDecline: () => void
}) {
  const { invitation, busy, onRead, onDecline } = props
  const { issuer, note, expires_at } = invitation
  return (
    <section class="panel invited">
      <h2>
        <Shown text={W.invited(issuer)} />
      </h2>
      <dl class="pairs">
        {note === null || note === '' ? null : (
          <Field name={W.note}>
            <Shown text={note} />
          </Field>
        )}
        <Field name={W.expires}>{whenText(expires_at)}</Field>
      </dl>
      <div class="row">
        <button type="button" class="primary" disabled={busy} onClick={onRead}>
          {busy ? W.reading : W.read}
        </button>
        <Asking
          kind="plain deny"
          label={W.decline}
          asks={W.declineAsk}
          confirm={W.declineNow}
          busy={busy}
          onConfirm={onDecline}
        />
      </div>
    </section>
  )
}

function ByCode({
  available,
  busy,
  onRead,
}: {
  available: string[]
  busy: boolean
  onRead: (by: JoinForm) => void
}) {
  const [code, setCode] = useState('')
  const [issuer, setIssuer] = useState(available[0]!)
  return (
    <Form class="panel" onSubmit={() => onRead({ issuer, code: code.trim() })}>
      <h2>{W.withCode}</h2>
      <p class="quiet">{W.noneHint}</p>
      {available.length === 1 ? null : (
        <label>
          <span class="label">{W.issuer}</span>
          <select name="issuer" value={issuer} onChange={event => setIssuer(event.currentTarget.value)}>
            {available.map(one => (
              <option key={one} value={one}>
                {one}
              </option>
            ))}
          </select>
        </label>
      )}
      <TextField label={W.code} isExact name="code" class="mono" required value={code} onValue={setCode} />
      <button type="submit" class="primary" disabled={busy}>
        {busy ? W.reading : W.read}
      </button>
    </Form>
  )
}

const POWERS = Object.keys(W.powers)

interface JoinPreviewProps {
  entry: JoinForm
  preview: OrganizationPreview
  isMoved: boolean
  onMoved: (preview: OrganizationPreview) => void
  onCancel: () => void
  onJoined: () => void
}

function Preview({ entry, preview, isMoved, onMoved, onCancel, onJoined }: JoinPreviewProps) {
  const { access } = useSession()
  const [left, setLeft] = useState<readonly string[]>(POWERS)
  const { name, charter_name, charter_version, binds_s256, changes, governed_resources } = preview
  const join = async (): Promise<void> => {
    const body = { ...entry, agreed: true, charter_version, binds_s256, administrators_may: left }
    try {
      await ask(access, { method: 'POST', path: 'owner/organization', body })
    } catch (error) {
      const now = error instanceof ApiFault ? error.body['preview'] : undefined
      if (!isJsonObject(now)) throw error
      return onMoved(now as unknown as OrganizationPreview)
    }
    onJoined()
  }
  const about = `${charter_version} ${binds_s256}`
  const agreed = W.agree(charter_name, charter_version)
  const words = { ...W, agreed, act: W.join, acting: W.joining }
  const title = (
    <div>
      <h2>
        <Shown text={name} />
      </h2>
      <p class="quiet">
        <Shown text={W.version(charter_name, charter_version)} />
      </p>
    </div>
  )
  return (
    <AgreementForm {...{ title, about, isMoved, words, onCancel }} onAgree={join}>
      <Commitment view={preview} />
      <Governed resources={governed_resources} conflicts={[]} />
      <Changes changes={changes} />
      <Part title={W.administrators} hint={W.administratorsHint}>
        <ul class="checks">
          {POWERS.map(power => (
            <li key={power}>
              <CheckBox
                name={power}
                isChecked={left.includes(power)}
                onCheck={isChecked =>
                  setLeft(POWERS.filter(one => (one === power ? isChecked : left.includes(one))))
                }
              >
                {W.powers[power]}
              </CheckBox>
            </li>
          ))}
        </ul>
      </Part>
    </AgreementForm>
  )
}
