import { describe, expect, it } from 'vitest'
import { verifyAgentToken } from '../../src/wire/agents/agent-identity.ts'
import { verifyAgreement } from '../../src/wire/negotiation/agreement.ts'
import { verifyBreakGlassAcceptance } from '../../src/wire/organization/break-glass.ts'
import { verifyClearance } from '../../src/wire/organization/clearance.ts'
import { asOwner } from '../../src/wire/identifiers.ts'
import { verifyNotice } from '../../src/wire/organization/notice.ts'
import { verifyReceipt } from '../../src/wire/negotiation/receipt.ts'
import { verifyStatement } from '../../src/wire/owner/decision-statement.ts'
import { encodeBase64url, s256 } from '../../src/wire/encoding.ts'
import { verifyIntroduction } from '../../src/wire/agents/introduction.ts'
import { verifyAccessesRequest } from '../../src/wire/joint/joint-accesses.ts'
import { signJws } from '../../src/wire/signatures/jws.ts'
import { verifySignedMetadata } from '../../src/wire/resources/resource-metadata.ts'
import { verifyMembership } from '../../src/wire/organization/membership.ts'
import { TYP } from '../../src/wire/names.ts'
import { verifyOrganizationAdmin } from '../../src/wire/organization/organization-admin.ts'
import { verifyRevocation } from '../../src/wire/ledger/revocation.ts'
import { verifyPat, verifyRpt } from '../../src/wire/negotiation/tokens.ts'
import { verifyTallyRequest, verifyVerdict, verifyWithdrawal } from '../../src/wire/joint/verdict.ts'
import { refusalOf } from '../support/refusals.ts'
import {
  AGENT_ISSUER,
  ISSUER,
  newKey,
  NOW,
  patClaims,
  receiptClaims,
  rptClaims,
  TEMPLATE,
} from '../support/wire-samples.ts'

type Kind = keyof typeof TYP

const key = newKey()
const newcomer = newKey()
const header = { jwk: key.jwk }
const agreementClaims = { ...TEMPLATE, iss: `agent:${key.thumbprint}`, aud: ISSUER, iat: NOW }
const agreementJws = signJws({ kid: false, header, payload: agreementClaims }, key)

const JOINT = { iss: ISSUER, aud: ISSUER, iat: NOW, account: 'family-1', resource_id: 'family-1/savings' }

/**
 * The claims that make each kind good, but for its `typ`. One key signs all, so nothing but the kind tells
 * them apart.
 */
const CLAIMS: Record<Kind, object> = {
  agreement: agreementClaims,
  receipt: receiptClaims(key, { compact: agreementJws, hash: s256(agreementJws) }),
  introduction: { sub: newcomer.thumbprint, aud: ISSUER, iat: NOW, exp: NOW + 300, jti: 'int_1' },
  agentToken: {
    iss: AGENT_ISSUER,
    dwk: 'aauth-agent.json',
    sub: 'p',
    jti: 't',
    iat: NOW,
    exp: NOW + 9,
    cnf: { jwk: key.jwk },
  },
  rpt: rptClaims(key),
  pat: patClaims(),
  signedMetadata: { iss: ISSUER, resource: ISSUER },
  breakGlassAccepted: {
    iss: ISSUER,
    aud: 'https://org.example',
    owner: 'bea',
    jti: 'rpt_1',
    resource_id: 'bea/vault',
    scopes: ['read'],
    cnf_jkt: key.thumbprint,
    operation: { tool: 'open', params_s256: s256('{}') },
    exp: NOW + 9,
  },
  membership: { iss: ISSUER, aud: ISSUER, sub: 'bea', as_uri: ISSUER, org: 'acme', jti: 'join_1', iat: NOW },
  notice: {
    iss: ISSUER,
    aud: ISSUER,
    sub: 'bea',
    membership: 'join_1',
    jti: 'ntc_1',
    iat: NOW,
    exp: NOW + 300,
    kind: 'role_changed',
    role: null,
  },
  clearance: {
    iss: ISSUER,
    sub: 'bea',
    aud: ISSUER,
    org: 'acme',
    iat: NOW,
    exp: NOW + 300,
    jti: 'clr_1',
    clearance: { screening: 'full' },
  },
  organizationAdmin: {
    iss: ISSUER,
    aud: ISSUER,
    sub: 'bea',
    membership: 'join_1',
    jti: 'oat_1',
    admin: 'ines',
    htm: 'GET',
    htu: `${ISSUER}/org/admin/bea/pending`,
    iat: NOW,
    exp: NOW + 60,
  },
  tallyRequest: { ...JOINT, owner: 'bea', exp: NOW + 120 },
  verdict: {
    ...JOINT,
    holder: 'bea',
    negotiation: 'fam_1',
    contract: s256(agreementJws),
    effect: 'deny',
    exp: NOW + 300,
  },
  verdictWithdrawal: { ...JOINT, holder: 'bea', all: true, exp: NOW + 300, jti: 'wdr_1' },
  accessesRequest: { ...JOINT, holder: 'bea', exp: NOW + 120 },
  decision: {
    iss: `jkt:${key.thumbprint}`,
    aud: ISSUER,
    owner: 'bea',
    family: 'fam_1',
    decision: 'approved',
    item_s256: s256('{}'),
    admits: null,
    single_use: true,
    expires_in: 60,
    iat: NOW,
    exp: NOW + 3660,
    jti: 'dec_1',
  },
  revocation: {
    iss: ISSUER,
    owner: 'bea',
    jti: 'rev_1',
    iat: NOW,
    at: NOW * 1_000,
    ends: 1,
    ended: [`jkt:${key.thumbprint}`],
    seq: 1,
    ledger_head: {
      origin: 'as.example/ledger/tag',
      size: 1,
      root: encodeBase64url(Buffer.alloc(32)),
      kid: 'log',
      sig: encodeBase64url(Buffer.alloc(64)),
    },
  },
}

