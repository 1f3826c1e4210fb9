/**
 * Owns the frame of the page: who is signed in, which page is shown, and the one event stream of all pages.
 * Contract: "Owner API", "Events". Secrets stay in the key of the browser, and never enter an address.
 */
import { useCallback, useEffect, useMemo, useRef, useState } from 'preact/hooks'
import type { Passkey } from '../wire/owner/owner-credentials.ts'
import { readSettings, type Access } from './access/api.ts'
import { useLogin } from './access/login.ts'
import { storedKey, type BrowserKey } from './access/device-key.ts'
import { usableKeys } from './ledger/log-keys.ts'
import { Navigation, pageOf, PAGES, type PageName } from './parts/navigation.tsx'
import { Fault } from './parts/parts.tsx'
import { passkeysOf, rpIdHere } from './access/passkey.ts'
import type { RealmLogin } from './access/realm.ts'
import { SignInPage } from './pages/sign-in.tsx'
import { endOf, SessionContext, wordsOf, type ConsoleSession } from './access/session.ts'
import { followEvents, type StreamEvent } from './access/stream.ts'
import { WORDS } from './words.ts'

/** The address of the page, and so of the API. */
const BASE = new URL('.', document.baseURI)
const TOKEN = 'usher-token'

type PageSettings = Awaited<ReturnType<typeof readSettings>>

/**
 * What came in the fragment of the address. It is removed at once, because it must not stay in any history.
 */
interface LinkParts {
  code: string | undefined
  request: string | undefined
}

export function App() {
  const [settings, setSettings] = useState<PageSettings>()
  const [fault, setFault] = useState<string>()
  const [key, setKey] = useState<BrowserKey | null>()
  const [why, setWhy] = useState<string>()
  const [link] = useState(takeLink)
  const start = useCallback(() => {
    setFault(undefined)
    void Promise.all([readSettings(BASE), storedKey()]).then(
      ([read, stored]) => {
        setSettings(read)
        setKey(stored ?? null)
      },
      (error: unknown) => setFault(wordsOf(error)),
    )
  }, [])
  useEffect(start, [start])
  const { login, isFinishing, leave } = useLogin(settings, BASE, setWhy)
  const access = useMemo(
    () => (settings === undefined ? undefined : accessOf(settings, key ?? undefined, login)),
    [settings, key, login],
  )
  const signOut = useCallback(
    (reason?: string) => {
      setWhy(reason ?? WORDS.signIn.revoked)
      setKey(null)
      leave()
      sessionStorage.removeItem(TOKEN)
      setSettings(known => known && { ...known })
    },
    [leave],
  )
  if (fault !== undefined)
    return (
      <main class="alone">
        <Fault text={fault} retry={start} />
      </main>
    )
  if (settings === undefined || key === undefined || isFinishing)
    return <main class="alone quiet">{WORDS.loading}</main>
  if (access === undefined)
    return (
      <SignInPage
        base={BASE}
        settings={settings}
        stored={key ?? undefined}
        code={link.code}
        why={why}
        onKey={made => {
          setWhy(undefined)
          setKey(made)
        }}
      />
    )
  return <Signed access={access} request={link.request} signOut={signOut} rpId={rpIdHere(settings)} />
}

function accessOf(
  settings: PageSettings,
  key: BrowserKey | undefined,
  login: RealmLogin | undefined,
): Access | undefined {
  const { issuer, aheadMs, signs, log_keys = [] } = settings
  const place = { base: BASE, issuer, aheadMs, logKeys: usableKeys(log_keys) }
  if (signs === 'server') {
    const token = sessionStorage.getItem(TOKEN)
    return token === null ? undefined : { ...place, proof: { by: 'server', token } }
  }
  if (login !== undefined) return { ...place, proof: { by: 'login', login } }
  if (key?.state !== 'enrolled') return undefined
  return { ...place, proof: { by: 'key', key } }
}

