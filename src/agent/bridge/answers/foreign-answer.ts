/**
 * Owns what happens where a resource answers a request by an answer to another one, or completes without
 * any: nothing more can come, so the caller is told at once. Contract: "Single-use grant": whether a call was
 * made is never guessed, and what came instead is shown, never taken for its answer.
 */
import { isJsonObject, type Json } from '../../../wire/json.ts'
import { AgentError } from '../../agent-error.ts'
import { asWritten } from './as-written.ts'
import type { Exchange, Unread } from '../upstream/exchange.ts'
import { isSame } from './readable-message.ts'

/** After the last part of an answer, the SDK has this long to read it. */
const LAST_PART_MILLISECONDS = 250
/** As much of an answer to another request as is shown. */
const SHOWN_CHARACTERS_MAX = 200

/** A call that was taken, and whose detail says what came instead of its answer. */
export class NoAnswer extends AgentError {}

/** What came instead of the answer to a call. Its detail quotes a stranger: escape it. */
export class ForeignAnswer extends NoAnswer {
  constructor(url: URL, answer: Json) {
    const quoted = quotedStart(JSON.stringify(asWritten(answer)))
    super('outcome_unknown', {
      detail: `${url.origin} answered another request than the one that was sent: ${quoted}`,
      local: true,
    })
  }
}

/** The server sent something that is no readable answer. Its detail quotes a stranger: escape it. */
export class UnreadAnswer extends NoAnswer {
  constructor({ origin }: URL, { status, type, text }: Unread) {
    const how =
      status === 200
        ? `by what is no answer of MCP (${type ?? 'of no type'})`
        : `with status ${status}, under which no call is answered in MCP`
    const words = text.trim() === '' ? 'It says nothing else.' : `It says: ${quotedStart(text)}`
    super('outcome_unknown', {
      detail: `${origin} answered ${how}, so nobody knows what became of the call. ${words}`,
      local: true,
    })
  }
}

/** The stream of an answer ended before the answer, and its server does not go on with it. */
export class BrokenOffAnswer extends NoAnswer {
  constructor({ origin }: URL) {
    super('outcome_unknown', {
      detail: `${origin} ended its answer before it answered the call, and does not go on with it.`,
      local: true,
    })
  }
}

/** It is put between quotation marks, which it must not close. */
function quotedStart(text: string): string {
  const shown = text.length > SHOWN_CHARACTERS_MAX ? `${text.slice(0, SHOWN_CHARACTERS_MAX)}…` : text
  return `"${shown.replaceAll('"', "'")}"`
}

/** Ends the wait for an answer, unless the SDK finds it in what came until now. */
export function completed(exchange: Exchange | undefined): void {
  // Connecting takes several answers.
  if (exchange === undefined || exchange.method === 'connect') return
  setTimeout(() => exchange.ending.abort(), LAST_PART_MILLISECONDS).unref()
}

/** Heeds a message that came while the request of this exchange was under way. */
export function heedMessage(message: Json, exchange: Exchange | undefined, url: URL): void {
  if (exchange?.id === undefined || !isJsonObject(message)) return
  const isAnswer = message['result'] !== undefined || message['error'] !== undefined
  if (!isAnswer) exchange.silentSince = performance.now()
  // The SDK takes an id for ours that is written as a string, too.
  if (!isAnswer || isSame(message['id'], exchange.id)) return
  if (exchange.isCall) exchange.failure ??= new ForeignAnswer(url, message)
  completed(exchange)
}
