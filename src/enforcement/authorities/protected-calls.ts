/**
 * Owns sending to the protection API of one owner's authority. Contract: "Protection API (resource servers
 * only, PAT-authorized)": each request has a PAT, which is fetched once more if it is no longer accepted;
 * what cannot be had is an outage, and never a no. What becomes of a question that gets no answer is
 * unanswered.ts.
 */
import { z } from 'zod'
import { OutboundFault, type Outbound, type OutboundAnswer } from '../../http/outbound/outbound.ts'
import { jsonIn, parseJson } from '../../wire/json.ts'
import type { Deadline } from '../deadline.ts'
import { outage } from '../outage.ts'
import type { PatSource } from './pat.ts'
import { throwUnansweredAsOutage, timeLeftToAskMs } from './unanswered.ts'

export interface ProtectedCall {
  path: string
  /** Sent as JSON. */
  body?: Record<string, unknown>
  /** Sent as a form, as RFC 7662 §2.1 has it: any OAuth server reads that, whatever it answers. */
  form?: Record<string, string>
  pool: Outbound
  /** That of the pool when left out. */
  answerBytesMax?: number
  deadline: Deadline
  /** Whether sending it again can do no harm. */
  repeatable: boolean
}

/** Answers parsed JSON; throws `temporarily_unavailable` if there is none of this status. */
export type AskForJson = (call: ProtectedCall, requiredStatus: number) => Promise<unknown>

/** Asks the authority with this issuer. */
export function createProtectedCalls(authority: string, pats: PatSource): AskForJson {
  const send = async (call: ProtectedCall, pat: string): Promise<OutboundAnswer> => {
    const request = {
      method: 'POST' as const,
      url: authority + call.path,
      headers: {
        authorization: `Bearer ${pat}`,
        'content-type': call.form === undefined ? 'application/json' : 'application/x-www-form-urlencoded',
        accept: 'application/json',
      },
      body: call.form === undefined ? JSON.stringify(call.body) : String(new URLSearchParams(call.form)),
      repeatable: call.repeatable,
      timeoutMs: timeLeftToAskMs(call.deadline),
      ...(call.answerBytesMax === undefined ? {} : { responseBytesMax: call.answerBytesMax }),
    }
    const sentAt = performance.now()
    try {
      return await call.pool.request(request)
    } finally {
      call.deadline.waited(performance.now() - sentAt)
    }
  }

  /**
   * Sends with a PAT; what is repeatable is sent once more after a broken connection or a PAT no longer
   * accepted.
   */
  const ask = async (call: ProtectedCall): Promise<OutboundAnswer> => {
    const pat = await pats.get(call.deadline)
    const answer = await send(call, pat).catch((error: unknown) => {
      const stale = error instanceof OutboundFault && error.reason === 'broken'
      if (call.repeatable && stale) return send(call, pat)
      throw error
    })
    if (answer.status !== 401) return answer
    pats.reject(pat)
    return call.repeatable ? send(call, await pats.get(call.deadline)) : answer
  }

  return async (call, requiredStatus) => {
    const answer = await ask(call).catch(throwUnansweredAsOutage)
    if (answer.status !== requiredStatus) throw unexpectedStatus(call.path, answer)
    return parseAnswer(call.path, answer.body)
  }
}

/**
 * The cause of an outage if the authority did answer, but with another status than the one that is an
 * answer.
 */
export class UnwantedAnswer extends Error {
  readonly status: number
  /** The `error` of its JSON; empty if there is none. */
  readonly code: string
  /** Its `error_description`, 300 characters at most; empty if there is none. */
  readonly sentence: string

  constructor(status: number, { code = '', sentence = '' } = {}) {
    super(String(status))
    this.name = 'UnwantedAnswer'
    this.status = status
    this.code = code
    this.sentence = sentence.slice(0, 300)
  }
}

/** The cause of an outage if the answer could not be read. */
export class UnreadableAnswer extends Error {
  constructor(cause?: unknown) {
    super(cause instanceof Error ? cause.message : 'another form than was asked for')
  }
}

function unexpectedStatus(path: string, { status, body }: OutboundAnswer): Error {
  const refusal = readRefusal(body)
  const code = refusal === undefined ? '' : ` ${refusal.code}`
  return outage(`The authority answered ${path} with ${status}${code}.`, new UnwantedAnswer(status, refusal))
}

const refusalSchema = z.object({
  error: z.string().regex(/^[a-z_]{1,64}$/),
  error_description: z.string().optional().catch(undefined),
})

/** Undefined for what cannot be read, which is not repeated. */
function readRefusal(body: Buffer): { code: string; sentence: string } | undefined {
  const refusal = refusalSchema.safeParse(jsonIn(body)).data
  return refusal && { code: refusal.error, sentence: refusal.error_description ?? '' }
}

function parseAnswer(path: string, body: Buffer): unknown {
  try {
    return parseJson(body)
  } catch (cause) {
    throw outage(`The authority answered ${path} with no well-formed JSON.`, new UnreadableAnswer(cause))
  }
}
