/**
 * Owns how each route of the owner API is asked about what another owner has, or what nobody has. A route
 * that is new must say so here.
 */
import type { Family, Handle } from '../../src/wire/identifiers.ts'
import type { OwnerCall } from './authority.ts'

/** What an owner has that a request may name. `otherwise` says the same of what nobody has. */
export interface Names {
  family: Family
  handle: Handle
  operator: string
  banned: string
  tier: string
  /** A second tier: alice makes one of this id herself. */
  tierToo: string
  template: string
  resource: string
  allowance: string
  /** A second allowance: alice makes one of this id herself. */
  allowanceToo: string
  server: string
  plainServer: string
  kid: string
  login: string
  subscription: string
  passkey: string
}

/** A tier of this id that governs these. */
export const tierBody = (id: string, resources: string[]) => ({
  id,
  name: 'A tier',
  resources,
  terms: { purpose: 'assist', scope: ['close'], expires_in: 60 },
})

const list = (path: string, name: (names: Names) => string) => (names: Names) => ({
  target: `${path}?after=${encodeURIComponent(name(names))}`,
})
const post = (path: string, body: (names: Names) => unknown) => (names: Names) => ({
  method: 'POST' as const,
  target: path,
  json: body(names),
})
const TIER = { name: 'A tier', resources: [], terms: { purpose: 'x', scope: ['read'], expires_in: 60 } }

