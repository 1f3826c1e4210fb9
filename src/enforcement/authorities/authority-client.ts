/**
 * Owns the calls to one owner's authority. Contract: "Protection API (resource servers only,
 * PAT-authorized)". Paths are the contract's, below the configured issuer; nothing a request carries can name
 * another authority.
 */
import { z } from 'zod'
import { OutboundFault, type Outbound } from '../../http/outbound/outbound.ts'
import type { OutboundStreams } from '../../http/outbound/outbound-stream.ts'
import { isJsonObject, type JsonObject } from '../../wire/json.ts'
import type { Deadline } from '../deadline.ts'
import { outage, UnspentOutage } from '../outage.ts'
import {
  readConsumption,
  readIntrospection,
  type Consumption,
  type ExpectedGrant,
  type Introspection,
} from '../introspection.ts'
import type { TakeHead } from '../ledger/heads.ts'
import type { LeaseHolder } from '../leases/holder.ts'
import { introspectUnderLease, type LeaseAnswer } from '../leases/leased-introspection.ts'
import type { ReportsOf } from '../reports/outbox.ts'
import { createAuditDoor, type AuditDoor } from './report-calls.ts'
import type { AuthorityOffers } from './authority-offers.ts'
import { createGrantQuestions, type GrantQuestions, type WhyNot } from './grant-questions.ts'
import { createEndsWatch } from './ends-watch.ts'
import { createLeaseDoor, type LeaseDoor } from './lease-calls.ts'
import { createPatSource, type PatCredential, type PatSource } from './pat.ts'
import { createProtectedCalls, UnreadableAnswer, UnwantedAnswer, type AskForJson } from './protected-calls.ts'
import { presentedRpt, type AuthorityKeys } from './presented-rpt.ts'
import { createRecordedResource } from './recorded-resource.ts'
import { asFamily, type ClientId, type Family } from '../../wire/identifiers.ts'

export interface AuthorityClientOptions extends ExpectedGrant {
  client_id: ClientId
  credential: PatCredential
  /** Apart, so that a flood of challenges leaves introspection and consume their connections. */
  pools: { challenges: Outbound; grants: Outbound }
  /** What the authority publishes: needed only if an answer leaves to the RPT what that says too. */
  keys: AuthorityKeys
  /** What `typ` its RPTs may have beside the contract's; none when left out. */
  rptTypes?: readonly string[] | undefined
  /** What it offers beside the contract; nothing when left out. */
  offers?: AuthorityOffers | undefined
  /** Holds a lease of the authority; left out, it is asked about every call. */
  leases?: { streams: OutboundStreams; hold: (door: LeaseDoor) => LeaseHolder } | undefined
  /** Milliseconds since the epoch. */
  clock: () => number
  /** Told of what the authority's record or clock has against every call, once each. */
  onFault?: ((sentence: string) => void) | undefined
  /** Told that what its record had against every call is over. */
  onMended?: ((sentence: string) => void) | undefined
  /** Gets the `ledger_head` of each answer that a grant is live; undefined where it has none. */
  onHead?: TakeHead | undefined
  /** Told how each request for a PAT ended. */
  onPat?: ((outcome: 'renewed' | 'refused' | 'failed') => void) | undefined
}

/**
 * One owner's authority. Every method throws `temporarily_unavailable` (503) if no definite answer comes
 * before the deadline: an outage is never an allow, and never a no of the authority's.
 */
export interface AuthorityClient extends AuditDoor {
  /** Whose calls it is asked about. */
  readonly of: ReportsOf
  /** Asks for a PAT if there is none yet: resolves once the authority has taken the credential. */
  prove(deadline: Deadline): Promise<void>
  /** Asks for another PAT, and so for what the authority has on record. */
  proveAnew: (deadline: Deadline) => Promise<void>
  /** Why no call can work, by what the authority has on record; undefined if nothing speaks against it. */
  recordFault: () => string | undefined
  /**
   * POST /perm: a ticket for these scopes of a resource, and what logs call the negotiation that it begins,
   * if the authority says so.
   */
  requestTicket(need: Need, deadline: Deadline): Promise<Ticket>
  /**
   * What the authority has on record of a resource and what the owner offers of it: POST /perm, which writes
   * nothing. The ticket is thrown away.
   */
  offerOf: (need: Need, deadline: Deadline) => Promise<ScopeOffer>
  /** Holds a lease, under which an answer may be used again; undefined: every call is asked about. */
  readonly leases?: LeaseHolder | undefined
  /**
   * POST /introspect. Never consumes; never cached but under a lease. Questions that arise at the same time
   * may go there as one request.
   */
  introspect(token: string, deadline: Deadline): Promise<Introspection>
  /**
   * POST /consume. Sent once at most: if the answer is lost, the call is denied and the grant may be spent.
   * What is to be spent at the same time may go there as one request. `whyNot` is asked right before that is
   * sent: throws what it says, and the grant is unspent.
   */
  consume(token: string, deadline: Deadline, whyNot?: WhyNot): Promise<Consumption>
}

