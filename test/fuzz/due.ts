/**
 * Owns when an allow is due, by a plain reading of what arrived: it is free, or it has a live grant for just
 * this. contract, "Authorized call" and "Single-use grant".
 */
import { hold } from './door.ts'
import { APPROVED, type KnownGrants } from './known-grants.ts'
import { hashArguments, isFree, readLikeATool } from './reading.ts'

const PORTFOLIO_TOOLS: unknown[] = ['portfolio_read', 'undescribed']

export interface ArrivedCall {
  method: string | undefined
  body: Buffer
  /** The value of every line of Authorization. */
  credentials: string[]
}

/** The token of the one credential. */
function tokenOf(credentials: string[]): string {
  hold(credentials.length === 1, 'an allow has one credential', credentials)
  return /^PoP (\S+)$/i.exec(credentials[0]!)?.[1] ?? ''
}

/** Throws unless an allow of an MCP call was due. Answers whether it took a grant. */
export function holdDue({ method, body, credentials }: ArrivedCall, grants: KnownGrants): boolean {
  const read = readLikeATool(body)
  if (method === 'POST' && read !== undefined && isFree(read.method)) return false
  hold(!grants.down, 'nothing that needs a grant passes while nobody can be asked', read)
  const token = tokenOf(credentials)
  const live = grants.liveToken(token)
  if (live === 'standing') {
    const readable = read?.method === 'resources/read' || PORTFOLIO_TOOLS.includes(read?.name)
    hold(readable, 'a standing grant is for its own tools', read)
    hold(grants.spent.length === 0, 'a standing grant is not spent')
  } else {
    hold(live === 'single', 'an allow has a live grant', read)
    hold(read?.method === 'tools/call' && read.name === 'place_trade', 'the approved tool', read)
    hold(hashArguments(read?.args) === hashArguments(APPROVED), 'the approved parameters', read)
    hold(grants.spent.join() === token, 'the grant is spent, once', grants.spent)
  }
  return true
}

export interface ArrivedApiCall extends ArrivedCall {
  method: string
  path: string
  query: string | undefined
}

/** Throws unless an allow was due by the table of the API: no call of it is free. */
export function holdApiDue(
  { method, path, query, body, credentials }: ArrivedApiCall,
  grants: KnownGrants,
): void {
  hold(!grants.down, 'nothing that needs a grant passes while nobody can be asked', path)
  const [kind = '', id, ...others] = path.replace(/^\/api\/alice\//, '').split('/')
  const operation = `${method} ${kind}${id === undefined ? '' : '/…'}`
  hold(others.length === 0 && id !== '', 'an allow is for a configured path', path)
  const token = tokenOf(credentials)
  const live = grants.liveToken(token)
  if (live === 'standing') {
    hold(operation === 'GET accounts/…', 'a standing grant is for its own tools', path)
    return hold(grants.spent.length === 0, 'a standing grant is not spent')
  }
  hold(live === 'single', 'an allow has a live grant', operation)
  hold(['POST orders', 'DELETE orders/…'].includes(operation), 'the approved tool', operation)
  const params = {
    path: id === undefined ? {} : { order: decodeURIComponent(id) },
    query: Object.fromEntries(
      [...new URLSearchParams(query).keys()].map(name => [name, new URLSearchParams(query).getAll(name)]),
    ),
    ...(body.length > 0 && { body: JSON.parse(body.toString()) as unknown }),
  }
  hold(grants.isApproved(hashArguments(params)), 'the approved parameters', params)
  hold(grants.spent.join() === token, 'the grant is spent, once', grants.spent)
}