/** At each route, requests of alice that name what another owner has, or what nobody has. */
export const PROBES: Record<string, ((names: Names) => OwnerCall)[]> = {
  'GET /owner/pending': [list('/owner/pending', ({ family }) => family)],
  'GET /owner/pending/{}': [({ family }) => ({ target: `/owner/pending/${family}` })],
  'POST /owner/pending/decisions': (['approved', 'denied'] as const).map(decision =>
    post('/owner/pending/decisions', ({ family }) => ({ decisions: [{ family, decision }] })),
  ),
  'POST /owner/pending/{}/decision': (['approved', 'denied'] as const).map(decision => ({ family }) => ({
    method: 'POST',
    target: `/owner/pending/${family}/decision`,
    json: { decision },
  })),
  // Positions in the ledger, among the receipts and the events are each owner's own, from 1: no number is
  // another's.
  'GET /owner/ledger': [({ handle }) => ({ target: `/owner/ledger?handle=${encodeURIComponent(handle)}` })],
  'GET /owner/events': [],
  'GET /owner/receipts': [],
  'GET /owner/policies': [list('/owner/policies', ({ tier }) => tier)],
  'POST /owner/policies': [
    post('/owner/policies', ({ tierToo, resource }) => tierBody(tierToo, [resource])),
    post('/owner/policies', ({ resource }) => tierBody('mine', [resource])),
    post('/owner/policies', ({ tierToo }) => tierBody(tierToo, [])),
  ],
  'PUT /owner/policies/{}': [
    ({ tier }) => ({ method: 'PUT', target: `/owner/policies/${tier}`, json: TIER }),
    ({ resource }) => ({
      method: 'PUT',
      target: '/owner/policies/reading',
      json: { ...TIER, resources: [resource] },
    }),
    ({ template }) => ({
      method: 'PUT',
      target: '/owner/policies/reading',
      json: { ...TIER, resources: ['alice/portfolio'] },
      headers: { 'if-match': `"${template}"` },
    }),
  ],
  'DELETE /owner/policies/{}': [
    ({ tier }) => ({ method: 'DELETE', target: `/owner/policies/${tier}` }),
    ({ template }) => ({
      method: 'DELETE',
      target: '/owner/policies/reading',
      headers: { 'if-match': `"${template}"` },
    }),
  ],
  'POST /owner/policies/preview': [
    post('/owner/policies/preview', ({ tier, resource }) => ({ tier: tierBody(tier, [resource]) })),
  ],
  'GET /owner/allowances': [list('/owner/allowances', ({ allowance }) => allowance)],
  'GET /owner/allowances/{}': [({ allowance }) => ({ target: `/owner/allowances/${allowance}` })],
  'PUT /owner/allowances/{}': [
    ({ allowance }) => ({
      method: 'PUT',
      target: `/owner/allowances/${allowance}`,
      json: {},
      headers: { 'if-match': '"1"' },
    }),
    ({ allowanceToo }) => ({ method: 'PUT', target: `/owner/allowances/${allowanceToo}`, json: {} }),
  ],
  'GET /owner/policy-vocabulary': [() => ({ target: '/owner/policy-vocabulary' })],
  'GET /owner/resources': [list('/owner/resources', ({ resource }) => resource)],
  'GET /owner/resource-servers': [list('/owner/resource-servers', ({ server }) => server)],
  'POST /owner/resource-servers/decision': (['approved', 'revoked'] as const).map(decision =>
    post('/owner/resource-servers/decision', ({ server }) => ({ client_id: server, decision })),
  ),
  'GET /owner/resource-servers/banned': [list('/owner/resource-servers/banned', ({ banned }) => banned)],
  // Before ban: alice herself has banned it from then on.
  'POST /owner/resource-servers/unban': [
    post('/owner/resource-servers/unban', ({ banned }) => ({ origin: banned })),
  ],
  'POST /owner/resource-servers/ban': [
    post('/owner/resource-servers/ban', ({ banned }) => ({ origin: banned })),
  ],
  // Which organization an owner may join is between her and that one, by a code that is good for her alone.
  'GET /owner/organization': [() => ({ target: '/owner/organization' })],
  ...Object.fromEntries(
    (['POST /owner/organization', 'POST /owner/organization/preview'] as const).map(route => [
      route,
      [post(route.slice(5), ({ plainServer: code }) => ({ code, agreed: true, charter_version: 1 }))],
    ]),
  ),
  'PUT /owner/organization': [
    () => ({ method: 'PUT', target: '/owner/organization', json: { administrators_may: [] } }),
  ],
  'POST /owner/organization/decline': [
    post('/owner/organization/decline', ({ server: issuer }) => ({ issuer })),
  ],
  'DELETE /owner/organization': [() => ({ method: 'DELETE', target: '/owner/organization' })],
  'POST /owner/resource-servers/{}/revoke': [
    ({ plainServer }) => ({ method: 'POST', target: `/owner/resource-servers/${plainServer}/revoke` }),
    ({ server }) => ({
      method: 'POST',
      target: `/owner/resource-servers/${encodeURIComponent(server)}/revoke`,
    }),
  ],
  'GET /owner/connections': [list('/owner/connections', ({ handle }) => handle)],
  'PUT /owner/connections/label': (['mine', null] as const).map(label => ({ handle }) => ({
    method: 'PUT',
    target: '/owner/connections/label',
    json: { handle, label },
  })),
  // Before block: alice herself knows the agent from then on.
  'POST /owner/connections/unblock': [post('/owner/connections/unblock', ({ handle }) => ({ handle }))],
  'POST /owner/connections/block': [post('/owner/connections/block', ({ handle }) => ({ handle }))],
  'POST /owner/connections/revoke': [post('/owner/connections/revoke', ({ handle }) => ({ handle }))],
  'GET /owner/operators': [list('/owner/operators', ({ operator }) => operator)],
  // Before block: alice herself knows an operator from then on.
  'POST /owner/operators/unblock': [
    post('/owner/operators/unblock', ({ operator }) => ({ origin: operator })),
  ],
  'POST /owner/operators/disclaim': [
    post('/owner/operators/disclaim', ({ operator }) => ({ origin: operator })),
  ],
  'POST /owner/operators/claim': [post('/owner/operators/claim', ({ operator }) => ({ origin: operator }))],
  'POST /owner/operators/block': [post('/owner/operators/block', ({ operator }) => ({ origin: operator }))],
  'GET /owner/device-keys': [list('/owner/device-keys', ({ kid }) => kid)],
  // A key or a login that is taken is 409 whoever has it; only who holds the key or the token can ask
  // (below).
  'POST /owner/device-keys': [],
  'DELETE /owner/device-keys/{}': [({ kid }) => ({ method: 'DELETE', target: `/owner/device-keys/${kid}` })],
  'GET /owner/passkeys': [list('/owner/passkeys', ({ passkey }) => passkey)],
  // One that is taken is 409 whoever has it. A login acts on the owner of the passkey, whoever asks:
  // test/authority/passkeys.test.ts.
  'POST /owner/passkeys': [],
  'POST /owner/passkeys/options': [],
  'POST /owner/passkeys/login': [],
  'DELETE /owner/passkeys/{}': [
    ({ passkey }) => ({ method: 'DELETE', target: `/owner/passkeys/${passkey}` }),
  ],
  'GET /owner/logins': [list('/owner/logins', ({ login }) => login)],
  'POST /owner/logins': [],
  'DELETE /owner/logins/{}': [({ login }) => ({ method: 'DELETE', target: `/owner/logins/${login}` })],
  'GET /owner/notifications': [list('/owner/notifications', ({ subscription }) => subscription)],
  // What is added is hers, and names nothing of anybody's; the key is the installation's.
  'POST /owner/notifications': [],
  'GET /owner/notifications/push-key': [],
  'POST /owner/notifications/{}/test': [
    ({ subscription }) => ({ method: 'POST', target: `/owner/notifications/${subscription}/test` }),
  ],
  'PUT /owner/notifications/{}': [
    ({ subscription }) => ({
      method: 'PUT',
      target: `/owner/notifications/${subscription}`,
      json: { digest_minutes: 30 },
    }),
  ],
  'DELETE /owner/notifications/{}': [
    ({ subscription }) => ({ method: 'DELETE', target: `/owner/notifications/${subscription}` }),
  ],
  'GET /owner/recovery': [() => ({ method: 'GET', target: '/owner/recovery' })],
  'DELETE /owner/recovery': [() => ({ method: 'DELETE', target: '/owner/recovery' })],
  // Names nobody, but by the cursor of a page, which is a place in whoever's archive asks.
  'GET /owner/export': [],
  // Acts on the owner of the code, whoever asks: test/authority/enrolment.test.ts.
  'POST /owner/enrolment': [],
}
