/**
 * Where she is told, outside the page, that something waits. Contract: "Owner API", "Events" (row 1).
 */
import { useRef, useState } from 'preact/hooks'
import type { NewWebhook, NotificationTest, Subscription } from '../../wire/owner/owner-api.ts'
import { ask, askAll, type Access } from '../access/api.ts'
import { TimingForm, timingText } from '../notifications/timing.tsx'
import { Form, FormEnd } from '../parts/form.tsx'
import { Asking, Awaited, Copyable, Fault, Nothing, PageHead } from '../parts/parts.tsx'
import { canPush, subscribePush } from '../access/push.ts'
import { useDeed, useLoaded, useSession } from '../access/session.ts'
import { Shown } from '../parts/shown.tsx'
import { whenText } from '../parts/time.ts'
import { WORDS } from '../words.ts'
import { TextField } from '../parts/text-field.tsx'

const W = WORDS.notifications
const load = (access: Access): Promise<Subscription[]> => askAll<Subscription>(access, 'owner/notifications')

export function NotificationsPage() {
  const { data, fault, reload } = useLoaded(load, /^(subscription_|reset)/)
  const [added, setAdded] = useState<NewWebhook>()
  const tell = (one: NewWebhook): void => {
    setAdded(one)
    reload()
  }
  return (
    <>
      <PageHead title={W.title} lead={W.lead} />
      <div role="status">{added === undefined ? null : <Added one={added} />}</div>
      <section class="add">
        <div class="row adding">
          <AddBrowser onAdded={tell} />
          <AddWebhook onAdded={tell} />
        </div>
      </section>
      <Awaited data={data} fault={fault} reload={reload} />
      {data === undefined ? null : data.length === 0 ? (
        <Nothing title={W.none} hint={W.noneHint} />
      ) : (
        <ul class="list">
          {data.map(one => (
            <Listed key={one.id} one={one} onChanged={reload} />
          ))}
        </ul>
      )}
    </>
  )
}

function Added({ one: { name, secret } }: { one: NewWebhook }) {
  return (
    <div class="notice good">
      <p>{W.added(name)}</p>
      {secret === undefined ? null : (
        <>
          <p>{W.secretHint}</p>
          <Copyable label={W.secret} text={secret} />
        </>
      )}
    </div>
  )
}

interface Adding {
  onAdded: (one: NewWebhook) => void
}

function AddBrowser({ onAdded }: Adding) {
  const { access } = useSession()
  const { busy, fault, run } = useDeed()
  if (!canPush()) return <p class="quiet">{W.noPush}</p>
  const add = async (): Promise<void> => {
    const { key } = await ask<{ key: string }>(access, { path: 'owner/notifications/push-key' })
    const subscription = await subscribePush(access.base, key)
    const body = { kind: 'push', name: W.browserName, subscription }
    onAdded(await ask<NewWebhook>(access, { method: 'POST', path: 'owner/notifications', body }))
  }
  return (
    <>
      <button type="button" class="primary" disabled={busy} onClick={() => run(add)}>
        {busy ? W.asking : W.addBrowser}
      </button>
      <Fault text={fault} />
    </>
  )
}

function AddWebhook({ onAdded }: Adding) {
  const { access } = useSession()
  const { busy, fault, run } = useDeed()
  const [isOpen, setOpen] = useState(false)
  const [url, setUrl] = useState('')
  const [name, setName] = useState('')
  if (!isOpen)
    return (
      <button type="button" class="plain" onClick={() => setOpen(true)}>
        {W.addWebhook}
      </button>
    )
  const add = async (): Promise<void> => {
    const body = { kind: 'webhook', name: name.trim(), url: url.trim() }
    onAdded(await ask<NewWebhook>(access, { method: 'POST', path: 'owner/notifications', body }))
    setUrl('')
    setName('')
    setOpen(false)
  }
  return (
    <Form class="panel" onSubmit={() => run(add)}>
      <h2>{W.addWebhook}</h2>
      <p class="quiet">{W.webhookHint}</p>
      <TextField
        label={W.address}
        name="url"
        type="url"
        class="mono"
        required
        autocomplete="off"
        maxLength={2048}
        value={url}
        onValue={setUrl}
      />
      <TextField
        label={WORDS.keys.name}
        name="name"
        required
        maxLength={100}
        value={name}
        onValue={setName}
      />
      <Fault text={fault} />
      <FormEnd disabled={busy} onCancel={() => setOpen(false)}>
        {W.add}
      </FormEnd>
    </Form>
  )
}

function Listed({ one, onChanged }: { one: Subscription; onChanged: () => void }) {
  const { id, kind, name, origin, created_at, sent_at, failing_since } = one
  const { access } = useSession()
  const { busy, fault, run } = useDeed()
  const [tested, setTested] = useState<NotificationTest>()
  const [isTiming, setTiming] = useState(false)
  const opener = useRef<HTMLButtonElement>(null)
  const close = (): void => {
    setTiming(false)
    opener.current?.focus()
  }
  const path = `owner/notifications/${encodeURIComponent(id)}`
  const remove = async (): Promise<void> => {
    await ask(access, { method: 'DELETE', path })
    onChanged()
  }
  const test = async (): Promise<void> => {
    setTested(undefined)
    setTested(await ask<NotificationTest>(access, { method: 'POST', path: `${path}/test` }))
  }
  return (
    <li class="item" data-id={id}>
      <div class="item-head">
        <h2>
          <Shown text={name} />
        </h2>
        <span class="tag">{W.kinds[kind]}</span>
        {failing_since === null ? null : (
          <span class="tag bad">
            {W.failing} {whenText(failing_since)}
          </span>
        )}
      </div>
      <p class="quiet">
        <Shown text={origin} mono />
      </p>
      <p class="quiet">
        {W.since} {whenText(created_at)} · {sent_at === null ? W.neverSent : `${W.sent} ${whenText(sent_at)}`}
      </p>
      <p class="quiet">
        {W.whenIs} {timingText(one)}
      </p>
      <div role="status">
        {tested === undefined ? null : (
          <p class={`notice ${tested.delivered ? 'good' : 'bad'}`}>{outcomeOf(tested)}</p>
        )}
      </div>
      <Fault text={fault} />
      <div class="row">
        <button
          ref={opener}
          type="button"
          class="plain"
          aria-expanded={isTiming}
          onClick={() => setTiming(!isTiming)}
        >
          {W.when}
        </button>
        <button type="button" class="plain" disabled={busy} onClick={() => run(test)}>
          {W.test}
        </button>
        <Asking
          label={W.remove}
          asks={W.removeAsk}
          confirm={W.removeNow}
          busy={busy}
          onConfirm={() => run(remove)}
        />
      </div>
      {isTiming ? (
        <TimingForm
          one={one}
          onCancel={close}
          onSaved={() => {
            close()
            onChanged()
          }}
        />
      ) : null}
    </li>
  )
}

function outcomeOf({ delivered, status, why }: NotificationTest): string {
  if (delivered) return W.taken
  return status === null ? W.unanswered(why ?? W.nobody) : W.answered(status)
}
