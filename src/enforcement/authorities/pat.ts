/**
 * Owns the protection access token of one owner at one authority. Contract: "Token endpoint" and "Protection
 * access token (PAT)": one exists per owner served, it is renewed early, fetched once at a time, and a
 * refusal is not hammered at.
 */
import { z } from 'zod'
import {
  OutboundFault,
  plainWords,
  type Outbound,
  type OutboundRequest,
} from '../../http/outbound/outbound.ts'
import { jsonIn } from '../../wire/json.ts'
import type { PrivateKey } from '../../wire/signatures/keys.ts'
import { within, type Deadline } from '../deadline.ts'
import { outage } from '../outage.ts'
import type { PatRecord } from './recorded-resource.ts'
import { signedPost } from './signed-post.ts'
import type { ClientId, Owner } from '../../wire/identifiers.ts'

/** How the resource server proves itself, as its stored record at the authority says. */
export type PatCredential = { kind: 'secret'; secret: string } | { kind: 'signature'; key: PrivateKey }

export interface PatOptions {
  /** The authority's issuer; the token endpoint is `/token` below it. */
  authority: string
  owner: Owner
  client_id: ClientId
  credential: PatCredential
  outbound: Outbound
  /** Milliseconds since the epoch. */
  clock: () => number
  /** Told what the authority says of its record with each PAT. */
  onRecord?: ((record: PatRecord) => void) | undefined
  /** Told how each request for one ended. */
  onPat?: ((outcome: 'renewed' | 'refused' | 'failed') => void) | undefined
}

export interface PatSource {
  /** A PAT that is still good. Throws `temporarily_unavailable` with the reason if it gets none in time. */
  get(deadline: Deadline): Promise<string>
  /** Fetches another one, unless it was refused lately. */
  renew(deadline: Deadline): Promise<void>
  /** Says that the authority refused this PAT, so that it is not used again. */
  reject(pat: string): void
}

interface Pat {
  value: string
  fetchedAt: number
  renewAt: number
  expiresAt: number
}

const RENEW_EARLY_MS = 60_000
const REFUSED_WAIT_MS = { first: 1_000, most: 60_000 }
const FAILED_WAIT_MS = { first: 200, most: 5_000 }
/**
 * PATs refused so soon: a few may fall into a change of keys, more in a row are an authority that refuses its
 * own.
 */
const REFUSED_YOUNG = { withinMs: 30_000, most: 2 }

const answerSchema = z.object({
  access_token: z.string().regex(/^[\x21-\x7e]{1,8192}$/),
  token_type: z.string().regex(/^bearer$/i),
  expires_in: z.int().min(1),
  resource_uri: z.string().optional().catch(undefined),
})

/** A source that asks for nothing until its first use. */
export function createPatSource(options: PatOptions): PatSource {
  const { clock } = options
  let current: Pat | undefined
  let pending: Promise<Pat> | undefined
  let failures = 0
  let refusedYoung = 0
  let waitUntil = 0
  let lastFailure: Error | undefined

  const fetchOnce = (): Promise<Pat> => {
    pending ??= requestPat(options)
      .then(
        pat => {
          failures = 0
          current = pat
          options.onPat?.('renewed')
          return pat
        },
        (error: unknown) => {
          const refused = error instanceof PatRefused
          options.onPat?.(refused ? 'refused' : 'failed')
          waitUntil = clock() + waitAfter(failures++, refused ? REFUSED_WAIT_MS : FAILED_WAIT_MS)
          lastFailure = error as Error
          throw error
        },
      )
      .finally(() => (pending = undefined))
    return pending
  }
  const renewalAllowed = () => pending !== undefined || clock() >= waitUntil

  return {
    get: async deadline => {
      if (current !== undefined && clock() < current.expiresAt) {
        // Renewing early costs no caller any time: the old one is good for another minute.
        if (clock() >= current.renewAt && renewalAllowed()) fetchOnce().catch(() => undefined)
        return current.value
      }
      if (!renewalAllowed()) throw noPat(options, lastFailure)
      const fetched = fetchOnce()
      fetched.catch(() => undefined) // where the deadline wins, nobody else listens
      const pat = await within(deadline, 'a protection access token', fetched).catch((error: unknown) => {
        throw error instanceof PatRefused || error instanceof OutboundFault ? noPat(options, error) : error
      })
      return pat.value
    },
    renew: async deadline => {
      if (!renewalAllowed()) return
      const fetched = fetchOnce()
      fetched.catch(() => undefined) // where the deadline wins, nobody else listens
      await within(deadline, 'a protection access token', fetched)
    },
    reject: pat => {
      if (current?.value !== pat) return
      refusedYoung = clock() - current.fetchedAt < REFUSED_YOUNG.withinMs ? refusedYoung + 1 : 0
      current = undefined
      if (refusedYoung <= REFUSED_YOUNG.most) return
      waitUntil = clock() + waitAfter(refusedYoung - REFUSED_YOUNG.most - 1, REFUSED_WAIT_MS)
      lastFailure = new PatRefused('it refuses those that it gave')
    },
  }
}

