/**
 * Owns an authority whose owners hold an account jointly, and a scripted tally: on the wire, under its own
 * keys, at its own address.
 */
import { freePorts } from '../../src/dev/stack/ports.ts'
import {
  generatePrivateJwk,
  importPrivateJwk,
  publicJwk,
  type PrivateKey,
} from '../../src/wire/signatures/keys.ts'
import {
  startTestAuthority,
  type OwnerCall,
  type Reply,
  type TestAuthority,
  type TestAuthorityOptions,
  type TestOwner,
} from './authority.ts'
import { startScriptedServer, type ScriptedServer } from './scripted-http.ts'

export const ACCOUNT = 'family-1'
export const SAVINGS = `${ACCOUNT}/savings`

export interface JointStand {
  authority: TestAuthority
  /** Its issuer, and what came to it. */
  tally: string
  server: ScriptedServer
  tallyKey: PrivateKey
  bea: TestOwner
  /** What the tally serves of the account; changed by a test. */
  served: { mandate: Record<string, unknown>; registered: Record<string, unknown>[] }
  /** The mandate as it was at first. */
  mandate: Record<string, unknown>
  /** A request of bea's (or of another) to `/owner/joint…`. */
  own(method: OwnerCall['method'], below?: string, json?: object, who?: TestOwner): Promise<Reply>
  /** She reads the mandate and agrees to it. */
  agreed(who?: TestOwner): Promise<Reply>
  /** Adds a tier of hers over jointly held resources. */
  tier(changes?: object, who?: TestOwner): Promise<Reply>
  close(): Promise<void>
}

/** Starts both; bea and carl hold the account at this authority, dora at another. */
export async function startJointStand(options: TestAuthorityOptions = {}): Promise<JointStand> {
  const [port] = await freePorts(1)
  const as_uri = `http://127.0.0.1:${port}`
  const tallyKey = importPrivateJwk(generatePrivateJwk())
  const served: JointStand['served'] = { mandate: {}, registered: [] }
  const server = await startScriptedServer(({ path }) => {
    const tally = server.origin
    if (path === '/.well-known/agents-configuration') return { body: metadataOf(tally) }
    if (path === '/jwks') return { body: { keys: [publicJwk(tallyKey)] } }
    if (path === `/mandate/${ACCOUNT}`) return { body: { ...served.mandate, registered: served.registered } }
    if (path === '/joint/withdrawal') return { body: { withdrawn: 1 } }
    return { status: 404, body: { error: 'not_found' } }
  })
  const mandate = {
    account: ACCOUNT,
    tally: server.origin,
    resources: [`${ACCOUNT}/*`],
    holders: [
      { owner: 'bea', issuer: as_uri, weight: 1 },
      { owner: 'carl', issuer: as_uri, weight: 1 },
      { owner: 'dora', issuer: 'https://as.dora.test', weight: 1 },
    ],
    rule: { kind: 'threshold', threshold: 2 },
    total_weight: 3,
  }
  served.mandate = mandate
  served.registered = [
    {
      _id: SAVINGS,
      name: 'Savings',
      type: 'account',
      resource_scopes: ['read', 'trade'],
      consequence: 'irreversible',
    },
  ]
  const authority = await startTestAuthority({
    owners: ['bea', 'carl', 'eve'],
    ...options,
    environment: {
      UMA_DEV_LOOPBACK: 'true',
      UMA_AS_ISSUER: as_uri,
      UMA_AS_LISTEN: `127.0.0.1:${port}`,
      UMA_AS_TALLIES: server.origin,
      ...options.environment,
    },
  })
  const bea = authority.owners['bea']!
  const own: JointStand['own'] = (method, below = '', json, who = bea) =>
    authority.call(who, {
      method: method ?? 'GET',
      target: `/owner/joint${below}`,
      ...(json === undefined ? {} : { json }),
    })
  const named = { tally: server.origin, account: ACCOUNT }
  return {
    authority,
    tally: server.origin,
    server,
    tallyKey,
    bea,
    served,
    mandate,
    own,
    agreed: async who => {
      const { body } = await own('POST', '/preview', named, who)
      return own('POST', '', { ...named, agreed: true, mandate_s256: body.mandate_s256 }, who)
    },
    tier: (changes = {}, who = bea) =>
      authority.call(who, {
        method: 'POST',
        target: '/owner/policies',
        json: { ...JOINT_TIER, ...changes },
      }),
    close: async () => {
      await authority.close()
      await server.close()
    },
  }
}

/** A tier over the savings, which lets known agents in at once. */
export const JOINT_TIER = {
  id: 'savings',
  name: 'Savings',
  resources: [SAVINGS],
  terms: {
    purpose: 'keeping the books',
    scope: ['read', 'trade'],
    expires_in: 600,
    prohibited: ['passing it on'],
  },
}

function metadataOf(tally: string): Record<string, unknown> {
  return {
    issuer: tally,
    token_endpoint: `${tally}/token`,
    jwks_uri: `${tally}/jwks`,
    ext_tally: true,
    ext_mandate_endpoint: `${tally}/mandate`,
    ext_withdrawal_endpoint: `${tally}/joint/withdrawal`,
    ext_accesses_endpoint: `${tally}/joint/accesses`,
  }
}
