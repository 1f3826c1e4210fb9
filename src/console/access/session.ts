/**
 * What every page works with: access to the API, events, and lists that are read again when something
 * happened to them. Contract: "Owner API", "Events".
 */
import { createContext } from 'preact'
import { useCallback, useContext, useEffect, useRef, useState } from 'preact/hooks'
import { ApiFault, type Access } from './api.ts'
import type { Passkey } from '../../wire/owner/owner-credentials.ts'
import type { StreamEvent } from './stream.ts'
import { WORDS } from '../words.ts'

export interface ConsoleSession {
  access: Access
  /** Calls back on every event; returns the function that ends that. */
  subscribe: (listener: (event: StreamEvent) => void) => () => void
  /** Ends with the sign-in page, which says why. */
  signOut: (why?: string) => void
  /** The domain of passkeys, if they can be used at this address. */
  rpId: string | undefined
  /** Her passkeys that can sign here. */
  passkeys: readonly Passkey[]
}

/** What every page gets: the rest of its address, and a device that asks to be added. */
export interface PageProps {
  query: URLSearchParams
  request: string | undefined
}

export const SessionContext = createContext<ConsoleSession | undefined>(undefined)

export function useSession(): ConsoleSession {
  const session = useContext(SessionContext)
  if (session === undefined) throw new Error('a page stands outside a session')
  return session
}

export interface Loaded<T> {
  data: T | undefined
  fault: string | undefined
  reload: () => void
}

/** Several events at once cause only one read. */
const SETTLE_MS = 60
/** The pause between two attempts at a list that could not be read. */
const RETRY_MS = 3_000

/**
 * The result of `load`, read again after each event of a matching type. If a read fails, the last good result
 * stays; after an outage, it is retried until it succeeds.
 */
export function useLoaded<T>(load: (access: Access) => Promise<T>, events: RegExp): Loaded<T> {
  const { access, subscribe, signOut } = useSession()
  const [data, setData] = useState<T>()
  const [fault, setFault] = useState<string>()
  const turns = useRef(0)
  const retry = useRef<ReturnType<typeof setTimeout>>()
  const current = useRef(load)
  current.current = load
  const reload = useCallback((): void => {
    const turn = ++turns.current
    clearTimeout(retry.current)
    current.current(access).then(
      answer => {
        if (turn !== turns.current) return
        setData(() => answer)
        setFault(undefined)
      },
      (error: unknown) => {
        if (turn !== turns.current) return
        if (error instanceof ApiFault && error.status === 401) signOut(endOf(access, error))
        else setFault(wordsOf(error))
        if (isOutage(error)) retry.current = setTimeout(reload, RETRY_MS)
      },
    )
  }, [access, signOut])
  useEffect(() => {
    reload()
    let timer: ReturnType<typeof setTimeout> | undefined
    const unsubscribe = subscribe(({ type }) => {
      if (!events.test(type)) return
      clearTimeout(timer)
      timer = setTimeout(reload, SETTLE_MS)
    })
    return () => {
      turns.current++
      clearTimeout(timer)
      clearTimeout(retry.current)
      unsubscribe()
    }
  }, [reload, subscribe])
  return { data, fault, reload }
}

/** Nobody answered, or the server could not do it now. */
function isOutage(error: unknown): boolean {
  return error instanceof ApiFault && (error.status === 0 || error.status === 429 || error.status >= 500)
}

/** One act at a time: whether it is running, and why it failed. */
export function useDeed(): {
  busy: boolean
  fault: string | undefined
  run: (deed: () => Promise<void>) => void
} {
  const [busy, setBusy] = useState(false)
  const [fault, setFault] = useState<string>()
  const running = useRef(false)
  const run = useCallback((deed: () => Promise<void>): void => {
    if (running.current) return
    running.current = true
    setBusy(true)
    setFault(undefined)
    deed()
      .catch((error: unknown) => setFault(wordsOf(error)))
      .finally(() => {
        running.current = false
        setBusy(false)
      })
  }, [])
  return { busy, fault, run }
}

/** How far clocks and answers may be apart. */
const SESSION_END_MARGIN_MS = 2_000

/**
 * Why a credential is no longer valid: for a login, as the authority says; for a key, that it was removed or
 * has ended.
 */
export function endOf({ proof }: Access, fault: ApiFault): string | undefined {
  if (proof.by === 'key' && proof.key.endsAt !== undefined)
    return Date.now() >= proof.key.endsAt - SESSION_END_MARGIN_MS ? WORDS.passkeys.signInEnded : undefined
  if (proof.by !== 'login') return undefined
  const { expiresAt } = proof.login
  // The authority may notice first that the key has ended.
  const isOver = expiresAt !== undefined && Date.now() >= expiresAt - SESSION_END_MARGIN_MS
  return isOver ? WORDS.signIn.loginEnded : fault.message
}

/** What went wrong, for a person. */
export function wordsOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error)
}
