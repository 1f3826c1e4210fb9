/**
 * How a browser gets to decide for its owner: it makes a key, and a one-time code or another of her devices
 * enrols it. Contract: "Authentication" (a device key she enrolled; no static owner credential exists).
 */
import { useEffect, useState } from 'preact/hooks'
import type { ConsoleSettings } from '../../wire/owner/console.ts'
import { ApiFault, ask, type Access } from '../access/api.ts'
import { jwkOf } from '../access/device-jwk.ts'
import { forgetKey, keepKey, makeKey, type BrowserKey } from '../access/device-key.ts'
import { checkWord, requestOf } from '../access/device-request.ts'
import { Form } from '../parts/form.tsx'
import { Copyable, Fault } from '../parts/parts.tsx'
import { QrCode } from '../parts/qr-code.tsx'
import { useDeed } from '../access/session.ts'
import { PasskeySignIn } from './passkey-sign-in.tsx'
import { RealmSignIn } from './realm-sign-in.tsx'
import { WORDS } from '../words.ts'
import { TextField } from '../parts/text-field.tsx'

interface Props {
  base: URL
  settings: ConsoleSettings & { aheadMs: number }
  /** A key that was made here and is not known to be enrolled. */
  stored: BrowserKey | undefined
  code: string | undefined
  /** Why nobody is signed in any more. */
  why: string | undefined
  onKey: (key: BrowserKey | null) => void
}

const W = WORDS.signIn
/** How often a browser that waits asks whether it was let in. */
const POLL_INTERVAL_MS = 1_500

export function SignInPage(props: Props) {
  const { settings, stored, why } = props
  return (
    <main class="alone sign-in">
      <p class="brand">
        <img src="console.svg" width="36" height="36" alt="" />
        {WORDS.name}
      </p>
      <h1>{W.title}</h1>
      {why === undefined ? null : (
        <p class="notice warn" role="alert">
          {why}
        </p>
      )}
      {settings.signs === 'server' ? (
        <p class="lead">{W.local}</p>
      ) : stored?.state === 'waiting' ? (
        <AwaitAnother {...props} stored={stored} />
      ) : (
        <>
          <RealmSignIn base={props.base} settings={settings} />
          <PasskeySignIn {...props} name={deviceName} />
          {settings.device_keys === false ? null : <Begin {...props} />}
        </>
      )}
    </main>
  )
}

function Begin({ base, settings, code: linkCode, onKey }: Props) {
  const [code, setCode] = useState(linkCode ?? '')
  const [name, setName] = useState(deviceName)
  const { busy, fault, run } = useDeed()
  const made = async (): Promise<BrowserKey> => {
    try {
      return await makeKey(name.trim() === '' ? deviceName() : name.trim())
    } catch (cause) {
      throw new Error(W.noKeys, { cause })
    }
  }
  const enrol = async (): Promise<void> => {
    const key = await made()
    const access = accessBy(base, settings, key)
    // A client keeps the issuer that may stand behind it; this page has its own.
    const [alone = ''] = code.trim().split('@')
    const body = { code: alone, name: key.name, jwk: jwkOf(key) }
    await ask(access, { method: 'POST', path: 'owner/enrolment', body })
    const enrolled = { ...key, state: 'enrolled' } as const
    await keepKey(enrolled)
    onKey(enrolled)
  }
  const request = async (): Promise<void> => {
    const key = await made()
    await keepKey(key)
    onKey(key)
  }
  return (
    <>
      <p class="lead">{W.lead}</p>
      <Form class="panel" onSubmit={() => run(enrol)}>
        <h2>{W.withCode}</h2>
        <p class="quiet">{W.withCodeHint}</p>
        <TextField label={W.code} isExact name="code" class="mono" required value={code} onValue={setCode} />
        <TextField label={W.device} name="device" maxLength={100} value={name} onValue={setName} />
        <Fault text={fault} />
        <button type="submit" class="primary" disabled={busy}>
          {busy ? W.enrolling : W.enrol}
        </button>
      </Form>
      <section class="panel">
        <h2>{W.another}</h2>
        <p class="quiet">{W.anotherHint}</p>
        <button type="button" class="plain" disabled={busy} onClick={() => run(request)}>
          {W.ask}
        </button>
      </section>
    </>
  )
}

function AwaitAnother({ base, settings, stored, onKey }: Props & { stored: BrowserKey }) {
  const [fault, setFault] = useState<string>()
  useEffect(() => {
    let timer: ReturnType<typeof setTimeout>
    let hasLeft = false
    const look = async (): Promise<void> => {
      try {
        await ask(accessBy(base, settings, stored), { path: 'owner/device-keys?limit=1' })
        const enrolled = { ...stored, state: 'enrolled' } as const
        await keepKey(enrolled)
        return onKey(enrolled)
      } catch (error) {
        setFault(error instanceof ApiFault && error.status !== 401 ? error.message : undefined)
      }
      if (!hasLeft) timer = setTimeout(() => void look(), POLL_INTERVAL_MS)
    }
    void look()
    return () => {
      hasLeft = true
      clearTimeout(timer)
    }
  }, [base, settings, stored, onKey])
  const request = requestOf(stored)
  const link = `${new URL('.', base).href}#add=${request}`
  return (
    <section class="panel">
      <h2>{W.waitingTitle}</h2>
      <p class="quiet">{W.waitingHint}</p>
      <p>
        {W.check} <strong class="check-word">{checkWord(stored.kid)}</strong>
      </p>
      <QrCode text={link} label={W.qr} />
      <Copyable label={W.request} text={request} />
      <Copyable label={W.link} text={link} />
      <Fault text={fault} />
      <p class="quiet" role="status">
        {W.stillWaiting}
      </p>
      <button type="button" class="plain" onClick={() => void forgetKey().then(() => onKey(null))}>
        {W.cancel}
      </button>
    </section>
  )
}

function accessBy(base: URL, { issuer, aheadMs }: Props['settings'], key: BrowserKey): Access {
  return { base, issuer, aheadMs, proof: { by: 'key', key } }
}

/** A name that distinguishes devices; she may change it. */
function deviceName(): string {
  const { userAgent } = navigator
  const browser = ['Firefox', 'Edg', 'Chrome', 'Safari'].find(one => userAgent.includes(one)) ?? 'Browser'
  const system = ['Android', 'iPhone', 'iPad', 'Windows', 'Mac', 'Linux'].find(one => userAgent.includes(one))
  const named = browser === 'Edg' ? 'Edge' : browser
  return system === undefined ? named : `${named} on ${system}`
}
