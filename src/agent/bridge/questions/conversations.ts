/**
 * Owns calls of a client of MCP 2026-07-28 whose tool asks in the middle of the call, as servers of
 * 2025-11-25 do: the question goes back with the answer to the request, the call continues, and the client's
 * next request brings the person's answer. Contract: "What the service does": the client is unmodified.
 */
import { inputRequired } from '@modelcontextprotocol/server'
import { s256Json } from '../../../wire/encoding.ts'
import { isJsonObject, type Json, type JsonObject } from '../../../wire/json.ts'
import { AgentError, fail } from '../../agent-error.ts'
import type { Answer } from '../negotiation/completion.ts'
import type { ProgressListeners } from '../notices/logs.ts'
import { REPLY_MILLISECONDS, replyTo, type Ask, type Reply } from './questions.ts'

/** One request of the client. */
export interface Leg extends ProgressListeners {
  /** The request as the client repeats it, without the answers that it brings. */
  about: Json
  signal: AbortSignal
  sealed: (state: { about: string }) => Promise<string>
  onDelivered: (act: () => Promise<void>) => void
  waited: ((message: string) => Promise<void>) | undefined
}

/** The controls of a call, for whichever request represents it at the moment. */
type Led = Pick<Leg, 'signal' | 'onDelivered' | 'onProgress' | 'onLog' | 'waited'> & { ask: Ask }

/** The same for a request whose client may have no place for a question. */
export type LedRequest = Omit<Led, 'ask'> & { ask: Ask | undefined }

/** The calls of one client that may ask. */
export interface Conversations {
  /** Leads the call until it is answered or asks. */
  begin(leg: Leg, run: (led: Led) => Promise<Answer>): Promise<Answer>
  /**
   * Continues the call that one of our states names; undefined if it names none. Fails with `outcome_unknown`
   * if nobody knows the call any more.
   */
  goOn(about: string, responses: Record<string, unknown> | undefined, leg: Leg): Promise<Answer> | undefined
}

/** What a state says of a question in the middle of a call, before the id of the call. */
export const QUESTION = 'question '
/**
 * How many calls of one client may wait for an answer of a person, or have an answer that nobody has fetched.
 */
const CONVERSATIONS_MAX = 32
/** How long an answer that nobody fetched is kept. */
const ANSWER_MILLISECONDS_MAX = 600_000

interface Conversation {
  id: string
  about: string
  ending: AbortController
  /** The request that represents the call; undefined between two requests. */
  leg: Leg | undefined
  question: { id: string; params: JsonObject; answer: (reply: Reply) => void } | undefined
  outcome: { value: Answer } | { error: unknown } | undefined
  /** Requests that check again when something changes. */
  looking: Set<() => void>
  timer?: NodeJS.Timeout
}

/** The conversations of one client. */
export function createConversations(): Conversations {
  const conversations = new Map<string, Conversation>()
  const drop = (one: Conversation): void => {
    clearTimeout(one.timer)
    conversations.delete(one.id)
  }
  return {
    begin: (leg, run) => {
      const one: Conversation = {
        id: crypto.randomUUID(),
        about: s256Json(leg.about),
        ending: new AbortController(),
        leg,
        question: undefined,
        outcome: undefined,
        looking: new Set(),
      }
      const ask: Ask = (params, signal) => {
        if (!conversations.has(one.id) && conversations.size >= CONVERSATIONS_MAX)
          return fail('unexpected_answer', 'Too many calls of this client wait for a word.')
        conversations.set(one.id, one)
        return asking(one, params, signal)
      }
      const led: Led = {
        ask,
        signal: one.ending.signal,
        onDelivered: act => one.leg?.onDelivered(act),
        onProgress: progress => one.leg?.onProgress?.(progress),
        onLog: log => one.leg?.onLog?.(log),
        waited: leg.waited && (async message => one.leg?.waited?.(message)),
      }
      void run(led).then(
        value => settle(one, { value }, drop),
        (error: unknown) => settle(one, { error }, drop),
      )
      return follow(one, leg, drop)
    },
    goOn: (about, responses, leg) => {
      if (!about.startsWith(QUESTION)) return undefined
      const one = conversations.get(about.slice(QUESTION.length))
      if (one === undefined || one.about !== s256Json(leg.about)) return Promise.reject(forgotten())
      const { question } = one
      const response = question === undefined ? undefined : responses?.[question.id]
      if (isJsonObject(response)) question!.answer(replyTo(question!.params, response))
      return follow(one, leg, drop)
    },
  }
}

/** Puts the question by the request that represents the call, and waits for the answer in a later one. */
async function asking(one: Conversation, params: JsonObject, signal: AbortSignal): Promise<Reply> {
  const { promise, resolve } = Promise.withResolvers<Reply>()
  const cancel = (): void => resolve({ action: 'cancel' })
  const late = setTimeout(cancel, REPLY_MILLISECONDS).unref()
  signal.addEventListener('abort', cancel, { once: true })
  const answer = (reply: Reply): void => {
    one.question = undefined
    resolve(reply)
  }
  one.question = { id: `question-${crypto.randomUUID()}`, params, answer }
  changed(one)
  try {
    return await promise
  } finally {
    clearTimeout(late)
    signal.removeEventListener('abort', cancel)
    one.question = undefined
  }
}

function changed({ looking }: Conversation): void {
  for (const look of looking) look()
  looking.clear()
}

function settle(
  one: Conversation,
  outcome: NonNullable<Conversation['outcome']>,
  drop: (one: Conversation) => void,
): void {
  one.outcome = outcome
  changed(one)
  one.timer = setTimeout(() => drop(one), ANSWER_MILLISECONDS_MAX).unref()
}

/** The answer to this request: the call's answer, or the question that it waits for. */
async function follow(one: Conversation, leg: Leg, drop: (one: Conversation) => void): Promise<Answer> {
  one.leg = leg
  const left = (): void => changed(one)
  leg.signal.addEventListener('abort', left, { once: true })
  try {
    for (;;) {
      const { outcome, question } = one
      if (leg.signal.aborted) {
        // Nobody is left to bring an answer of a person, or to read the result.
        drop(one)
        one.ending.abort()
        throw new AgentError('aborted', { detail: 'The client left.', local: true, terminal: false })
      }
      if (outcome !== undefined) {
        drop(one)
        if ('error' in outcome) throw outcome.error
        return outcome.value
      }
      if (question !== undefined) {
        const { id, params } = question
        const requestState = await leg.sealed({ about: `${QUESTION}${one.id}` })
        return inputRequired({ inputRequests: { [id]: params as never }, requestState })
      }
      await new Promise<void>(resolve => one.looking.add(resolve))
    }
  } finally {
    leg.signal.removeEventListener('abort', left)
    if (one.leg === leg) one.leg = undefined
  }
}

function forgotten(): AgentError {
  return new AgentError('outcome_unknown', {
    detail: 'The tool asked something, and this bridge does not know the call any more. It may have run.',
    local: true,
  })
}
