/**
 * Owns the authority as a fuzz target meets it: it knows every grant there is, answers in the form of the
 * wire without a network, and remembers what it was asked. Its answers go through the product's own readers.
 */
import type { AuthorityClient } from '../../src/enforcement/authorities/authority-client.ts'
import { outage } from '../../src/enforcement/outage.ts'
import { readConsumption, readIntrospection } from '../../src/enforcement/introspection.ts'
import { s256Json } from '../../src/wire/encoding.ts'
import type { Json, JsonObject } from '../../src/wire/json.ts'
import { parseJws } from '../../src/wire/signatures/jws.ts'
import { signRpt } from '../../src/wire/negotiation/tokens.ts'
import type { ApiOperation } from '../../src/enforcement/request/api-table.ts'
import { newKey, nowSeconds, PUBLIC_URL } from '../enforcement/calls.ts'
import { claimsOf, type IssuedGrant } from '../support/scripted-authority.ts'
import { asClientId, asOwner } from '../../src/wire/identifiers.ts'

export const ISSUER = 'https://as.example.com'
export const RESOURCE = `${PUBLIC_URL}/mcp/alice`
export const API_RESOURCE = `${PUBLIC_URL}/api/alice`

/** The table of the plain API, where a target has one. */
export const API: ApiOperation[] = [
  { method: 'GET', path: '/accounts/{account}', tool: 'portfolio_read' },
  { method: 'POST', path: '/orders', tool: 'place_trade' },
  { method: 'DELETE', path: '/orders/{order}', tool: 'place_trade' },
]

/** Made anew in each process: no input holds a signature, only what to sign. */
export const AGENT = newKey()
export const STRANGER = newKey()
const NOBODY = newKey()

/** What the single-use grant was approved for, unless a test says otherwise. */
export const APPROVED: Json = { symbol: 'VTI', qty: 2 }

/** What the single-use grant over the API can be approved for. */
export const API_APPROVED = {
  order: { path: {}, query: {}, body: APPROVED },
  cancel: { path: { order: '7' }, query: {} },
} satisfies Record<string, Json>

export type GrantName = 'standing' | 'single' | 'revoked' | 'spent' | 'foreign' | 'unknown'

export interface KnownGrants {
  client: AuthorityClient
  tokens: Record<GrantName, string>
  /** The token that the call in hand may be let through with; undefined: none. */
  liveToken(token: string): 'standing' | 'single' | undefined
  /** Whether the single-use grant is for parameters of this hash. */
  isApproved(params_s256: string): boolean
  /** How often each token was spent. */
  spent: string[]
  /** While true nobody is answered. */
  down: boolean
  /** Forgets what was spent, and binds the single-use grant to these parameters. */
  renew(params?: Json): void
}

/**
 * Grants of alice over a resource for the agent: one that stands, one for a single trade, and those that are
 * none any more.
 */
export function knownGrants(resource = RESOURCE): KnownGrants {
  const permission = (resource_id: string, scope: string) => [
    { resource_id, resource_scopes: [scope], exp: nowSeconds() + 1_000_000 },
  ]
  const issue = (changes: Partial<IssuedGrant>) =>
    claimsOf(ISSUER, {
      owner: 'alice',
      resource,
      key: AGENT,
      permissions: permission('alice/portfolio', 'read'),
      ...changes,
    })
  const trade = { tool: 'place_trade', params_s256: s256Json(APPROVED) }
  const trades = { permissions: permission('alice/trades', 'trade'), operation: trade }
  const claims = {
    standing: issue({}),
    single: issue(trades),
    revoked: issue({}),
    spent: issue(trades),
    foreign: issue({ key: NOBODY }),
    unknown: issue({}),
  }
  const names = Object.keys(claims) as GrantName[]
  const tokens = Object.fromEntries(
    names.map(name => [name, signRpt(claims[name], STRANGER)]),
  ) as KnownGrants['tokens']
  const nameOf = (token: string) => names.find(name => tokens[name] === token)
  let params = trade.params_s256

  const introspected = (token: string): unknown => {
    const name = nameOf(token)
    const inactive = (reason: string) => ({ active: false, reason, error: reason })
    if (name === undefined || name === 'unknown') return inactive('unknown_token')
    if (name === 'revoked') return inactive('connection_revoked')
    if (name === 'spent' || grants.spent.includes(token)) return inactive('already_consumed')
    const told = { active: true, ...claims[name] }
    return name === 'single' ? { ...told, operation: { tool: 'place_trade', params_s256: params } } : told
  }
  const grants: KnownGrants = {
    tokens,
    spent: [],
    down: false,
    liveToken: token => {
      const name = nameOf(token)
      return name === 'standing' || name === 'single' ? name : undefined
    },
    isApproved: hash => hash === params,
    renew: (given = APPROVED) => {
      grants.spent = []
      grants.down = false
      params = s256Json(given)
    },
    client: {
      prove: async () => undefined,
      proveAnew: async () => undefined,
      recordFault: () => undefined,
      requestTicket: async () => {
        if (grants.down) throw outage('The authority is away.')
        return { ticket: 'tag~tkt_0123456789', family: undefined }
      },
      offerOf: async () => ({ kind: 'known', scopes: undefined }),
      introspect: async token => {
        if (grants.down) throw outage('The authority is away.')
        // The RPT of an operation that is approved anew would name it, too.
        const claims = (): JsonObject =>
          nameOf(token) === 'single'
            ? { ...parseJws(token).payload, operation: { tool: 'place_trade', params_s256: params } }
            : parseJws(token).payload
        const rpt = { claims, verified: async () => claims() }
        return readIntrospection(
          introspected(token),
          { authority: ISSUER, owner: asOwner('alice'), resource },
          rpt,
        )
      },
      consume: async token => {
        if (grants.down) throw outage('The authority is away.')
        const won = nameOf(token) === 'single' && !grants.spent.includes(token)
        if (won) grants.spent.push(token)
        return readConsumption(won ? { consumed: true } : { consumed: false, error: 'already_consumed' })
      },
      of: { authority: ISSUER, client_id: asClientId('demo-tools'), owner: asOwner('alice') },
      countsReports: () => true,
      reportAccess: async () => ({ unknown: 0 }),
      reportRun: async () => {},
    },
  }
  return grants
}
