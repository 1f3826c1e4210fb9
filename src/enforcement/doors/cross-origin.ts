/**
 * Owns what browsers ask before they call, and what their pages may read (Fetch, "CORS protocol"). Contract:
 * "Challenge (beat 1)": a page that may call must be able to read the challenge. Which origins may call is
 * configured (`allowed_origins`); behind a gateway its own filter answers the question before the call.
 */
import { allowedFields } from '../../http/servers/any-origin.ts'
import type { Call, Denied, Outcome } from '../call.ts'
import type { HeaderFields, HeaderLines } from '../request/header-lines.ts'

const METHODS = 'GET, HEAD, POST, PUT, PATCH, DELETE'
/** What a page reads of our answers and of an MCP server's, beside what every page may read. */
const EXPOSED = 'WWW-Authenticate, Retry-After, Mcp-Session-Id, MCP-Protocol-Version'
const PREFLIGHT_CACHE_SECONDS = '600'

/** What concerns browsers of origins that may call. */
export interface CrossOrigin {
  /** The fields by which a page of an origin that may call reads the answer; none for any other call. */
  readable: (headers: HeaderLines) => HeaderFields
  /** The answer to the question before a call, from an origin that may call; undefined for anything else. */
  preflight: (call: Pick<Call, 'method' | 'headers'>) => Denied | undefined
}

/** @param allowed origins as browsers write them. */
export function crossOrigin(allowed: ReadonlySet<string>): CrossOrigin {
  const originOf = (headers: HeaderLines): string | undefined => {
    const lines = headers.get('origin') ?? []
    return lines.length === 1 && allowed.has(lines[0]!) ? lines[0] : undefined
  }
  const readable = (headers: HeaderLines): HeaderFields => {
    const origin = originOf(headers)
    if (origin === undefined) return []
    return [
      ['access-control-allow-origin', origin],
      ['access-control-expose-headers', EXPOSED],
      ['vary', 'Origin'],
    ]
  }
  const preflight: CrossOrigin['preflight'] = ({ method, headers }) => {
    const fields = readable(headers)
    if (method !== 'OPTIONS' || fields.length === 0 || !headers.has('access-control-request-method'))
      return undefined
    const [headerList] = headers.get('access-control-request-headers') ?? []
    const answer: HeaderFields = [
      ['access-control-allow-methods', METHODS],
      ...Object.entries(allowedFields(headerList)),
      ['access-control-max-age', PREFLIGHT_CACHE_SECONDS],
    ]
    // Nothing is let through: the call itself is judged when it comes.
    return {
      kind: 'deny',
      status: 204,
      headers: [...fields, ...answer],
      body: {},
      metadata: { decision: 'deny', reason: 'preflight' },
    }
  }
  return { readable, preflight }
}

/** The same judgement, with refusals that a page of an allowed origin may read. */
export function readableRefusals(
  check: (call: Call) => Promise<Outcome>,
  { readable }: CrossOrigin,
): (call: Call) => Promise<Outcome> {
  return async call => {
    const outcome = await check(call)
    if (outcome.kind === 'allow') return outcome
    return { ...outcome, headers: [...outcome.headers, ...readable(call.headers)] }
  }
}
