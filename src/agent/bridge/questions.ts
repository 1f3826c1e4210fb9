/**
 * Owns the questions of a server of MCP 2025-11-25 in the middle of a call: which call one is about, how
 * often and how long a person may be asked, and the server's answer if nobody can be asked. Contract:
 * "Agreement (claim_token, beat 3)" (what strangers write is shown, never obeyed): a question comes from a
 * stranger, and its answer is no consent to terms.
 */
import { isJsonObject, type Json, type JsonObject } from '../../wire/json.ts'
import { LATE, waitAtMost } from '../../limits/patience.ts'
import { fail } from '../agent-error.ts'
import { withoutAnswer } from './answer-field.ts'
import { plainElicitation } from './asked-back.ts'

/** A person's answer, with the fields that she filled in. */
export interface Reply {
  action: 'accept' | 'decline' | 'cancel'
  content?: JsonObject
}

/** Puts a question, in words that may be shown, to a caller that waits for the call. */
export type Ask = (params: JsonObject, signal: AbortSignal) => Promise<Reply>

/** A question that waits for its answer. */
export interface Question {
  id: string
  params: JsonObject
  /** The server no longer wants an answer. */
  signal: AbortSignal
  answer: (reply: Reply) => void
}

/** One running call of a connection. */
export interface AskingCall {
  tool: string
  ask: Ask | undefined
  asked: number
  isAsking: boolean
  ended: AbortController
}

/** The calls of one connection, as far as its server may ask about them. */
export interface Questions {
  begin(tool: string, ask: Ask | undefined): { call: AskingCall; end: () => void }
  /**
   * The answer to one question. `about`: the call on whose own stream it came, if on one. Fails with
   * `AgentError` if nobody can be asked, or not in this form.
   */
  answer(params: Json, about: AskingCall | undefined, signal: AbortSignal): Promise<Reply>
}

/** How long a person has for one question of a server. The call has its own time, which continues to run. */
export const REPLY_MILLISECONDS = 240_000
/** How many questions one call may have. */
const QUESTIONS_MAX = 16

/** The questions that a server may ask over one connection. */
export function openQuestions(resource: string): Questions {
  const calls = new Set<AskingCall>()
  return {
    begin: (tool, ask) => {
      const call: AskingCall = { tool, ask, asked: 0, isAsking: false, ended: new AbortController() }
      calls.add(call)
      const end = (): void => {
        calls.delete(call)
        call.ended.abort()
      }
      return { call, end }
    },
    answer: async (params, about, signal) => {
      // On its own stream a server names no call, so the question belongs to the only call that there is.
      const call = about ?? (calls.size === 1 ? [...calls][0] : undefined)
      if (call?.ask === undefined || !calls.has(call))
        return fail(
          'unexpected_answer',
          'Nobody can be asked: no call that waits for an answer is asked about.',
        )
      if (call.isAsking || call.asked >= QUESTIONS_MAX)
        return fail(
          'unexpected_answer',
          `One question at a time is put to a person, ${QUESTIONS_MAX} in a call.`,
        )
      const plain = plainElicitation(params, { resource, tool: call.tool })
      call.asked++
      call.isAsking = true
      const late = new AbortController()
      try {
        const over = AbortSignal.any([signal, call.ended.signal, late.signal])
        const reply = await waitAtMost(REPLY_MILLISECONDS, call.ask(plain, over))
        return reply === LATE ? { action: 'cancel' } : reply
      } finally {
        late.abort()
        call.isAsking = false
      }
    },
  }
}

/**
 * A client's answer in the form that may go to a server: an action, and with `accept` the filled-in fields.
 */
export function replyIn(given: unknown): Reply {
  const reply = withoutAnswer(isJsonObject(given) ? given : {})
  const { action, content } = reply as { action?: Json; content?: Json }
  if (action !== 'accept') return { action: action === 'decline' ? action : 'cancel' }
  return { action, ...(isJsonObject(content) ? { content } : {}) }
}

/**
 * The call that gets a question for several waiting calls: one of them, and another one if that one leaves.
 */
const taken = new WeakSet<Question>()

/** Puts the question by this call, or waits until another one has. */
export async function putQuestion(
  question: Question,
  by: { ask?: Ask | undefined; signal: AbortSignal },
  until: (isOver: () => boolean) => Promise<void>,
): Promise<void> {
  const { ask, signal } = by
  if (ask === undefined || taken.has(question)) {
    await until(() => ask !== undefined && !taken.has(question))
    return
  }
  taken.add(question)
  try {
    question.answer(await ask(question.params, AbortSignal.any([signal, question.signal])))
  } catch {
    if (signal.aborted) taken.delete(question)
    else question.answer({ action: 'cancel' })
  }
}