const VERIFIERS: Record<Kind, (jws: string) => unknown> = {
  agreement: jws => verifyAgreement(encodeBase64url(jws)),
  receipt: jws => verifyReceipt(jws, [key], { issuer: ISSUER, now: NOW }),
  introduction: jws => verifyIntroduction(jws, { kind: 'key', key }, { newcomer, aud: ISSUER, now: NOW }),
  agentToken: jws => verifyAgentToken(jws, [key], NOW),
  rpt: jws => verifyRpt(jws, [key], { issuer: ISSUER, now: NOW }),
  pat: jws => verifyPat(jws, [key], { issuer: ISSUER, now: NOW }),
  signedMetadata: jws => verifySignedMetadata(jws, [key], ISSUER),
  breakGlassAccepted: jws =>
    verifyBreakGlassAcceptance(jws, [key], {
      authority: ISSUER,
      organization: 'https://org.example',
      now: NOW,
    }),
  membership: jws => verifyMembership(jws, [key], { issuer: ISSUER, now: NOW }),
  notice: jws => verifyNotice(jws, [key], { issuer: ISSUER, audience: ISSUER, now: NOW }),
  clearance: jws =>
    verifyClearance(jws, [key], { issuer: ISSUER, audience: ISSUER, owner: asOwner('bea'), now: NOW }),
  organizationAdmin: jws =>
    verifyOrganizationAdmin(jws, [key], {
      issuer: ISSUER,
      audience: ISSUER,
      now: NOW,
      request: { method: 'GET', url: `${ISSUER}/org/admin/bea/pending`, body: undefined },
    }),
  tallyRequest: jws => verifyTallyRequest(jws, [key], { issuer: ISSUER, audience: ISSUER, now: NOW }),
  verdict: jws => verifyVerdict(jws, [key], { issuer: ISSUER, audience: ISSUER }),
  verdictWithdrawal: jws => verifyWithdrawal(jws, [key], { issuer: ISSUER, audience: ISSUER, now: NOW }),
  accessesRequest: jws => verifyAccessesRequest(jws, [key], { issuer: ISSUER, audience: ISSUER, now: NOW }),
  decision: jws => verifyStatement(jws, { devices: [key], passkeys: [] }, { audience: ISSUER, now: NOW }),
  revocation: jws => verifyRevocation(jws, [key], { issuer: ISSUER, now: NOW }),
}

const KINDS = Object.keys(TYP) as Kind[]
const MAY_OMIT_TYP: readonly Kind[] = ['agreement', 'signedMetadata']

function signed(claims: object, typ: string | undefined): string {
  return signJws({ ...(typ === undefined ? {} : { typ }), header, payload: claims }, key)
}

describe('one kind of token is never accepted as another', () => {
  it('every kind has a typ of its own', () => {
    expect(new Set(Object.values(TYP)).size).toBe(KINDS.length)
  })

  it.each(KINDS)('%s is accepted as what it is', kind => {
    expect(VERIFIERS[kind](signed(CLAIMS[kind], TYP[kind]))).toBeDefined()
  })

  const pairs = KINDS.flatMap(sent =>
    KINDS.filter(wanted => wanted !== sent).map(wanted => [sent, wanted] as const),
  )

  it.each(pairs)('%s is not accepted as %s, even with all its claims', (sent, wanted) => {
    expect(refusalOf(() => VERIFIERS[wanted](signed(CLAIMS[wanted], TYP[sent]))).code).toBe('invalid_request')
    expect(
      refusalOf(() => VERIFIERS[wanted](signed({ ...CLAIMS[sent], ...CLAIMS[wanted] }, TYP[sent]))).code,
    ).toBe('invalid_request')
  })

  it.each(KINDS)('%s without typ is refused, but for the two that the contract names none for', kind => {
    const untyped = () => VERIFIERS[kind](signed(CLAIMS[kind], undefined))
    if (MAY_OMIT_TYP.includes(kind)) expect(untyped()).toBeDefined()
    else expect(refusalOf(untyped).code).toBe('invalid_request')
  })

  it.each(KINDS)('%s under a typ that nobody knows is refused', kind => {
    for (const typ of ['JWT', 'jwt', `${TYP[kind]}x`, `x/${TYP[kind]}`, '']) {
      expect(refusalOf(() => VERIFIERS[kind](signed(CLAIMS[kind], typ))).code).toBe('invalid_request')
    }
  })
})
