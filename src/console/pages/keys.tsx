/**
 * Keys and logins: the credentials with which she decides, and how to add another. Contract:
 * "Authentication".
 */
import { useEffect, useState } from 'preact/hooks'
import type { LedgerEntry } from '../../wire/owner/owner-api.ts'
import type { DeviceKey as ListedKey, Login, Passkey } from '../../wire/owner/owner-credentials.ts'
import { ask, askAll, type Access } from '../access/api.ts'
import { forgetKey } from '../access/device-key.ts'
import { checkWord, readRequest, type DeviceRequest } from '../access/device-request.ts'
import { Credentials } from '../keys/credential.tsx'
import { PasskeysSection } from '../keys/passkeys.tsx'
import { Form, FormEnd } from '../parts/form.tsx'
import { Asking, Awaited, Fault, PageHead } from '../parts/parts.tsx'
import { passkeysOf } from '../access/passkey.ts'
import { useDeed, useLoaded, useSession, type PageProps } from '../access/session.ts'
import { whenText } from '../parts/time.ts'
import { WORDS } from '../words.ts'
import { TextField } from '../parts/text-field.tsx'

const W = WORDS.keys
/** How far back the ledger is searched for the last decision of each key. */
const LATELY = 200

interface LoadedKeys {
  keys: ListedKey[]
  passkeys: Passkey[]
  logins: Login[]
  decided: Map<string, string>
}

async function load(access: Access): Promise<LoadedKeys> {
  const [keys, passkeys, logins, { entries }] = await Promise.all([
    askAll<ListedKey>(access, 'owner/device-keys'),
    passkeysOf(access),
    askAll<Login>(access, 'owner/logins'),
    ask<{ entries: LedgerEntry[] }>(access, { path: `owner/ledger?first=newest&limit=${LATELY}` }),
  ])
  const decided = new Map<string, string>()
  for (const { ts, actor } of entries) {
    const { kid, id } = (actor ?? {}) as { kid?: string; id?: string }
    const by = kid ?? id
    if (by !== undefined && !decided.has(by)) decided.set(by, ts)
  }
  keys.sort((a, b) => (a.enrolled_at < b.enrolled_at ? 1 : -1))
  passkeys.sort((a, b) => (a.added_at < b.added_at ? 1 : -1))
  return { keys, passkeys, logins, decided }
}

function saysOf({ enrolled_at, let_in }: ListedKey): string {
  return let_in === undefined
    ? `${W.since} ${whenText(enrolled_at)}`
    : WORDS.passkeys.letIn(whenText(let_in.expires_at))
}

/** Why a key is no longer valid; null if it is valid. */
function overOf({ revoked_at, let_in }: ListedKey): string | null {
  if (revoked_at !== null) return `${W.removed} ${whenText(revoked_at)}`
  const hasEnded = let_in !== undefined && Date.parse(let_in.expires_at) <= Date.now()
  return hasEnded ? WORDS.passkeys.ended : null
}

export function KeysPage({ request }: PageProps) {
  const { access, signOut } = useSession()
  const { data, fault, reload } = useLoaded(load, /^(credential_|decided|reset)/)
  const own = access.proof.by === 'key' ? access.proof.key.kid : undefined
  const leave = async (): Promise<void> => {
    await forgetKey()
    signOut(undefined)
  }
  return (
    <>
      <PageHead title={W.title} lead={W.lead} />
      <AddDevice request={request} />
      <Awaited data={data} fault={fault} reload={reload} />
      {data === undefined ? null : (
        <>
          <h2 class="section">{W.device}</h2>
          <Credentials
            all={data.keys.map(one => ({
              name: one.name,
              says: saysOf(one),
              id: one.kid,
              path: `owner/device-keys/${encodeURIComponent(one.kid)}`,
              used: { label: W.lastDecided, at: data.decided.get(one.kid) },
              isHere: one.kid === own,
              over: overOf(one),
            }))}
          />
          <PasskeysSection passkeys={data.passkeys} used={data.decided} />
          {data.logins.length === 0 ? null : (
            <>
              <h2 class="section">{W.logins}</h2>
              <Credentials
                all={data.logins.map(one => ({
                  name: one.name,
                  says: `${one.subject} · ${one.issuer}`,
                  id: one.id,
                  path: `owner/logins/${encodeURIComponent(one.id)}`,
                  used: { label: W.lastDecided, at: data.decided.get(one.id) },
                  over: null,
                }))}
              />
            </>
          )}
        </>
      )}
      {access.proof.by !== 'login' ? null : (
        <div class="foot">
          <Asking
            label={W.out}
            asks={W.outLogin}
            confirm={W.outLoginNow}
            onConfirm={() => signOut(WORDS.signIn.loggedOut)}
          />
        </div>
      )}
      {own === undefined ? null : (
        <div class="foot">
          <Asking label={W.out} asks={W.outAsk} confirm={W.outNow} onConfirm={() => void leave()} />
        </div>
      )}
    </>
  )
}

function AddDevice({ request }: { request: string | undefined }) {
  const { access } = useSession()
  const [isOpen, setOpen] = useState(request !== undefined)
  const [text, setText] = useState(request ?? '')
  const [name, setName] = useState('')
  const [found, setFound] = useState<DeviceRequest>()
  const [added, setAdded] = useState<string>()
  const { busy, fault, run } = useDeed()
  useEffect(() => {
    let isCurrent = true
    void readRequest(text).then(read => {
      if (isCurrent) setFound(read)
    })
    return () => {
      isCurrent = false
    }
  }, [text])
  const accept = async (): Promise<void> => {
    if (found === undefined) throw new Error(W.badRequest)
    await ask(access, {
      method: 'POST',
      path: 'owner/device-keys',
      body: { name: name.trim(), jwk: found.jwk },
    })
    setAdded(name.trim())
    setText('')
    setName('')
    setOpen(false)
  }
  return (
    <section class="add">
      <div role="status">{added === undefined ? null : <p class="notice good">{W.added(added)}</p>}</div>
      {isOpen ? (
        <Form class="panel" onSubmit={() => run(accept)}>
          <h2>{W.add}</h2>
          <p class="quiet">{W.addHint}</p>
          <TextField
            label={W.request}
            name="request"
            class="mono"
            required
            autocomplete="off"
            spellcheck={false}
            value={text}
            onValue={setText}
          />
          <TextField label={W.name} name="name" required maxLength={100} value={name} onValue={setName} />
          {found === undefined ? null : (
            <p>
              {W.check}: <strong class="check-word">{checkWord(found.kid)}</strong>
              <br />
              <span class="quiet">{found.isOfCommandLine ? W.checkKid : W.checkHint}</span>
            </p>
          )}
          <Fault text={fault} />
          <FormEnd disabled={busy || found === undefined} onCancel={() => setOpen(false)}>
            {W.accept}
          </FormEnd>
        </Form>
      ) : (
        <button type="button" class="plain" onClick={() => setOpen(true)}>
          {W.add}
        </button>
      )}
    </section>
  )
}
