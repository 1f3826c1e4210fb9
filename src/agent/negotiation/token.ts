/**
 * Owns one presentation of a ticket at the token endpoint. Contract: "Token endpoint" and "Permission
 * ticket": every presentation spends the ticket, and an answer that continues the negotiation brings another
 * one.
 */
import { setTimeout as delay } from 'node:timers/promises'
import { GRANT_TYPE_UMA_TICKET } from '../../wire/names.ts'
import {
  parseGrantAnswer,
  parseNeedInfo,
  parseRequestSubmitted,
  type GrantAnswer,
  type NeedInfo,
  type RequestSubmitted,
} from '../../wire/negotiation/negotiation.ts'
import { isJsonObject, type JsonObject } from '../../wire/json.ts'
import { AgentError, fail, isRefusalWord, reading, receivedSentence, refusalWord } from '../agent-error.ts'
import { readMessage } from '../transports/message.ts'
import {
  DOCUMENT_BYTES_MAX,
  exchange,
  isOutage,
  readObject,
  retryAfterSeconds,
  type TransportAnswer,
} from '../transports/transport.ts'

/**
 * The presentation: the ticket alone (beat 2, or a poll), with the agreement (beat 3), or with a refusal of
 * the terms.
 */
export interface Presentation {
  ticket: string
  claim_token?: string
  claim_token_format?: string
  decline?: 'true'
}

/** The answers that continue a negotiation, or end it well. Refusals are thrown. */
export type TokenAnswer =
  | { kind: 'need_info'; ticket: string; needed: NeedInfo }
  | { kind: 'submitted'; ticket: string; submitted: RequestSubmitted }
  | { kind: 'granted'; granted: GrantAnswer }

/** The token endpoint of one negotiation. */
export interface TokenEndpointContext {
  url: URL
  now: () => number
  signal?: AbortSignal | undefined
  onRetry: (code: string, seconds: number) => void
}

/** An early poll is held by the authority for up to its interval, so the answer may take its time. */
const TOKEN_SECONDS_MAX = 90
const RETRIES_MAX = 3
const RETRY_SECONDS_MAX = 30

/**
 * Presents a ticket and returns the answer. A refusal fails with its own code and is terminal.
 * `temporarily_unavailable` is retried up to three times, after the time that `Retry-After` asks: the same is
 * presented with the ticket of that answer, or with the previous ticket if it has none. `used` are the
 * tickets of this negotiation so far: one that comes back fails with `ticket_not_rotated`, because others may
 * know it.
 */
export async function presentTicket(
  endpoint: TokenEndpointContext,
  presentation: Presentation,
  used: Set<string>,
): Promise<TokenAnswer> {
  let { ticket } = presentation
  for (let attempt = 1; ; attempt++) {
    used.add(ticket)
    try {
      const answer = await present(endpoint, { ...presentation, ticket })
      if (answer.kind !== 'granted' && used.has(answer.ticket)) {
        fail('ticket_not_rotated', 'The authority gave back a ticket that was presented already.')
      }
      return answer
    } catch (error) {
      if (!(error instanceof AgentError) || error.code !== 'temporarily_unavailable' || attempt > RETRIES_MAX)
        throw error
      await pauseBeforeRetry(error, attempt, endpoint)
      ticket = error.ticket ?? ticket
    }
  }
}

/** How an outage is waited out, and for how long. */
interface OutageWait {
  onRetry: (code: string, seconds: number) => void
  signal?: AbortSignal | undefined
  /** What is left of a time that this and other steps may take, seconds; below 0 when it is over. */
  secondsLeft?: (() => number) | undefined
}

/**
 * Waits as long as the refusal asks, otherwise 1, 2, 4 s; gives up if that is more than 30 s, or than what is
 * left.
 */
export async function pauseBeforeRetry(
  error: AgentError,
  attempt: number,
  waiting: OutageWait,
): Promise<void> {
  const seconds = error.retryAfterSeconds ?? 2 ** (attempt - 1)
  if (seconds > Math.min(RETRY_SECONDS_MAX, waiting.secondsLeft?.() ?? Infinity)) throw error
  waiting.onRetry(error.code, seconds)
  await pause(seconds, waiting.signal)
}

