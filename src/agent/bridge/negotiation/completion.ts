/**
 * Owns how a waiting call is finished with what its client can do: a form for the terms, a task, a link to
 * the owner's console, or otherwise waiting and text. Contract: "Permission ticket" (awaiting-owner),
 * docs/choices.md for the order of these.
 */
import { inputRequired, type CallToolResult, type InputRequiredResult } from '@modelcontextprotocol/server'
import { s256Json } from '../../../wire/encoding.ts'
import { isJsonObject, type Json, type JsonObject } from '../../../wire/json.ts'
import { AgentError } from '../../agent-error.ts'
import { ANSWER_FORM } from '../questions/answer-field.ts'
import { errorResult, waitingResult, waitingText, type Waiting } from '../answers/answers.ts'
import type { ToolCall } from '../../transports/mcp.ts'
import type { ClientCall } from '../call-parts.ts'
import type { Calls } from '../calls.ts'
import { foreignLine } from '../answers/foreign-text.ts'
import { putQuestion, replyIn } from '../questions/questions.ts'
import type { OpenRequest } from './request.ts'
import type { Stage } from './stage.ts'
import { unusable } from './state.ts'
import { termsText, type TermsOffer } from './terms.ts'

/** A person's answer to a question. */
export type Word = 'accept' | 'decline' | 'cancel'

/** The client's abilities, and what it brought back from an earlier round. */
export interface Client {
  /** Asks now, and waits for the answer (2025-11-25). */
  askNow?: ((message: string, signal: AbortSignal) => Promise<Word>) | undefined
  /** Shows a page now (2025-11-25); `decided` tells the client that it may be closed. */
  showNow?:
    | ((
        message: string,
        url: string,
        signal: AbortSignal,
      ) => Promise<{ word: Word; decided: () => Promise<void> }>)
    | undefined
  /** Questions go back with the answer to the call (2026-07-28). */
  form: boolean
  url: boolean
  /** Makes a task of the call; `name` is the tool's as the client calls it. */
  toTask?: ((request: OpenRequest, call: ToolCall, name: string) => Promise<JsonObject>) | undefined
  /** The answers that it brought, and their questions. */
  words: { terms?: Word | undefined; owner?: Word | undefined; about?: string | undefined }
  progress?: ((message: string) => Promise<void>) | undefined
  /** State for the next round, which the client cannot forge. */
  sealed(state: { about: string }): Promise<string>
}

/** One call to be answered. `name` is the tool's as the client calls it. */
export interface CallToAnswer extends ClientCall {
  name: string
  /** The tool promises structured answers. */
  structured: boolean
  holdSeconds: number
  ownerConsole: URL | undefined
  client: Client
  /** Called once the answer is with the client. */
  onDelivered(act: () => Promise<void>): void
}

export type Answer = CallToolResult | InputRequiredResult | JsonObject

const PROGRESS_MILLISECONDS = 5000
/** How long a person may take for a question. */
export const QUESTION_MILLISECONDS = 600_000
/** The authority and the resource have this long to answer, however short the wait for the owner is. */
const START_MILLISECONDS_MIN = 30_000
/** A standing grant may be gone when it is used. Then the call begins again, but only so often. */
const ROUNDS_MAX = 3

/**
 * Answers the call. Fails with `AgentError` only if the tool itself answered with a JSON-RPC error, or the
 * client left.
 */
export async function answerCall(calls: Calls, clientCall: CallToAnswer): Promise<Answer> {
  let family: string | undefined
  try {
    for (let round = 0; round < ROUNDS_MAX; round++) {
      const entered = await calls.enter(clientCall)
      if (entered.kind === 'answer') return entered.result as Answer
      const { request, leave } = entered
      try {
        const reached = await follow(request, clientCall)
        if (reached !== undefined) return reached
      } finally {
        family = request.family() ?? family
        leave()
      }
    }
    return errorResult(
      new AgentError('challenged_again', { detail: 'The resource challenges every grant.', local: true }),
      family,
    )
  } catch (thrown) {
    const error = unusable(thrown)
    if (!(error instanceof AgentError) || error.code === 'rpc_error' || clientCall.signal.aborted)
      throw thrown
    return errorResult(error, family)
  }
}