/** What a call needs. */
export interface Need {
  resource_id: string
  resource_scopes: string[]
}

/**
 * Whether a need is on record, and which scopes the owner's terms offer of the resource: none if no tier
 * governs it, undefined if the authority does not say. `sentence` is the authority's.
 */
export type ScopeOffer =
  | { kind: 'known'; scopes: readonly string[] | undefined }
  | { kind: 'unknown_resource' }
  | { kind: 'unknown_scope'; sentence: string }

/** What a challenge is made of. */
export interface Ticket {
  ticket: string
  family: Family | undefined
}

/** The size of the answers about several grants. */
const ANSWERS_BYTES_MAX = 1_048_576

/** A client that asks for nothing until its first use. */
export function createAuthorityClient(options: AuthorityClientOptions): AuthorityClient {
  const { authority, pools } = options
  const record = createRecordedResource(options)
  const pats = createPatSource({ ...options, outbound: pools.grants, onRecord: record.note })

  const askForJson = createProtectedCalls(authority, pats)
  const leases = holderOf(options, { pats, askForJson })
  const questions = questionsOf(options, askForJson, leases)
  const spendings = spendingsOf(options, askForJson)
  const endsWatch = createEndsWatch(options)

  const perm = { path: '/perm', pool: pools.challenges, repeatable: true }

  const askAbout = async (token: string, deadline: Deadline): Promise<LeaseAnswer> => {
    const expected = endsWatch.expected()
    const answer = await questions(token, deadline)
    const rpt = presentedRpt(token, options, deadline)
    const introspection = await readIntrospection(answer, options, rpt)
    if (introspection.active) {
      const { ledger_head, judged } = answer as JsonObject
      options.onHead?.(ledger_head)
      introspection.grant.judged = endsWatch.takeLive(judged, expected)
    }
    return { answer, introspection }
  }

  return {
    of: { authority, client_id: options.client_id, owner: options.owner },
    prove: async deadline => void (await pats.get(deadline)),
    proveAnew: deadline => pats.renew(deadline),
    recordFault: record.fault,
    requestTicket: async ({ resource_id, resource_scopes }, deadline) => {
      // Nobody is asked to approve what could not be called.
      await pats.get(deadline)
      const fault = record.fault()
      if (fault !== undefined) throw outage(fault)
      return readTicket(await askForJson({ ...perm, body: { resource_id, resource_scopes }, deadline }, 201))
    },
    offerOf: async ({ resource_id, resource_scopes }, deadline) => {
      const body = { resource_id, resource_scopes, with_offer: true }
      try {
        return readOffer(await askForJson({ ...perm, body, deadline }, 201))
      } catch (error) {
        return refusedOffer(error)
      }
    },
    leases,
    introspect: async (token, deadline) => {
      if (leases !== undefined) return introspectUnderLease(leases, token, () => askAbout(token, deadline))
      return (await askAbout(token, deadline)).introspection
    },
    consume: async (token, deadline, whyNot) => {
      const answer = await spendings(token, deadline, whyNot)
      const consumption = readConsumption(answer)
      if (!consumption.consumed) return consumption
      return { ...consumption, judged: endsWatch.takeSpent((answer as JsonObject)['judged']) }
    },
    ...createAuditDoor(askForJson, pools.challenges),
  }
}

/** A holder of leases, if one is configured. */
function holderOf(
  { authority, leases, pools, clock }: AuthorityClientOptions,
  context: { pats: PatSource; askForJson: AskForJson },
): LeaseHolder | undefined {
  if (leases === undefined) return undefined
  const { streams, hold } = leases
  return hold(createLeaseDoor({ ...context, authority, grants: pools.grants, streams, clock }))
}

