/**
 * Owns the proof of a call over a transport that is no HTTP (stdio, in process). Contract: "Authorized call":
 * the same credential and the same signature, over the request that would carry the message to its resource.
 */
import { jsonIn, type Json, type JsonObject } from '../../wire/json.ts'
import type { PrivateJwk, PrivateKey } from '../../wire/signatures/keys.ts'
import { carryProof, messageBody } from '../../wire/signatures/message-proof.ts'
import { importKey } from '../profile.ts'
import { signedHeaders } from './proof.ts'

/** A JSON-RPC message and the grant to send it under. */
export interface ProvenMessage {
  /** The URL of the resource, as its metadata names it. */
  resource: string
  message: JsonObject
  accessToken: string
  /** The key that the grant is bound to. */
  key: PrivateJwk | PrivateKey
  /** Seconds since the epoch; the present if left out. */
  now?: number
}

/** The message with its proof in `params._meta`, valid for a minute, only for the server of that resource. */
export function proveMessage({ resource, message, accessToken, key, now }: ProvenMessage): JsonObject {
  const proven = { method: 'POST', url: new URL(resource), body: messageBody(message), accessToken }
  const clock = (): number => now ?? Math.floor(Date.now() / 1000)
  return carryProof(message, signedHeaders(proven, { key: importKey(key), now: clock }))
}

/** The message in a body; undefined if it is not JSON that all readers read alike. */
export function readMessage(body: string): Json | undefined {
  return jsonIn(body)
}