function takeLink(): LinkParts {
  const parameters = new URLSearchParams(location.hash.startsWith('#/') ? '' : location.hash.slice(1))
  const token = parameters.get('token')
  if (token !== null) sessionStorage.setItem(TOKEN, token)
  const request = parameters.get('add') ?? undefined
  const code = parameters.get('code') ?? undefined
  if (parameters.size > 0) history.replaceState(null, '', request === undefined ? '#/waiting' : '#/keys')
  return { code, request }
}

function Signed(
  props: Pick<ConsoleSession, 'access' | 'signOut' | 'rpId'> & { request: string | undefined },
) {
  const { access, request, signOut, rpId } = props
  const listeners = useRef(new Set<(event: StreamEvent) => void>())
  const [isConnected, setConnected] = useState(true)
  const [page, query] = useRoute()
  const subscribe = useCallback<ConsoleSession['subscribe']>(listener => {
    listeners.current.add(listener)
    return () => listeners.current.delete(listener)
  }, [])
  useEffect(() => {
    const tell = (event: StreamEvent): void => {
      for (const listener of listeners.current) listener(event)
    }
    // Lists are read at once, and what happened until the stream began is in neither.
    let mayHaveMissed = true
    const stream = followEvents(access, {
      onEvent: tell,
      onConnected: connected => {
        setConnected(connected)
        // Lists that failed meanwhile are read again; the stream brings what happened.
        if (connected && mayHaveMissed) tell({ type: 'reset', data: {} })
        mayHaveMissed = !connected
      },
      onRefused: fault => signOut(endOf(access, fault)),
    })
    return () => stream.end()
  }, [access, signOut])
  const passkeys = usePasskeys(access, subscribe, rpId)
  const session = useMemo(
    () => ({ access, subscribe, signOut, rpId, passkeys }),
    [access, subscribe, signOut, rpId, passkeys],
  )
  const { Page } = PAGES[page]
  useEffect(() => {
    document.title = `${WORDS.pages[page]} · ${WORDS.name}`
  }, [page])
  return (
    <SessionContext.Provider value={session}>
      <a class="skip" href="#content" onClick={skip}>
        {WORDS.skip}
      </a>
      <div class="frame">
        <Navigation page={page} />
        <main id="content" tabIndex={-1}>
          <div role="status" aria-live="polite">
            {isConnected ? null : <p class="notice warn">{WORDS.offline}</p>}
          </div>
          <Page key={page} query={query} request={request} />
        </main>
      </div>
    </SessionContext.Provider>
  )
}

/** Her passkeys that can sign here; none while they cannot be read, as if she had none. */
function usePasskeys(
  access: Access,
  subscribe: ConsoleSession['subscribe'],
  rpId: string | undefined,
): readonly Passkey[] {
  const [passkeys, setPasskeys] = useState<readonly Passkey[]>([])
  useEffect(() => {
    if (rpId === undefined) return undefined
    let isCurrent = true
    const load = (): void =>
      void passkeysOf(access).then(
        all => {
          if (isCurrent) setPasskeys(all.filter(one => one.removed_at === null && one.rp_id === rpId))
        },
        () => undefined,
      )
    load()
    const end = subscribe(({ type }) => {
      if (type.startsWith('credential_') || type === 'reset') load()
    })
    return () => {
      isCurrent = false
      end()
    }
  }, [access, subscribe, rpId])
  return passkeys
}

/** The page itself uses the fragment, so the link must not change it. */
function skip(event: Event): void {
  event.preventDefault()
  document.querySelector<HTMLElement>('#content')?.focus()
}

function useRoute(): [PageName, URLSearchParams] {
  const [hash, setHash] = useState(location.hash)
  useEffect(() => {
    const changed = (): void => {
      setHash(location.hash)
      window.scrollTo(0, 0)
    }
    addEventListener('hashchange', changed)
    return () => removeEventListener('hashchange', changed)
  }, [])
  const [name = '', query = ''] = hash.replace(/^#\//, '').split('?')
  return [pageOf(name), useMemo(() => new URLSearchParams(query), [query])]
}
