/**
 * Owns asking an owner's authority to be let in: at the start, until it has heard, beside everything else.
 * Contract: "Resource server establishment: POST `/rs/register`". Serving waits for none of it; whether it
 * may serve her is for her to say.
 */
import { z } from 'zod'
import type { Logger } from '../../http/telemetry/log.ts'
import type { Outbound } from '../../http/outbound/outbound.ts'
import { jsonIn } from '../../wire/json.ts'
import type { PrivateKey } from '../../wire/signatures/keys.ts'
import { AUTHORITY_PATH } from '../../wire/names.ts'
import { UNKNOWN_CA_REMEDY, unknownCaOf } from './secrets.ts'
import { signedPost } from './signed-post.ts'
import type { Owner } from '../../wire/identifiers.ts'

export interface RegistrationOptions {
  /** The authority's issuer. */
  authority: string
  owner: Owner
  /** What is claimed: public URL + path. The authority knows this resource server by it. */
  resource: string
  /** The name that the owner sees; the resource when left out. */
  name: string | undefined
  /** Published at the resource's origin. */
  key: PrivateKey
  outbound: Outbound
  logger: Logger
  /** Milliseconds since the epoch. */
  clock: () => number
  /** Milliseconds between two asks while it waits for the owner; an hour when left out. */
  waitingMs?: number | undefined
}

export interface RegistrationLoop {
  stop(): void
}

const WAIT_MS = { first: 500, most: 60_000 }
/**
 * The longest wait that an authority may demand, because the authority or the owner may have changed their
 * mind by then.
 */
const RETRY_AFTER_MS_MAX = 3_600_000
/**
 * A waiting registration lapses if the owner leaves it unanswered (7 days at our authority), so the sidecar
 * asks again; nothing else would tell it.
 */
const PENDING_RETRY_MS = 3_600_000
/**
 * The owner herself has refused; the sidecar does not ask again until this process is restarted.
 */
const HER_NO: ReadonlySet<string | undefined> = new Set(['withdrawn_lately', 'origin_banned'])

const answerSchema = z.object({
  status: z.enum(['pending', 'active']).optional(),
  error: z.string().max(100).optional(),
  reason: z.string().max(100).optional(),
  error_description: z.string().max(1000).optional(),
})

/**
 * Asks until the owner has let it in, or has said no to what waited for her. A repeated request changes
 * nothing, so each replica asks at each start, and asks again once an hour while it waits. Any other refusal
 * is not final: documents may not be reachable yet, an owner not yet known.
 */
export function startRegistration(options: RegistrationOptions): RegistrationLoop {
  const { owner, authority, resource, logger, waitingMs = PENDING_RETRY_MS } = options
  const about = { owner, authority, resource }
  let timer: NodeJS.Timeout | undefined
  let stopped = false
  let waits = false
  let failures = 0

  const askIn = (waitMs: number): void => {
    timer = setTimeout(() => void ask(), waitMs)
    timer.unref()
  }
  const ask = async (): Promise<void> => {
    const { status, detail, reason, retryAfterMs } = await register(options)
    if (stopped) return
    if (status === 'active' || (status === 'pending' && !waits))
      logger.info({ ...about, status }, 'registered with the authority of an owner')
    if (status === 'active') return
    if (status === 'pending') {
      waits = true
      failures = 0
      // Replicas that start together do not ask together for ever.
      return askIn(waitingMs * (1 + Math.random() / 10))
    }
    if (waits && HER_NO.has(reason)) {
      logger.warn(
        { ...about, why: detail },
        'the owner has refused the registration: it is not asked for again',
      )
      return
    }
    const most = Math.min(WAIT_MS.most, WAIT_MS.first * 2 ** Math.min(failures++, 16))
    const waitMs = Math.min(retryAfterMs, RETRY_AFTER_MS_MAX) + most / 2 + (Math.random() * most) / 2
    logger.warn({ ...about, why: detail, retry_ms: Math.round(waitMs) }, 'not registered yet')
    askIn(waitMs)
  }
  void ask()
  return {
    stop: () => {
      stopped = true
      clearTimeout(timer)
    },
  }
}

/**
 * The outcome of asking once; `retryAfterMs` is the time before which asking again is useless, as the
 * authority says, 0 if it says nothing.
 */
interface RegistrationReply {
  /**
   * Undefined if it neither waits nor stands: then `detail` tells why, and `reason` is the authority's word
   * for it.
   */
  status?: 'pending' | 'active'
  detail: string
  reason?: string | undefined
  retryAfterMs: number
}

async function register(options: RegistrationOptions): Promise<RegistrationReply> {
  const { authority, owner, resource, name, key, outbound, clock } = options
  const body = JSON.stringify({ owner, resource_uri: resource, ...(name === undefined ? {} : { name }) })
  const url = authority + AUTHORITY_PATH.register
  try {
    const answer = await outbound.request(
      signedPost({ url, contentType: 'application/json', body }, key, clock),
    )
    const { status, error, error_description, reason } =
      answerSchema.safeParse(jsonIn(answer.body)).data ?? {}
    if ((answer.status === 202 || answer.status === 200) && status !== undefined)
      return { status, detail: status, retryAfterMs: 0 }
    return {
      reason,
      detail: [answer.status, error, error_description].filter(Boolean).join(' '),
      retryAfterMs: /^\d{1,9}$/.test(String(answer.headers['retry-after']))
        ? Number(answer.headers['retry-after']) * 1_000
        : 0,
    }
  } catch (error) {
    // The sidecar continues to serve after any fault, and asks again.
    return { detail: faultWords(error), retryAfterMs: 0 }
  }
}

function faultWords(error: unknown): string {
  const words = error instanceof Error ? error.message : String(error)
  if (unknownCaOf(error) === undefined) return words
  return `${words}: its certificate is by a CA that is not known here. ${UNKNOWN_CA_REMEDY}`
}