/** Asking about grants: alone, or several as one request. */
function questionsOf(
  { authority, pools, offers }: AuthorityClientOptions,
  askForJson: AskForJson,
  leases: LeaseHolder | undefined,
): GrantQuestions {
  const introspection = { path: '/introspect', pool: pools.grants, repeatable: true }
  /** Adds the name of the lease that is held, if one is. */
  const named = <Question extends object>(question: Question): Question & { lease?: string } => {
    const lease = leases?.id()
    return lease === undefined ? question : { ...question, lease }
  }
  return createGrantQuestions({
    tokensMax: () => offers?.introspectionTokensMax(authority) ?? 1,
    onSilence: () => offers?.disappointed(authority),
    askOne: (token, deadline) => askForJson({ ...introspection, form: named({ token }), deadline }, 200),
    askSeveral: async (tokens, deadline) => {
      const body = named({ tokens })
      const call = { ...introspection, body, answerBytesMax: ANSWERS_BYTES_MAX, deadline }
      try {
        return readAnswers(await askForJson(call, 200), tokens.length)
      } catch (error) {
        if (!isSurelyOfAll(error)) offers?.disappointed(authority)
        if (isOutageOfAll(error)) throw error
        return undefined
      }
    },
  })
}

/** Spending grants: alone, or several by one request. None is sent again, whatever came of the request. */
function spendingsOf(
  { authority, pools, offers }: AuthorityClientOptions,
  askForJson: AskForJson,
): GrantQuestions {
  const consume = { path: '/consume', pool: pools.grants, repeatable: false }
  return createGrantQuestions({
    tokensMax: () => offers?.consumeTokensMax(authority) ?? 1,
    onSilence: () => offers?.disappointed(authority),
    askOne: (token, deadline) => askForJson({ ...consume, form: { token }, deadline }, 200),
    askSeveral: async (tokens, deadline) => {
      try {
        return readAnswers(await askForJson({ ...consume, body: { tokens }, deadline }, 200), tokens.length)
      } catch (error) {
        if (!isSurelyOfAll(error)) offers?.disappointed(authority)
        throw isUnread(error) ? new UnspentOutage(UNREAD) : error
      }
    },
  })
}

const UNREAD = 'The authority does not read a request about several grants: this one is unspent.'

/** Whether a replica of an older version answered, beside a newer one whose metadata offers this. */
function isUnread(error: unknown): boolean {
  const cause = error instanceof Error ? error.cause : undefined
  return cause instanceof UnwantedAnswer && cause.status === 400
}

/** Says nothing of a single one of them, and would be the same for each. */
const OF_ALL: ReadonlySet<number> = new Set([401, 429, 502, 503, 504])

/**
 * Whether an authority could not be asked about several grants because it cannot be asked at all. An answer
 * that cannot be read, is too long or is a refusal may be so because of one of them.
 */
function isOutageOfAll(error: unknown): boolean {
  const cause = error instanceof Error ? error.cause : undefined
  if (cause instanceof UnwantedAnswer) return OF_ALL.has(cause.status)
  if (cause instanceof OutboundFault) return cause.reason !== 'too_large'
  return !(cause instanceof UnreadableAnswer)
}

/**
 * Whether no token can be the reason. A silence, a broken connection or the answer of a proxy may come of one
 * of them: nobody waits for a second attempt, but the next ones are asked one by one for a while.
 */
function isSurelyOfAll(error: unknown): boolean {
  const cause = error instanceof Error ? error.cause : undefined
  return cause instanceof UnwantedAnswer && (cause.status === 401 || cause.status === 503)
}

/** One answer for each token; each question reads its own. */
function readAnswers(answer: unknown, tokens: number): unknown[] {
  const answers = isJsonObject(answer) ? answer['answers'] : undefined
  if (Array.isArray(answers) && answers.length === tokens) return answers
  throw outage('The authority gave no answer for each of several grants.', new UnreadableAnswer())
}

const ticketAnswer = z.object({
  ticket: z.string().regex(/^[\x21\x23-\x5b\x5d-\x7e]{1,2048}$/),
  family: z
    .string()
    .regex(/^[\x21-\x7e]{1,128}$/)
    .transform(asFamily)
    .optional()
    .catch(undefined),
})

function readTicket(answer: unknown): Ticket {
  const result = ticketAnswer.safeParse(answer)
  if (!result.success) throw outage('The authority gave no usable ticket.', result.error)
  const { ticket, family } = result.data
  return { ticket, family }
}

const offerAnswer = z.object({
  offered_scopes: z.array(z.string().max(200)).max(1_000).optional().catch(undefined),
})

function readOffer(answer: unknown): ScopeOffer {
  return { kind: 'known', scopes: offerAnswer.safeParse(answer).data?.offered_scopes }
}

/** Throws what is no answer about the need. */
function refusedOffer(error: unknown): ScopeOffer {
  const cause = error instanceof Error ? error.cause : undefined
  if (!(cause instanceof UnwantedAnswer) || cause.status !== 400) throw error
  if (cause.code === 'invalid_resource_id') return { kind: 'unknown_resource' }
  if (cause.code === 'invalid_scope') return { kind: 'unknown_scope', sentence: cause.sentence }
  throw error
}