/**
 * Follows a request as far as this call can; undefined if there is a grant now, or what it came to is about
 * another call.
 */
async function follow(request: OpenRequest, clientCall: CallToAnswer): Promise<Answer | undefined> {
  const { signal, client } = clientCall
  const holdMilliseconds = clientCall.holdSeconds * 1000
  let ends: number | undefined
  for (;;) {
    const startMilliseconds = Math.max(holdMilliseconds, START_MILLISECONDS_MIN)
    await request.until(({ name }) => name !== 'starting', startMilliseconds, signal)
    if (signal.aborted)
      throw new AgentError('aborted', { detail: 'The client left.', local: true, terminal: false })
    if (!request.serves(clientCall.resource, clientCall.call)) return undefined
    const { stage } = request
    switch (stage.name) {
      case 'starting':
        return errorResult(slow(), request.family())
      case 'settled':
        if (stage.settled.kind === 'grant' || !request.answers(clientCall.call)) return undefined
        clientCall.onDelivered(() => request.delivered())
        return stage.settled.result as Answer
      case 'failed':
        if (!request.failsFor(clientCall.call)) return undefined
        clientCall.onDelivered(() => request.delivered())
        throw stage.error
      case 'offer': {
        const asking = await askTerms(request, stage.offer, clientCall)
        if (asking !== undefined) return asking
        const isSettled = (now: Stage): boolean => now !== stage || isUnasked(request, stage.offer)
        await request.until(isSettled, QUESTION_MILLISECONDS, signal)
        break
      }
      case 'asked':
        await putQuestion(stage.question, clientCall, isFree =>
          request.until(now => now !== stage || isFree(), QUESTION_MILLISECONDS, signal),
        )
        // The time that a person took for her answer does not count as part of the hold either.
        ends = undefined
        break
      case 'waiting':
      case 'approved': {
        if (client.toTask !== undefined) return client.toTask(request, clientCall.call, clientCall.name)
        const link = stage.name === 'waiting' ? cardOf(clientCall, stage) : undefined
        const word = cardWord(client, request)
        if (link !== undefined && client.url && word === undefined)
          return linkBack(client, link, waitingText(clientCall.name, stage), request)
        if (stage.name === 'waiting' && word === 'decline') request.withdraw()
        // The hold is for the owner: what a person at the client took to read the terms is not part of it.
        ends ??= performance.now() + holdMilliseconds
        const last = await holdOn(request, clientCall, { ends, link })
        if (last !== undefined) return waitingResult(clientCall.name, last, clientCall.structured)
      }
    }
  }
}

/** If several calls wait for one person, one of them asks her, and another one if that one leaves. */
const asking = new WeakSet<OpenRequest>()
/** A person's answer; the stage moves on a moment later. */
const answered = new WeakSet<TermsOffer>()

function isUnasked(request: OpenRequest, offer: TermsOffer): boolean {
  return !asking.has(request) && !answered.has(offer)
}

/** Asks a person for yes or no; returns the question if it goes back with the answer. */
async function askTerms(
  request: OpenRequest,
  offer: TermsOffer,
  clientCall: CallToAnswer,
): Promise<Answer | undefined> {
  const { client, signal } = clientCall
  const { terms, about } = client.words
  if (answered.has(offer)) return undefined
  // Her answer is about everything that she was shown, so it does not count for another tool or another
  // authority.
  const shown = s256Json(offer.consent)
  if (terms !== undefined && about === shown) {
    decideTerms(request, offer, terms)
    return undefined
  }
  const message = termsMessage(offer)
  if (client.askNow !== undefined) {
    if (asking.has(request)) return undefined
    asking.add(request)
    try {
      decideTerms(request, offer, await client.askNow(message, signal))
    } catch {
      if (!signal.aborted) decideTerms(request, offer, 'cancel')
    } finally {
      asking.delete(request)
    }
    return undefined
  }
  if (!client.form) {
    decideTerms(request, offer, 'cancel')
    return undefined
  }
  return inputRequired({
    inputRequests: {
      terms: inputRequired.elicit({ message, requestedSchema: ANSWER_FORM }),
    },
    requestState: await client.sealed({ about: shown }),
  })
}

