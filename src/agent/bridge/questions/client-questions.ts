/**
 * Owns the questions that are put to a client of 2025-11-25 in the middle of a call: a form for a yes, a
 * page, and what a tool's server asks. Contract: "Agreement (claim_token, beat 3)": what a person answers is
 * passed on as she meant it.
 */
import type { Server, ServerContext } from '@modelcontextprotocol/server'
import type { JsonObject } from '../../../wire/json.ts'
import { ANSWER_FORM, asksForAnswer } from './answer-field.ts'
import { QUESTION_MILLISECONDS, type Word } from '../negotiation/completion.ts'
import { REPLY_MILLISECONDS, replyIn, type Reply } from './questions.ts'

/** A question of the tool's server, in words that may be shown. */
export async function passQuestion(
  server: Server,
  question: JsonObject,
  signal: AbortSignal,
): Promise<Reply> {
  const options = { timeout: REPLY_MILLISECONDS, signal }
  const { method, params } = question
  if (method !== 'elicitation/create')
    return (await server.request(question as never, options)) as unknown as JsonObject
  const elicitation = params as unknown as Elicited
  const isOurs = asksForAnswer(params as JsonObject)
  return replyIn(
    await (isOurs ? elicit(server, elicitation, options) : server.elicitInput(elicitation, options)),
  )
}

type Elicited = Parameters<Server['elicitInput']>[0]

/**
 * Asks by a form of ours. Unlike `elicitInput`, it takes an accepted form without its field, as clients send
 * that look at the action alone.
 */
function elicit(server: Server, params: Elicited, options: { timeout: number; signal: AbortSignal }) {
  return server.request({ method: 'elicitation/create', params: { ...params, mode: 'form' } }, options)
}

/** Asks for a yes or no by a form. */
export async function askNow(server: Server, message: string, signal: AbortSignal): Promise<Word> {
  const elicitation: Elicited = { mode: 'form', message, requestedSchema: ANSWER_FORM }
  return replyIn(await elicit(server, elicitation, { timeout: QUESTION_MILLISECONDS, signal })).action
}

/** Shows a page; `decided` tells the client that it may be closed. */
export async function showNow(
  server: Server,
  context: ServerContext,
  { message, link, signal }: { message: string; link: string; signal: AbortSignal },
): Promise<{ word: Word; decided: () => Promise<void> }> {
  const elicitationId = crypto.randomUUID()
  const { action } = await context.mcpReq.elicitInput(
    { mode: 'url', message, url: link, elicitationId },
    { timeout: QUESTION_MILLISECONDS, signal },
  )
  return { word: action, decided: server.createElicitationCompletionNotifier(elicitationId) }
}
