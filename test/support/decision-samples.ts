/** Owns one waiting item of a trade, the call it is for, and her signed decision on it. */
import { itemDigest, type DecisionItem } from '../../src/wire/owner/decision-item.ts'
import { signStatement, type StatementClaims } from '../../src/wire/owner/decision-statement.ts'
import { s256, s256Json } from '../../src/wire/encoding.ts'
import { asFamily, asHandle, asOwner } from '../../src/wire/identifiers.ts'
import type { PrivateKey } from '../../src/wire/signatures/keys.ts'
import { ISSUER, NOW, RESOURCE } from './wire-samples.ts'

export const PARAMS = { symbol: 'VTI', qty: 5 }
const JKT = 'a'.repeat(43)

export const ITEM: DecisionItem = {
  v: 1,
  owner: asOwner('bea'),
  family: asFamily('fam_1'),
  kind: 'operation',
  resource: RESOURCE,
  resource_id: 'bea/trading',
  scopes: ['trade', 'read'],
  tier: 'trading',
  template_id: 'bea/trading/v1',
  terms: { purpose: 'Trade as told', scope: ['trade', 'read'], expires_in: 300, prohibited: ['resale'] },
  terms_s256: s256('{}'),
  operation: { tool: 'place_trade', params: PARAMS },
  params_s256: s256Json(PARAMS),
  consequence: 'compensatable',
  agent: { handle: asHandle(`jkt:${JKT}`), jkt: JKT, identity: 'pseudonymous' },
  opens: [],
  assurance: { binding: 1, provenance: 0, accountability: 0 },
  because: ['tier_asks'],
  expires_in: 300,
  single_use: true,
  agreement_s256: s256('agreement'),
  requested_at: NOW - 20,
}

/** Her approval of an item, signed. */
export function approvalOf(
  item: DecisionItem,
  key: PrivateKey,
  changes: Partial<Omit<StatementClaims, 'iss' | 'exp'>> = {},
): string {
  const { owner, family, single_use, expires_in } = item
  return signStatement(
    {
      aud: ISSUER,
      owner,
      family,
      decision: 'approved',
      item_s256: itemDigest(item),
      admits: null,
      single_use,
      expires_in,
      iat: NOW,
      jti: 'dec_1',
      ...changes,
    },
    key,
  )
}
