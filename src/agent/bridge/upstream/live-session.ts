/**
 * Owns the steps before a call that change nothing: how they end, and how a server is asked whether the
 * session lives. Contract: "Single-use grant": a grant is spent only on a call that its server reads.
 */
import type { AsyncLocalStorage } from 'node:async_hooks'
import { readMessage } from '../../transports/message.ts'
import { loadSdk } from '../answers/read-answer.ts'
import type { UpstreamConnection } from './connections.ts'
import { newExchange, type Exchange } from './exchange.ts'
import { sessionWord } from './session.ts'

/** A step before any call. It ends if an answer to it is not accepted, and fails with the reason. */
export async function overseen(
  underway: AsyncLocalStorage<Exchange>,
  step: (signal: AbortSignal) => Promise<unknown>,
): Promise<void> {
  const exchange = newExchange('connect')
  try {
    await underway.run(exchange, () => step(exchange.ending.signal))
  } catch (error) {
    throw exchange.failure ?? error
  }
}

/** Fails if the server ended the session, or forgot it. */
export async function askForSession(
  { client, transport }: UpstreamConnection,
  underway: AsyncLocalStorage<Exchange>,
): Promise<void> {
  if (transport.sessionId !== undefined) await overseen(underway, signal => client.ping({ signal }))
}

/**
 * Whether the server proves that it does not know the session: it refuses, in the same session, a request
 * that changes nothing. Calls that come to doubt together ask once.
 */
export async function isForgotten(
  connection: UpstreamConnection,
  underway: AsyncLocalStorage<Exchange>,
): Promise<boolean> {
  connection.forgotten ??= askForSession(connection, underway).then(
    () => false,
    async (error: unknown) => {
      const { SdkHttpError } = await loadSdk()
      if (!(error instanceof SdkHttpError)) return false
      const { status, data } = error
      const message = typeof data.text === 'string' ? readMessage(data.text) : undefined
      return sessionWord({ status, message }, undefined) !== undefined
    },
  )
  const isProved = await connection.forgotten
  if (!isProved) connection.forgotten = undefined
  return isProved
}
