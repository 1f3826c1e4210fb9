/**
 * Owns which keys of the log this browser remembers: the first that it saw of an authority, and those that
 * she took over later. What a stolen authority signs with a new key is checked by nobody's word but hers.
 * Contract: "Events" (row 5).
 */
import { isJsonObject, parseJsonObject, type JsonObject } from '../../wire/json.ts'
import { keyIn } from '../jws.ts'

/** What a browser stores for a page, as far as it is used here. */
export interface KeyStore {
  getItem: (name: string) => string | null
  setItem: (name: string, value: string) => void
}

const NAME = 'usher-log-keys'

/** The `x` of the Ed25519 keys that an authority publishes; others are left out. */
export function usableKeys(published: readonly unknown[]): string[] {
  return published.flatMap(jwk => (isJsonObject(jwk) ? (keyIn(jwk) ?? []) : []))
}

/** The `x` of the keys of this issuer's log: those that are remembered, or else `published`, from now on. */
export function logKeysOf(store: KeyStore, issuer: string, published: readonly string[]): readonly string[] {
  const known = storedObject(store, NAME)[issuer]
  const keys = Array.isArray(known) ? known.filter(key => typeof key === 'string') : []
  if (keys.length > 0) return keys
  rememberKeys(store, issuer, published)
  return published
}

/** Remembers these keys in place of those of before. */
export function rememberKeys(store: KeyStore, issuer: string, keys: readonly string[]): void {
  store.setItem(NAME, JSON.stringify({ ...storedObject(store, NAME), [issuer]: keys }))
}

/** What is stored under this name; nothing if that is no object. */
export function storedObject(store: KeyStore, name: string): JsonObject {
  try {
    return parseJsonObject(store.getItem(name) ?? '{}')
  } catch {
    return {}
  }
}
