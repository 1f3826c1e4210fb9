/**
 * Owns the requests of a history's clients, and the result of each: an answer, an outage, no answer, or
 * nobody there.
 */
import { setTimeout as delay } from 'node:timers/promises'
import type { Answer } from '../support/check-client.ts'
import { exchange, type PreparedCall, type Reply } from '../support/authority.ts'
import type { Outcome } from './record.ts'

export interface Came {
  outcome: Outcome
  code?: string | undefined
  status?: number
  // oxlint-disable-next-line typescript/no-explicit-any -- the JSON of the answer, read by members
  body?: any
}

const ANSWER_MS_MAX = 20_000
const AWAY_MS = 30

/** Sends a request to an authority. */
export async function ask(prepared: PreparedCall): Promise<Came> {
  let timer: NodeJS.Timeout | undefined
  const late = new Promise<string>(resolve => {
    timer = setTimeout(resolve, ANSWER_MS_MAX, 'no answer in time')
  })
  try {
    const reply = await Promise.race([exchange(prepared), late])
    return typeof reply === 'string' ? { outcome: 'unknown', code: reply } : cameOf(reply)
  } catch (error) {
    const { code = String(error) } = ((error as Error).cause ?? {}) as { code?: string }
    if (code !== 'ECONNREFUSED') return { outcome: 'unknown', code }
    return away(code)
  } finally {
    clearTimeout(timer)
  }
}

/** Nobody was there. The caller goes on a little later, so that a history does not consist of these. */
export async function away(code: string): Promise<Came> {
  await delay(AWAY_MS)
  return { outcome: 'away', code }
}

function cameOf({ status, body }: Reply): Came {
  const code = body?.error as string | undefined
  if (status < 300) return { outcome: 'done', status, body }
  if (status === 503)
    return { outcome: 'outage', status, code: String(body?.error_description ?? code), body }
  if (status >= 500) return { outcome: 'refused', status, code: `server_error ${status}` }
  return { outcome: 'refused', status, code: status === 429 ? 'queue_full' : (code ?? String(status)), body }
}

/** What a proxy does with the answer to a check. */
export function cameOfCheck(answer: Answer): Came {
  if (!answer.status?.code && answer.ok_response !== undefined && answer.ok_response !== null)
    return { outcome: 'done' }
  const denied = answer.denied_response
  const status = denied?.status?.code ?? 0
  const body = JSON.parse(denied?.body ?? '{}') as { error?: string; error_description?: string }
  return {
    outcome: status === 503 ? 'outage' : 'refused',
    status,
    code:
      status === 503
        ? body.error_description
        : status > 500
          ? `server_error ${status}`
          : (body.error ?? String(status)),
    body: { ...body, headers: denied?.headers },
  }
}
