/**
 * Owns `usher keys`: the signing keys of servers. Contract: "Authentication": what an authority or a resource
 * signs is verified by the key that it publishes.
 */
import { publicJwk } from '../wire/signatures/keys.ts'
import type { Terminal } from './command.ts'
import { readKeySet, writeNewKeySet, writeNewNotificationKey } from './key-file.ts'
import { printableJson } from './printable.ts'

/** Makes a file with one new signing key, and prints its public half. */
export async function newKeySet(file: string, terminal: Terminal): Promise<void> {
  terminal.out(`${printableJson(publicJwk(await writeNewKeySet(file)))}\n`)
}

/** Prints the public halves of the keys in a server's key file, as a set that others can be given. */
export async function publicKeySet(file: string, terminal: Terminal): Promise<void> {
  const keys = await readKeySet(file)
  terminal.out(`${printableJson({ keys: keys.map(key => publicJwk(key)) })}\n`)
}

/** Makes a file with a new key for notifications, and prints the part that browsers get. */
export async function newNotificationKey(file: string, terminal: Terminal): Promise<void> {
  const { publicBytes } = await writeNewNotificationKey(file)
  terminal.out(`${publicBytes.toString('base64url')}\n`)
}
