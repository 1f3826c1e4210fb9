/**
 * Owns the device key of this browser: it is made here, kept here, and never readable by any script, not even
 * this one. Contract: "Authentication" (owner at the owner API: a device key she enrolled), "Algorithms".
 */
import { utf8 } from '../bytes.ts'
import { thumbprint } from '../jws.ts'

/** `waiting`: the key was made, but is not yet known to be enrolled. `x` and `kid` (RFC 7638) are public. */
export interface BrowserKey {
  readonly kid: string
  readonly x: string
  readonly name: string
  readonly state: 'waiting' | 'enrolled'
  readonly privateKey: CryptoKey
  /** When it ends by itself, in milliseconds since the epoch, if a passkey let it in. */
  readonly endsAt?: number
}

const DATABASE = 'usher'
const STORE = 'keys'
const CURRENT = 'current'

/** A new key that only this browser can use, and nobody can copy. */
export async function makeKey(name: string): Promise<BrowserKey> {
  const made = await crypto.subtle.generateKey({ name: 'Ed25519' }, false, ['sign'])
  const { x } = await crypto.subtle.exportKey('jwk', made.publicKey)
  if (x === undefined) throw new Error('the browser made no Ed25519 key')
  return { kid: await thumbprint(x), x, name, state: 'waiting', privateKey: made.privateKey }
}

/** The Ed25519 signature of a text, 64 bytes. */
export async function sign({ privateKey }: BrowserKey, text: string): Promise<Uint8Array> {
  return new Uint8Array(await crypto.subtle.sign('Ed25519', privateKey, utf8(text)))
}

/** The key of this browser, if it has one. */
export async function storedKey(): Promise<BrowserKey | undefined> {
  return inStore('readonly', store => store.get(CURRENT) as IDBRequest<BrowserKey | undefined>)
}

/** Stores it, in place of any other. */
export async function keepKey(key: BrowserKey): Promise<void> {
  await inStore('readwrite', store => store.put(key, CURRENT))
}

/** Deletes it: what it signed stays valid, but nothing more can be signed with it. */
export async function forgetKey(): Promise<void> {
  await inStore('readwrite', store => store.delete(CURRENT))
}

async function inStore<T>(
  mode: IDBTransactionMode,
  work: (store: IDBObjectStore) => IDBRequest<T>,
): Promise<T> {
  const database = await opened()
  try {
    return await answerOf(work(database.transaction(STORE, mode).objectStore(STORE)))
  } finally {
    database.close()
  }
}

function opened(): Promise<IDBDatabase> {
  const request = indexedDB.open(DATABASE, 1)
  request.addEventListener('upgradeneeded', () => request.result.createObjectStore(STORE))
  return answerOf(request)
}

function answerOf<T>(request: IDBRequest<T>): Promise<T> {
  return new Promise((resolve, reject) => {
    request.addEventListener('success', () => resolve(request.result))
    request.addEventListener('error', () => reject(request.error ?? new Error('the browser keeps nothing')))
  })
}
