/**
 * Owns why a request that our servers send had no answer. Contract: "Errors": an outage is told as one, and
 * what strangers are told of it names no address.
 */
export type OutboundReason =
  | 'forbidden_url'
  | 'forbidden_address'
  | 'unreachable'
  | 'timeout'
  | 'aborted'
  | 'too_large'
  | 'broken'

/**
 * Why no answer could be had. `sent` is false only if certainly no byte of the request left this process.
 */
export class OutboundFault extends Error {
  readonly reason: OutboundReason
  readonly sent: boolean

  constructor(reason: OutboundReason, message: string, options: { sent: boolean; cause?: unknown }) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause })
    this.name = 'OutboundFault'
    this.reason = reason
    this.sent = options.sent
  }
}

const WORDS: Record<OutboundReason, string> = {
  forbidden_url: 'its address may not be asked',
  forbidden_address: 'it is at no address that may be asked',
  unreachable: 'it cannot be reached',
  timeout: 'it did not answer in time',
  aborted: 'the request was given up',
  too_large: 'its answer is too large',
  broken: 'it gave no usable answer',
}

/**
 * What strangers may be told of a fault: no address and no word of the operating system. The message is for
 * the log.
 */
export function plainWords({ reason }: OutboundFault): string {
  return WORDS[reason]
}

const NEVER_CONNECTED = new Set([
  'ECONNREFUSED',
  'ENOTFOUND',
  'ENODATA',
  'ESERVFAIL',
  'EREFUSED',
  'ETIMEOUT',
  'EBADNAME',
  'EBADRESP',
  'EAI_AGAIN',
  'EHOSTUNREACH',
  'ENETUNREACH',
  'UND_ERR_CONNECT_TIMEOUT',
])

/** The fault that an error of the connection is. */
export function faultOf(cause: Error, origin: string, sent: boolean): OutboundFault {
  if (cause instanceof OutboundFault) return cause
  const code = 'code' in cause ? String(cause.code) : ''
  // A connection that stood can end with some of these too, when the network behind it fails.
  if (!sent && NEVER_CONNECTED.has(code)) {
    return new OutboundFault('unreachable', `${origin} cannot be reached (${code})`, { sent: false, cause })
  }
  return new OutboundFault('broken', `the connection to ${origin} broke (${code || 'no answer'})`, {
    sent,
    cause,
  })
}
