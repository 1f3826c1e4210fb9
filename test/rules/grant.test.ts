/**
 * What a grant rests on, fact by fact. Contract: "Permission ticket" (awaiting-owner), "Grant (RPT)
 * liveness".
 */
import { describe, expect, it } from 'vitest'
import { standsOn, type GrantBasis, type GrantFacts, type KnownConnection } from '../../src/rules/grant.ts'
import { asClientId, type Family, type Handle, type Owner } from '../../src/wire/identifiers.ts'

type Basis = GrantBasis & { connection: KnownConnection }

const connection: KnownConnection = { status: 'active', generation: 3 }
const stranger: KnownConnection = { ...connection, status: 'none', generation: null }

const BASIS: Basis = {
  connection,
  owner: 'alice' as Owner,
  family: 'fam_1' as Family,
  handle: 'jkt:agent' as Handle,
  client_id: asClientId('tools'),
  aud: 'https://tools.example/mcp/alice',
  resource_id: 'alice/notes',
  scopes: ['read'],
  expires_in: 600,
  template_id: 'alice/reading/v4',
  terms_uri: 'https://as.example/terms/alice/reading/v4',
  consequence: 'reversible',
  declared: { consequence: 'reversible', tools: { read: 'none', delete: 'reversible' } },
  single_use: false,
  operation: null,
  agreement_jws: 'a.b.c',
  agreement: 'digest',
  echo_absent: [],
  cnf: { kty: 'OKP', crv: 'Ed25519', x: 'x' },
  jkt: 'agent',
  tier_id: 'reading',
  tier_epoch: 2,
  tier_version: 4,
  server_generation: 5,
  resource_scopes: ['read'],
  operator: 'https://operator.example',
  facts: {
    assurance: { binding: 1, provenance: 0, accountability: 0 },
    request: { expiresInSeconds: 600, reasonAbsent: true, missionAbsent: true },
  },
}

const server = { resource_uri: BASIS.aud, status: 'active', generation: 5 }
const resource = {
  client_id: 'tools',
  resource_scopes: ['read', 'write'],
  consequence: 'reversible',
  tools: { read: 'none', delete: 'reversible' },
  org: null,
} satisfies GrantFacts['resource']
const tier = { tier_id: 'reading', epoch: 2, version: 4 }
const judged = { delegated: true, clearanceMet: true, refusedByRule: false }

const FACTS: GrantFacts = {
  suspended: false,
  operatorBlocked: false,
  connection,
  server,
  resource,
  tier,
  organization: undefined,
  judged,
}

const { judged: _judged, ...UNJUDGED } = FACTS
/** As it was held before the classes of tools were recorded. */
const { declared: _declared, ...UNDECLARED } = BASIS

const epochs = { membership: 7, handle: 1, operator: 0 }
const GOVERNED: Basis = { ...BASIS, organization: epochs }
const SHARED: GrantFacts = {
  ...FACTS,
  resource: { ...resource, org: 'shared' },
  organization: { epochs, vouched: true },
}

describe('What a grant rests on', () => {
  it.each<[string, Basis, GrantFacts]>([
    ['nothing changed', BASIS, FACTS],
    ['nothing was judged anew', BASIS, UNJUDGED],
    [
      'the resource has further scopes',
      BASIS,
      { ...FACTS, resource: { ...resource, resource_scopes: ['write', 'read'] } },
    ],
    [
      'the classes of its tools were not recorded',
      UNDECLARED,
      { ...FACTS, resource: { ...resource, tools: null } },
    ],
    [
      'there was no connection, and is none',
      { ...BASIS, connection: stranger },
      { ...FACTS, connection: stranger },
    ],
    ['the organization shares the resource as before', GOVERNED, SHARED],
    [
      'the clearance for a resource of her own is attested anew',
      { ...BASIS, organization: { membership: 6, handle: null, operator: null } },
      FACTS,
    ],
  ])('stands where %s', (_why, basis, facts) => {
    expect(standsOn(basis, facts)).toBeUndefined()
  })

  it.each<[string, Partial<GrantFacts>, RegExp]>([
    ['access to what is hers is suspended', { suspended: true }, /suspended/],
    ['the owner blocked the operator', { operatorBlocked: true }, /blocked the operator/],
    [
      'the owner revoked the connection',
      { connection: { ...connection, status: 'revoked' } },
      /revoked this connection/,
    ],
    ['there is no connection', { connection: stranger }, /revoked this connection/],
    [
      'the agent was revoked and admitted again',
      { connection: { ...connection, generation: 4 } },
      /revoked this connection/,
    ],
    ['the resource server was withdrawn', { server: { ...server, status: 'revoked' } }, /protection access/],
    ['the resource server is gone', { server: undefined }, /protection access/],
    ['the resource is gone', { resource: undefined }, /no longer registered/],
    [
      'another server has the resource',
      { resource: { ...resource, client_id: 'others' } },
      /no longer registered/,
    ],
    ['no tier governs the resource', { tier: undefined }, /No tier governs/],
    ['another tier governs it', { tier: { ...tier, tier_id: 'writing' } }, /No tier governs/],
    ['the tier was deleted and made again', { tier: { ...tier, epoch: 3 } }, /No tier governs/],
    [
      'an organization came to govern it',
      { resource: { ...resource, org: 'shared' } },
      /come to govern this resource/,
    ],
    [
      'the organization lets the agent act no more',
      { judged: { ...judged, delegated: false } },
      /only the owner’s own agents/,
    ],
    ['she asks for a clearance', { judged: { ...judged, clearanceMet: false } }, /clearance/],
    ['a rule refuses it by now', { judged: { ...judged, refusedByRule: true } }, /policy refuses/],
    ['the terms changed', { tier: { ...tier, version: 5 } }, /changed since/],
    [
      'the resource server was withdrawn and approved again',
      { server: { ...server, generation: 6 } },
      /changed since/,
    ],
    [
      'the resource server has another address',
      { server: { ...server, resource_uri: 'https://other.example' } },
      /changed since/,
    ],
    ['the resource lost a scope', { resource: { ...resource, resource_scopes: ['write'] } }, /changed since/],
    [
      'the resource was declared graver',
      { resource: { ...resource, consequence: 'irreversible' } },
      /changed since/,
    ],
    [
      'one of its tools was declared graver',
      { resource: { ...resource, tools: { ...resource.tools, read: 'irreversible' } } },
      /changed since/,
    ],
  ])('stands no more where %s', (_why, changed, sentence) => {
    expect(standsOn(BASIS, { ...FACTS, ...changed })?.sentence).toMatch(sentence)
  })

  it.each<[string, Partial<GrantFacts>, string]>([
    ['shares it no more', { resource: { ...resource, org: 'governed' } }, 'not_shared'],
    ['governs it no more', { resource }, 'organization_revoked'],
    ['is hers no more', { organization: undefined }, 'organization_revoked'],
    [
      'put her into another group',
      { organization: { epochs: { ...epochs, membership: 8 }, vouched: true } },
      'organization_revoked',
    ],
    [
      'ended the reach of the agent',
      { organization: { epochs: { ...epochs, handle: 2 }, vouched: true } },
      'organization_revoked',
    ],
    [
      'acted on its operator',
      { organization: { epochs: { ...epochs, operator: 1 }, vouched: true } },
      'organization_revoked',
    ],
    [
      'demands that somebody else vouches',
      { organization: { epochs, vouched: false } },
      'organization_revoked',
    ],
  ])('stands no more where the organization %s, and has its word', (_why, changed, reason) => {
    expect(standsOn(GOVERNED, { ...SHARED, ...changed })?.reason).toBe(reason)
  })
})
