/**
 * Owns her login at her realm: it is completed when she comes back from there, renewed before it ends, and
 * over when it cannot be renewed. Contract: "Authentication" (owner at the owner API: an OIDC access token).
 */
import { useCallback, useEffect, useState } from 'preact/hooks'
import type { ConsoleRealm, ConsoleSettings } from '../../wire/owner/console.ts'
import { finishLogin, renewLogin, takeReturned, type RealmLogin } from './realm.ts'
import { wordsOf } from './session.ts'
import { WORDS } from '../words.ts'

/** How long before its end it is renewed. */
const AHEAD_MS = 30_000
/** The longest time that a timer can count. */
const TIMER_MS_MAX = 2_000_000_000

export interface LoginState {
  /** It is changed in place when it is renewed, so that nothing that is open has to begin again. */
  login: RealmLogin | undefined
  /** She came back from the realm, and the code is being redeemed. */
  isFinishing: boolean
  leave: () => void
}

/** `onOver` is called with why a login failed, or is over. */
export function useLogin(
  settings: ConsoleSettings | undefined,
  base: URL,
  onOver: (why: string) => void,
): LoginState {
  const [returned, setReturned] = useState(takeReturned)
  const [login, setLogin] = useState<RealmLogin>()
  const realm = realmOf(settings)
  const leave = useCallback(() => setLogin(undefined), [])
  useEffect(() => {
    if (settings === undefined || returned === undefined) return
    if (realm === undefined) {
      setReturned(undefined)
      return onOver(WORDS.signIn.realmSilent)
    }
    finishLogin(realm, base, returned)
      .then(setLogin, (error: unknown) => onOver(wordsOf(error)))
      .finally(() => setReturned(undefined))
  }, [settings === undefined])
  useEffect(() => {
    if (login === undefined || realm === undefined) return
    const ended = new AbortController()
    void keep(login, realm, ended.signal).then(() => {
      if (ended.signal.aborted) return
      leave()
      onOver(WORDS.signIn.loginEnded)
    })
    return () => ended.abort()
  }, [login])
  return { login, isFinishing: returned !== undefined, leave }
}

/** The realm, if it can be asked. */
export function realmOf(settings: ConsoleSettings | undefined): ConsoleRealm | undefined {
  const realm = settings?.realm
  return realm === undefined || 'unreachable' in realm ? undefined : realm
}

/** Renews it until nobody needs it, or until the realm no longer renews it. */
async function keep(login: RealmLogin, realm: ConsoleRealm, ended: AbortSignal): Promise<void> {
  while (login.expiresAt !== undefined) {
    const left = login.expiresAt - Date.now()
    const until = login.refresh === undefined ? left : Math.max(left - AHEAD_MS, Math.min(left, 1_000))
    await pause(Math.min(Math.max(until, 0), TIMER_MS_MAX), ended)
    if (ended.aborted) return
    if (login.refresh === undefined && Date.now() >= login.expiresAt) return
    if (login.refresh === undefined) continue
    try {
      Object.assign(login, await renewLogin(realm, login))
    } catch {
      if (Date.now() >= login.expiresAt) return
    }
  }
  // If a realm does not say when the login ends, the API will refuse it then.
  await new Promise<void>(resolve => ended.addEventListener('abort', () => resolve(), { once: true }))
}

function pause(milliseconds: number, ended: AbortSignal): Promise<void> {
  return new Promise(resolve => {
    const done = (): void => {
      clearTimeout(timer)
      resolve()
    }
    const timer = setTimeout(done, milliseconds)
    ended.addEventListener('abort', done, { once: true })
  })
}
