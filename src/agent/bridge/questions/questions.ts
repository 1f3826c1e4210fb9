/**
 * Owns the questions of a server of MCP 2025-11-25 in the middle of a call: which call one is about, how
 * often and how long a person may be asked, and the server's answer if nobody can be asked. Contract:
 * "Agreement (claim_token, beat 3)" (what strangers write is shown, never obeyed): a question comes from a
 * stranger, and its answer is no consent to terms.
 */
import { isJsonObject, type Json, type JsonObject } from '../../../wire/json.ts'
import { LATE, waitAtMost } from '../../../limits/patience.ts'
import { fail } from '../../agent-error.ts'
import { withoutAnswer } from './answer-field.ts'
import { plainQuestion } from './asked-back.ts'
import { QUESTIONS_OF_CALL_MAX } from '../bounds.ts'

/** A person's answer, with the fields that she filled in. */
export type PersonsReply = { action: 'accept' | 'decline' | 'cancel'; content?: JsonObject }
/** The answer to a question: a person's, a model's message, or the client's roots. */
export type Reply = JsonObject

/**
 * Puts a question, in words that may be shown, to a caller that waits for the call: the request, with its
 * `method` and `params`.
 */
export type Ask = (question: JsonObject, signal: AbortSignal) => Promise<Reply>

/** A question that waits for its answer. */
export interface Question {
  id: string
  /** The request, with its `method` and its own `params`. */
  params: JsonObject
  /** The server no longer wants an answer. */
  signal: AbortSignal
  answer: (reply: Reply) => void
}

/** One running call of a connection. */
export interface AskingCall {
  tool: string
  ask: Ask | undefined
  questionCount: number
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
  answer(question: Json, about: AskingCall | undefined, signal: AbortSignal): Promise<Reply>
}

/** How long a person has for one question of a server. The call has its own time, which continues to run. */
export const REPLY_MILLISECONDS = 240_000

/**
 * The questions that a server may ask over one connection. `onQuestion` is called with the tool of the call
 * that one is about; `isAside` if it did not come on the stream of that call.
 */
export function openQuestions(
  resource: string,
  onQuestion: (tool: string, isAside: boolean) => void,
): Questions {
  const calls = new Set<AskingCall>()
  return {
    begin: (tool, ask) => {
      const call: AskingCall = { tool, ask, questionCount: 0, isAsking: false, ended: new AbortController() }
      calls.add(call)
      const end = (): void => {
        calls.delete(call)
        call.ended.abort()
      }
      return { call, end }
    },
    answer: async (question, about, signal) => {
      // On its own stream a server names no call, so the question belongs to the only call that there is.
      const call = about ?? (calls.size === 1 ? [...calls][0] : undefined)
      if (call?.ask === undefined || !calls.has(call))
        return fail(
          'unexpected_answer',
          'Nobody can be asked: no call that waits for an answer is asked about.',
        )
      if (call.isAsking || call.questionCount >= QUESTIONS_OF_CALL_MAX)
        return fail(
          'unexpected_answer',
          `One question at a time is put to a person, ${QUESTIONS_OF_CALL_MAX} in a call.`,
        )
      // One that may not be asked counts too, because what it shows of the tool is kept.
      call.questionCount++
      onQuestion(call.tool, about === undefined)
      const plain = plainQuestion(question, { resource, tool: call.tool })
      call.isAsking = true
      const late = new AbortController()
      try {
        const over = AbortSignal.any([signal, call.ended.signal, late.signal])
        const reply = await waitAtMost(REPLY_MILLISECONDS, call.ask(plain, over))
        return answerTo(plain, reply === LATE ? NOBODY : reply)
      } finally {
        late.abort()
        call.isAsking = false
      }
    },
  }
}

const NOBODY: PersonsReply = { action: 'cancel' }

/** A question to a person may be cancelled; of another that nobody answered, the server gets an error. */
function answerTo({ method }: JsonObject, reply: Reply): Reply {
  const isCancelled = method !== 'elicitation/create' && reply['action'] === NOBODY.action
  return isCancelled ? fail('unexpected_answer', 'The client did not answer.') : reply
}

/** A client's answer to that question, in the form that may go to a server. */
export function replyTo({ method }: JsonObject, response: unknown): Reply {
  if (method === 'elicitation/create') return replyIn(response)
  return isJsonObject(response) ? response : NOBODY
}

/**
 * A client's answer in the form that may go to a server: an action, and with `accept` the filled-in fields.
 */
export function replyIn(response: unknown): PersonsReply {
  const reply = withoutAnswer(isJsonObject(response) ? response : {})
  const { action, content } = reply as { action?: Json; content?: Json }
  if (action !== 'accept') return { action: action === 'decline' ? action : 'cancel' }
  return { action, ...(isJsonObject(content) ? { content } : {}) }
}

/**
 * The call that gets a question for several waiting calls: one of them, and another one if that one leaves.
 */
const questionsNow = new WeakSet<Question>()

/** Puts the question by this call, or waits until another one has. */
export async function putQuestion(
  question: Question,
  by: { ask?: Ask | undefined; signal: AbortSignal },
  until: (isOver: () => boolean) => Promise<void>,
): Promise<void> {
  const { ask, signal } = by
  if (ask === undefined || questionsNow.has(question)) {
    await until(() => ask !== undefined && !questionsNow.has(question))
    return
  }
  questionsNow.add(question)
  try {
    question.answer(await ask(question.params, AbortSignal.any([signal, question.signal])))
  } catch {
    if (signal.aborted) questionsNow.delete(question)
    else question.answer(NOBODY)
  }
}
