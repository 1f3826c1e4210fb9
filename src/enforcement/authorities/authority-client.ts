/**
 * Owns the calls to one owner's authority. Contract: "Protection API (resource servers only,
 * PAT-authorized)". Paths are the contract's, below the configured issuer; nothing a request carries can name
 * another authority.
 */
import { z } from 'zod'
import { OutboundFault, plainWords, type Outbound, type OutboundAnswer } from '../../http/outbound.ts'
import { parseJson } from '../../wire/json.ts'
import { outage, type Deadline } from '../deadline.ts'
import {
  readConsumption,
  readIntrospection,
  type Consumption,
  type ExpectedGrant,
  type Introspection,
} from '../introspection.ts'
import type { AccessEntry, ReportsOf } from '../reports/outbox.ts'
import { createPatSource, type PatCredential } from './pat.ts'
import { presentedRpt, type AuthorityKeys } from './presented-rpt.ts'
import type { ClientId } from '../../wire/identifiers.ts'

export interface AuthorityClientOptions extends ExpectedGrant {
  client_id: ClientId
  credential: PatCredential
  /** Apart, so that a flood of challenges leaves introspection and consume their connections. */
  pools: { challenges: Outbound; grants: Outbound }
  /** What the authority publishes: needed only where an answer leaves to the RPT what that says too. */
  keys: AuthorityKeys
  /** Milliseconds since the epoch. */
  clock: () => number
  /** Told how each request for a PAT ended. */
  onPat?: ((outcome: 'renewed' | 'refused' | 'failed') => void) | undefined
}

/**
 * How far a run of this enforcement point has come with its reports, and whether it lets no more calls
 * through.
 */
export interface RunWord {
  instance: string
  n: number
  ended: boolean
}

/**
 * One owner's authority. Every method throws `temporarily_unavailable` (503) where no definite answer comes
 * before the deadline: an outage is never an allow, and never a no of the authority's.
 */
export interface AuthorityClient {
  /** Whose calls it is asked about. */
  readonly of: ReportsOf
  /** POST /perm: a ticket for these scopes of a resource. */
  requestTicket(
    wanted: { resource_id: string; resource_scopes: string[] },
    deadline: Deadline,
  ): Promise<string>
  /** POST /introspect. Never consumes; never cached. */
  introspect(token: string, deadline: Deadline): Promise<Introspection>
  /**
   * POST /consume. Sent once at most: where the answer is lost, the call is denied and the grant may be
   * spent.
   */
  consume(token: string, deadline: Deadline): Promise<Consumption>
  /**
   * POST /audit/access. Answers how many of them name no grant that the authority knows, so that they were
   * not recorded.
   */
  reportAccess(entries: AccessEntry[], deadline: Deadline): Promise<{ unknown: number }>
  /** POST /audit/access: how far a run has come. */
  reportRun(word: RunWord, deadline: Deadline): Promise<void>
}

interface ProtectedCall {
  path: string
  /** Sent as JSON. */
  body?: Record<string, unknown>
  /** Sent as a form, as RFC 7662 §2.1 has it: any OAuth server reads that. */
  form?: Record<string, string>
  pool: Outbound
  deadline: Deadline
  /** Whether sending it again can do no harm. */
  repeatable: boolean
}

/** A client that asks for nothing until its first use. */
export function createAuthorityClient(options: AuthorityClientOptions): AuthorityClient {
  const { authority, pools } = options
  const pats = createPatSource({ ...options, outbound: pools.grants })

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
      timeoutMs: timeLeft(call.deadline),
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

  const askForJson = async (call: ProtectedCall, wantedStatus: number): Promise<unknown> => {
    const answer = await ask(call).catch((error: unknown) => {
      if (!(error instanceof OutboundFault)) throw error
      throw outage(`The authority could not be asked: ${plainWords(error)}.`, error)
    })
    if (answer.status !== wantedStatus) throw unexpectedStatus(call.path, answer)
    return parseAnswer(call.path, answer.body)
  }

  const audit = (body: Record<string, unknown>, deadline: Deadline): Promise<unknown> =>
    askForJson({ path: '/audit/access', body, pool: pools.challenges, deadline, repeatable: true }, 200)

  return {
    of: { authority, client_id: options.client_id, owner: options.owner },
    requestTicket: async (wanted, deadline) => {
      const call = { path: '/perm', body: wanted, pool: pools.challenges, deadline, repeatable: true }
      return readTicket(await askForJson(call, 201))
    },
    introspect: async (token, deadline) => {
      const call = { path: '/introspect', form: { token }, pool: pools.grants, deadline, repeatable: true }
      return readIntrospection(await askForJson(call, 200), options, presentedRpt(token, options, deadline))
    },
    consume: async (token, deadline) => {
      const call = { path: '/consume', form: { token }, pool: pools.grants, deadline, repeatable: false }
      return readConsumption(await askForJson(call, 200))
    },
    reportAccess: async (entries, deadline) => ({ unknown: unknownIn(await audit({ entries }, deadline)) }),
    reportRun: async (word, deadline) => {
      await audit({ ...word }, deadline)
    },
  }
}

/**
 * The cause of an outage where the authority did answer, but with another status than the one that is an
 * answer.
 */
export class UnwantedAnswer extends Error {
  readonly status: number

  constructor(status: number) {
    super(`status ${status}`)
    this.name = 'UnwantedAnswer'
    this.status = status
  }
}

function timeLeft(deadline: Deadline): number {
  const left = deadline.remainingMs()
  if (left <= 0) throw outage('There was no time left to ask the authority.')
  return left
}

function unexpectedStatus(path: string, { status, body }: OutboundAnswer): Error {
  let code = ''
  try {
    const said = z.object({ error: z.string().regex(/^[a-z_]{1,64}$/) }).safeParse(parseJson(body))
    code = said.success ? ` ${said.data.error}` : ''
  } catch {
    // what cannot be read is not repeated
  }
  return outage(`The authority answered ${path} with ${status}${code}.`, new UnwantedAnswer(status))
}

function parseAnswer(path: string, body: Buffer): unknown {
  try {
    return parseJson(body)
  } catch (cause) {
    throw outage(`The authority answered ${path} with no well-formed JSON.`, cause)
  }
}

const auditAnswer = z.object({ unknown: z.array(z.unknown()) })

/** An authority that says nothing of it took them all. */
function unknownIn(answer: unknown): number {
  const result = auditAnswer.safeParse(answer)
  return result.success ? result.data.unknown.length : 0
}

const ticketAnswer = z.object({ ticket: z.string().regex(/^[\x21\x23-\x5b\x5d-\x7e]{1,2048}$/) })

function readTicket(answer: unknown): string {
  const result = ticketAnswer.safeParse(answer)
  if (!result.success) throw outage('The authority gave no usable ticket.', result.error)
  return result.data.ticket
}
