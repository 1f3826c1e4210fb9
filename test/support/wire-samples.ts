/** Owns one good example of each wire document, for tests that then break or exchange a part of it. */
import { generatePrivateJwk, importPrivateJwk, type PrivateKey } from '../../src/wire/signatures/keys.ts'
import type { AgreementContent } from '../../src/wire/negotiation/agreement.ts'
import { signJws } from '../../src/wire/signatures/jws.ts'
import { DEFAULT_SPEC_NS, TYP } from '../../src/wire/names.ts'
import { buildRemediation, type Challenge } from '../../src/wire/negotiation/challenge.ts'
import type { ReceiptClaims } from '../../src/wire/negotiation/receipt.ts'
import { offerTemplate, type TermsVersion } from '../../src/wire/negotiation/terms.ts'
import type { PatClaims, RptClaims } from '../../src/wire/negotiation/tokens.ts'
import { asClientId, asFamily, asHandle, asOwner } from '../../src/wire/identifiers.ts'

export const NOW = 1_790_000_000
export const ISSUER = 'https://as.example.com'
export const RESOURCE = 'https://tools.example.com/mcp/bea'
export const AGENT_ISSUER = 'https://agents.example'

/** A fresh signing key. */
export function newKey(): PrivateKey {
  return importPrivateJwk(generatePrivateJwk())
}

export const TERMS: TermsVersion = {
  owner: asOwner('bea'),
  tier_id: 'reading',
  version: 3,
  name: 'Reading',
  purpose: 'Tell Bea how her savings are doing',
  scope: ['read'],
  expires_in: 3600,
  prohibited: ['training', 'resale'],
  per_operation: false,
  published_at: '2026-11-21T09:00:00.000Z',
}

export const TEMPLATE = offerTemplate(TERMS, {
  issuer: ISSUER,
  resource_id: 'bea/portfolio',
  family: asFamily('fam_AAAAAAAAAAA'),
  nonce: 'AAAAAAAAAAAAAAAA',
})

/** What an agent signs in answer to `TEMPLATE`. */
export function agreementContent(changes: Partial<AgreementContent> = {}): AgreementContent {
  return { template: TEMPLATE, aud: ISSUER, iat: NOW, ...changes }
}

/** A challenge to a call of `portfolio_read`. */
export function challenge(changes: Partial<Parameters<typeof buildRemediation>[0]> = {}): Challenge {
  const call = {
    specNs: DEFAULT_SPEC_NS,
    owner: asOwner('bea'),
    tool: 'portfolio_read',
    resourceUrl: RESOURCE,
    scopes: ['read'],
    ticket: 'tag~tkt_abc',
    as_uri: ISSUER,
    ...changes,
  }
  return {
    realm: 'tools',
    as_uri: call.as_uri,
    ticket: call.ticket,
    resource_metadata: 'https://tools.example.com/.well-known/oauth-protected-resource/mcp/bea',
    scope: call.scopes.join(' '),
    authorization_remediation: buildRemediation(call),
  }
}

/** The claims of a standing grant bound to `agent`. */
export function rptClaims(agent: PrivateKey, changes: Partial<RptClaims> = {}): RptClaims {
  return {
    iss: ISSUER,
    sub: asHandle(`jkt:${agent.thumbprint}`),
    client_id: asHandle(`jkt:${agent.thumbprint}`),
    aud: RESOURCE,
    jti: 'rpt_AAAA',
    iat: NOW,
    exp: NOW + 3600,
    cnf: { jwk: { kty: 'OKP', crv: 'Ed25519', x: agent.x } },
    permissions: [{ resource_id: 'bea/portfolio', resource_scopes: ['read'], exp: NOW + 3600 }],
    contract: 's256:abc',
    owner: asOwner('bea'),
    family: TEMPLATE.family,
    ...changes,
  }
}

export function patClaims(changes: Partial<PatClaims> = {}): PatClaims {
  return {
    iss: ISSUER,
    sub: asOwner('bea'),
    azp: asClientId('demo-tools'),
    scope: 'uma_protection',
    jti: 'pat_AAAA',
    iat: NOW,
    exp: NOW + 3600,
    rs_generation: 1,
    ...changes,
  }
}

/** The claims of a receipt around an agreement. */
export function receiptClaims(
  agent: PrivateKey,
  agreement: { compact: string; hash: string },
  changes: Partial<ReceiptClaims> = {},
): ReceiptClaims {
  return {
    iss: ISSUER,
    sub: asHandle(`jkt:${agent.thumbprint}`),
    owner: asOwner('bea'),
    iat: NOW,
    jti: 'rcp_AAAA',
    family: TEMPLATE.family,
    resource_id: TEMPLATE.resource_id,
    terms_uri: TEMPLATE.terms_uri,
    template_id: TEMPLATE.template_id,
    agreement: agreement.hash,
    agreement_jws: agreement.compact,
    cnf: { jkt: agent.thumbprint },
    rpt: 'rpt_AAAA',
    ...changes,
  }
}

/** An agent token by `issuer` for `agent`; `claims` replace or, where undefined, leave out. */
export function agentToken(
  issuer: PrivateKey,
  agent: PrivateKey,
  claims: Record<string, unknown> = {},
): string {
  const payload = {
    iss: AGENT_ISSUER,
    dwk: 'aauth-agent.json',
    sub: 'aauth:planner@agents.example',
    jti: 'tok_1',
    iat: NOW,
    exp: NOW + 3600,
    cnf: { jwk: agent.jwk },
    ...claims,
  }
  return signJws({ typ: TYP.agentToken, payload }, issuer)
}