function decideTerms(request: OpenRequest, offer: TermsOffer, word: Word): void {
  answered.add(offer)
  if (word !== 'cancel') return request.decide(word === 'accept')
  const detail =
    `The owner's terms were not accepted. ${termsText(offer).replaceAll('\n', '. ')}. A person who accepts them can start the bridge with ` +
    `--accept-terms ${offer.terms_s256}`
  request.decide(new AgentError('terms_unanswered', { detail, local: true }))
}

function termsMessage(offer: TermsOffer): string {
  const { tool, resource } = offer
  return `${foreignLine(tool)} at ${foreignLine(resource)} may be used on these terms.\n${termsText(offer)}\nAccept them?`
}

/** The owner's card, if the agent's user is the owner. */
function cardOf(
  { ownerConsole }: CallToAnswer,
  { family }: Extract<Stage, { name: 'waiting' }>,
): string | undefined {
  if (ownerConsole === undefined) return undefined
  const url = new URL(ownerConsole)
  url.hash = `/waiting?family=${encodeURIComponent(family)}`
  return url.href
}

/** A person's answer about the card of this very request: about another one's it says nothing. */
function cardWord({ words }: Client, { record }: OpenRequest): Word | undefined {
  return words.about === record.id ? words.owner : undefined
}

async function linkBack(client: Client, url: string, message: string, request: OpenRequest): Promise<Answer> {
  return inputRequired({
    inputRequests: { owner: inputRequired.elicitUrl({ message, url }) },
    requestState: await client.sealed({ about: request.record.id }),
  })
}

/**
 * Waits for the owner, and for the approved call, as long as the client is held; if that time ends first,
 * answers what the call still waits for.
 */
async function holdOn(
  request: OpenRequest,
  clientCall: CallToAnswer,
  { ends, link }: { ends: number; link: string | undefined },
): Promise<Waiting | undefined> {
  const { signal, client, name } = clientCall
  let page: (() => Promise<void>) | undefined
  for (;;) {
    const { stage } = request
    if (stage.name !== 'waiting') await page?.()
    if (!isWaiting(stage) || signal.aborted) return undefined
    if (link !== undefined && stage.name === 'waiting') page ??= showCard(request, clientCall, link)
    const left = ends - performance.now()
    if (left <= 0) return stage
    await client.progress?.(waitingText(name, stage)).catch(() => undefined)
    await request.until(now => now !== stage, Math.min(left, PROGRESS_MILLISECONDS), signal)
  }
}

function isWaiting(stage: Stage): stage is Waiting {
  return stage.name === 'waiting' || stage.name === 'approved'
}

const shown = new WeakSet<OpenRequest>()

/** Shows the card once; returns the function that tells the client that she decided. */
function showCard(
  request: OpenRequest,
  { client, signal, name }: CallToAnswer,
  url: string,
): (() => Promise<void>) | undefined {
  const { showNow } = client
  if (showNow === undefined || shown.has(request) || request.stage.name !== 'waiting') return undefined
  shown.add(request)
  let decided: (() => Promise<void>) | undefined
  void showNow(waitingText(name, request.stage), url, signal).then(
    shown => {
      decided = shown.decided
      if (shown.word === 'decline') request.withdraw()
    },
    // The call that showed it has left, so another waiting call shows it.
    () => signal.aborted && shown.delete(request),
  )
  return async () => decided?.().catch(() => undefined)
}

function slow(): AgentError {
  return new AgentError('temporarily_unavailable', {
    detail: 'The authority of the owner has not answered yet.',
    local: true,
    terminal: false,
  })
}

/** The answers that came back from a round of questions; anything that is no valid answer counts as none. */
export function wordsIn(responses: Record<string, unknown> | undefined): { terms?: Word; owner?: Word } {
  const word = (key: string): Word | undefined => {
    const response = responses?.[key]
    const { action } = (isJsonObject(response) ? response : {}) as { action?: Json }
    const isWord = action === 'accept' || action === 'decline' || action === 'cancel'
    return isWord ? replyIn(response).action : undefined
  }
  const [terms, owner] = [word('terms'), word('owner')]
  return { ...(terms && { terms }), ...(owner && { owner }) }
}
