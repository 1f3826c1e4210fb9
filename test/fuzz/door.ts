/**
 * Owns what every fuzz target shares: the ext_authz door of the product, in front of an authority that knows
 * every grant, and what must hold for any answer. contract, "Errors": never a crash, never a gRPC error,
 * never a missing status.
 */
import { answerCheck } from '../../src/enforcement/doors/grpc/ext-authz.ts'
import { isRefusalCode } from '../support/refusals.ts'
import { startCore, type Core } from '../enforcement/calls.ts'
import { deniedBody, readAnswer, type Answer } from '../support/check-client.ts'
import { ISSUER, knownGrants, type KnownGrants } from './known-grants.ts'

export const CAP = 4_096

export interface FuzzDoor {
  grants: KnownGrants
  /**
   * The answer to the bytes of a CheckRequest. Fails unless it is well-formed; throws what the product should
   * have caught.
   */
  ask(bytes: Buffer): Promise<Answer>
  close(): Promise<void>
}

/** A door in this process. */
export function openDoor(): FuzzDoor {
  const grants = knownGrants()
  const core: Core = startCore(ISSUER, { client: grants.client, openMethods: ['resources/*'] })
  const ask = async (bytes: Buffer): Promise<Answer> => {
    const faults: unknown[] = []
    core.lines.length = 0
    const answer = await answerCheck(
      bytes,
      { isCancelled: () => false },
      {
        decide: core.decide,
        bodyBytesMax: CAP,
        deadlineMarginMs: 50,
        report: fault => faults.push(fault),
      },
    )
    // What is no Refusal is a fault of ours, however well it was covered up.
    hold(faults.length === 0, 'nothing but a refusal is thrown', faults.map(String))
    const complaints = core.lines.filter(({ level }) => level === 50 || level === 60 || level === 'error')
    hold(complaints.length === 0, 'no fault is logged', complaints)
    return wellFormed(answer)
  }
  return { grants, ask, close: () => core.close() }
}

const HEADER_CHARACTERS_MAX = 16_384

/** Throws unless it holds. Plain, since it runs some twenty times for each of many thousand inputs. */
export function hold(condition: boolean, rule: string, found?: unknown): asserts condition {
  if (!condition) throw new Error(`${rule}: ${JSON.stringify(found)}`)
}

/**
 * An allow is an allow and nothing else; a denial has a status, a word that we know, and headers that a proxy
 * takes.
 */
function wellFormed(bytes: Buffer): Answer {
  hold(bytes[0] === 0x0a, 'the status is on the wire')
  const answer = readAnswer(bytes)
  hold(Number.isInteger(answer.status?.code), 'the status has a code', answer)
  const isAllow = answer.status!.code === 0
  hold((answer.ok_response !== undefined) === isAllow, 'an allow says so twice', answer)
  hold((answer.denied_response !== undefined) === !isAllow, 'a denial says so twice', answer)
  const fields = [...(answer.ok_response?.headers ?? []), ...(answer.denied_response?.headers ?? [])]
  for (const { header } of fields) {
    hold(/^[a-z0-9-]+$/.test(header!.key!), 'a field name is a token', header)
    const value = header!.value ?? ''
    hold(/^[\x20-\x7e]*$/.test(value), 'a field value is printable', header)
    hold(value.length < HEADER_CHARACTERS_MAX, 'a field value is short', value.length)
  }
  if (!isAllow) wellFormedDenial(answer)
  return answer
}

function wellFormedDenial(answer: Answer): void {
  const status = answer.denied_response!.status!.code!
  const body = deniedBody(answer) as { error?: string | { code?: number; data?: { error?: string } } }
  const isNotFound = typeof body.error === 'object' && body.error.code === -32_601
  hold(status >= (isNotFound ? 200 : 400) && status < 600, 'a denial is no success', status)
  const word = typeof body.error === 'string' ? body.error : body.error?.data?.error
  hold(isRefusalCode(word), 'a denial has a word that we know', body)
  const names = answer.denied_response!.headers!.map(({ header }) => header!.key)
  hold(new Set(names).size === names.length, 'each field stands once', names)
  hold(status !== 401 || names.includes('www-authenticate'), 'a 401 says how to go on', names)
}

/**
 * `allow`, or the status of the denial: what a target counts, so that a run shows how far its inputs came.
 */
export function outcomeOf(answer: Answer): string {
  return answer.ok_response ? 'allow' : String(answer.denied_response!.status!.code)
}