/**
 * Takes a step that may be taken again, up to three times more while it fails with `temporarily_unavailable`.
 * Waits before each as `pauseBeforeRetry` does.
 */
export async function throughOutages<T>(waiting: OutageWait, step: () => Promise<T>): Promise<T> {
  for (let attempt = 1; ; attempt++) {
    try {
      return await step()
    } catch (error) {
      if (!(error instanceof AgentError) || error.code !== 'temporarily_unavailable' || attempt > RETRIES_MAX)
        throw error
      await pauseBeforeRetry(error, attempt, waiting)
    }
  }
}

/** Waits; fails with `aborted` when the caller gives up meanwhile. */
export async function pause(seconds: number, signal: AbortSignal | undefined): Promise<void> {
  try {
    await delay(seconds * 1000, undefined, signal ? { signal } : {})
  } catch (cause) {
    fail('aborted', 'The call was given up by its caller.', { cause, terminal: false })
  }
}

async function present(endpoint: TokenEndpointContext, presentation: Presentation): Promise<TokenAnswer> {
  const answer = await exchange(
    {
      method: 'POST',
      url: endpoint.url,
      headers: { accept: 'application/json', 'content-type': 'application/x-www-form-urlencoded' },
      body: new URLSearchParams({ grant_type: GRANT_TYPE_UMA_TICKET, ...presentation }).toString(),
      timeoutSeconds: TOKEN_SECONDS_MAX,
      signal: endpoint.signal,
    },
    DOCUMENT_BYTES_MAX * 2,
  )
  return readAnswer(answer, endpoint.now())
}

function readAnswer(answer: TransportAnswer, now: number): TokenAnswer {
  const source = { who: 'authority', now }
  const body = readAnswerObject(answer, source)
  const { error } = body
  if (answer.status !== 200 && error !== 'need_info' && error !== 'request_submitted')
    throw refusalOf(answer, body, source)
  return reading('answer_malformed', "The authority's answer is not usable", () => parseTokenAnswer(body))
}

/** The party that answered, and when, in seconds. */
interface AnswerSource {
  who: string
  now: number
}

/**
 * The object in the answer. If a proxy answers in place of the server, with a page or JSON of its own, that
 * is an outage: a refusal of theirs has its word.
 */
export function readAnswerObject(answer: TransportAnswer, { who, now }: AnswerSource): JsonObject {
  const { status } = answer
  if (isOutage(status) && !isRefusal(answer)) {
    throw new AgentError('temporarily_unavailable', {
      detail: `The ${who} cannot be reached (status ${status}).`,
      status,
      retryAfterSeconds: retryAfterSeconds(answer.headers, now),
    })
  }
  return readObject(answer, `${who}'s answer`)
}

function isRefusal({ body }: TransportAnswer): boolean {
  const answer = readMessage(body.toString('utf8'))
  return isJsonObject(answer) && isRefusalWord(answer['error'])
}

/** The meaning of a refusal, by its own code. */
export function refusalOf(
  { status, headers }: TransportAnswer,
  body: JsonObject,
  { who, now }: AnswerSource,
): AgentError {
  return new AgentError(refusalWord(body['error']), {
    detail: withOwnersWords(
      receivedSentence(body['error_description'], `The ${who} refused with status ${status}.`),
      body,
    ),
    by: who,
    status,
    retryAfterSeconds: retryAfterSeconds(headers, now),
    ticket: ticketIn(body),
  })
}

/** The owner's reason follows, as her words. */
function withOwnersWords(detail: string, { owner_reason: reason }: JsonObject): string {
  if (typeof reason !== 'string' || reason.trim() === '') return detail
  return `${detail} The owner says: ${receivedSentence(reason, '')}`
}

function ticketIn({ ticket }: JsonObject): string | undefined {
  return typeof ticket === 'string' && ticket !== '' ? ticket : undefined
}

function parseTokenAnswer(body: JsonObject): TokenAnswer {
  if (body['error'] === 'need_info') {
    const needed = parseNeedInfo(body)
    return { kind: 'need_info', ticket: needed.ticket, needed }
  }
  if (body['error'] === 'request_submitted') {
    const submitted = parseRequestSubmitted(body)
    return { kind: 'submitted', ticket: submitted.ticket, submitted }
  }
  return { kind: 'granted', granted: parseGrantAnswer(body) }
}