/** Milliseconds to wait after so many failures before this one. */
function waitAfter(failures: number, wait: { first: number; most: number }): number {
  return Math.min(wait.most, wait.first * 2 ** Math.min(failures, 16))
}

/** The authority said no, by this word of its own: asking again at once would not help. */
class PatRefused extends Error {
  readonly code: string | undefined

  constructor(message: string, code?: string) {
    super(message)
    this.code = code
  }
}

/** The authority's words if it does not take the credential itself; undefined for any other failure. */
export function refusedCredential(error: unknown): string | undefined {
  const cause = error instanceof Error ? error.cause : undefined
  return cause instanceof PatRefused && cause.code === 'invalid_client' ? cause.message : undefined
}

function noPat({ owner, authority }: PatOptions, cause: Error | undefined): Error {
  const why =
    cause instanceof PatRefused
      ? cause.message
      : cause instanceof OutboundFault
        ? plainWords(cause)
        : 'it failed'
  return outage(`${authority} gives no protection access token for ${owner}: ${why}.`, cause)
}

async function requestPat(options: PatOptions): Promise<Pat> {
  const answer = await options.outbound.request(patRequest(options))
  const body = jsonIn(answer.body)
  if (answer.status !== 200) {
    const { error } = z.object({ error: z.string().max(100) }).safeParse(body).data ?? {}
    const problem = `it answered ${answer.status}${error === undefined ? '' : ` ${error}`}`
    if (answer.status >= 500 || answer.status === 429)
      throw new OutboundFault('broken', problem, { sent: true })
    throw new PatRefused(problem, error)
  }
  const result = answerSchema.safeParse(body)
  if (!result.success) throw new OutboundFault('broken', 'its token answer is malformed', { sent: true })
  const { access_token, expires_in, resource_uri } = result.data
  const fetchedAt = options.clock()
  const dated = Date.parse(String(answer.headers['date']))
  options.onRecord?.({ resource_uri, aheadMs: Number.isNaN(dated) ? undefined : dated - fetchedAt })
  const expiresAt = fetchedAt + expires_in * 1000
  // A life of less than two minutes is renewed half-way, as renewing 60 s early would mean at once.
  const renewAt = expiresAt - Math.min(RENEW_EARLY_MS, expires_in * 500)
  return { value: access_token, fetchedAt, expiresAt, renewAt }
}

function patRequest({ authority, owner, client_id, credential, clock }: PatOptions): OutboundRequest {
  const form = new URLSearchParams({
    grant_type: 'client_credentials',
    scope: 'uma_protection',
    owner,
    client_id,
  })
  const url = `${authority}/token`
  const contentType = 'application/x-www-form-urlencoded'
  if (credential.kind === 'signature')
    return signedPost({ url, contentType, body: form.toString() }, credential.key, clock)
  form.set('client_secret', credential.secret)
  const headers = { 'content-type': contentType, accept: 'application/json' }
  return { method: 'POST', url, headers, body: form.toString(), repeatable: true }
}
