/**
 * Her passkeys on the page: they are added if the authority serves the page, and listed and removed anywhere.
 * Contract: "Authentication" (owner at the owner API).
 */
import { useState } from 'preact/hooks'
import type { Passkey } from '../../wire/owner/owner-credentials.ts'
import { pinnedPasskeys } from '../../wire/passkeys/passkey-claims.ts'
import { Form, FormEnd } from '../parts/form.tsx'
import { Copyable, Fault } from '../parts/parts.tsx'
import { addPasskey } from '../access/passkey.ts'
import { useDeed, useSession } from '../access/session.ts'
import { whenText } from '../parts/time.ts'
import { WORDS } from '../words.ts'
import { Credentials } from './credential.tsx'
import { TextField } from '../parts/text-field.tsx'

const W = WORDS.passkeys

export function PasskeysSection(props: { passkeys: readonly Passkey[]; used: ReadonlyMap<string, string> }) {
  const { passkeys, used } = props
  const { rpId } = useSession()
  return (
    <>
      <h2 class="section">{W.title}</h2>
      <p class="quiet">{rpId === undefined ? W.elsewhere : W.lead}</p>
      {rpId === undefined ? null : <AddPasskey known={passkeys} />}
      {passkeys.length === 0 ? <p class="quiet">{W.none}</p> : null}
      <Credentials
        all={passkeys.map(one => ({
          name: one.name,
          says: `${W.since} ${whenText(one.added_at)} · ${one.rp_id}`,
          id: one.id,
          path: `owner/passkeys/${encodeURIComponent(one.id)}`,
          used: { label: W.lastUsed, at: used.get(one.id) },
          over: one.removed_at === null ? null : `${WORDS.keys.removed} ${whenText(one.removed_at)}`,
          removeAsk: W.removeAsk,
          children:
            one.removed_at === null && one.origins.length > 0 ? (
              <details>
                <summary>{W.pin}</summary>
                <p class="quiet">{W.pinHint}</p>
                <Copyable label="keys_file" text={JSON.stringify(pinnedPasskeys(one))} />
              </details>
            ) : null,
        }))}
      />
    </>
  )
}

function AddPasskey({ known }: { known: readonly Passkey[] }) {
  const { access } = useSession()
  const [isOpen, setOpen] = useState(false)
  const [name, setName] = useState('')
  const [added, setAdded] = useState<string>()
  const { busy, fault, run } = useDeed()
  const add = async (): Promise<void> => {
    const standing = known.filter(one => one.removed_at === null)
    const made = await addPasskey(access, name.trim(), standing)
    setAdded(made.name)
    setName('')
    setOpen(false)
  }
  return (
    <section class="add">
      <div role="status">{added === undefined ? null : <p class="notice good">{W.added(added)}</p>}</div>
      {isOpen ? (
        <Form class="panel" onSubmit={() => run(add)}>
          <h3>{W.add}</h3>
          <p class="quiet">{W.addHint}</p>
          <TextField label={W.name} name="passkey" required maxLength={100} value={name} onValue={setName} />
          <Fault text={fault} />
          <FormEnd disabled={busy || name.trim() === ''} onCancel={() => setOpen(false)}>
            {W.make}
          </FormEnd>
        </Form>
      ) : (
        <button
          type="button"
          class="plain"
          onClick={() => {
            setAdded(undefined)
            setOpen(true)
          }}
        >
          {W.add}
        </button>
      )}
    </section>
  )
}
