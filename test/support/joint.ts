/**
 * Owns one good mandate with its holders, a grant under it, and the verdicts that allow it, for tests that
 * then break or exchange a part.
 */
import { countedMandate, type CountedMandate, type JointGrant } from '../../src/rules/joint/mandate.ts'
import { asFamily, asOwner } from '../../src/wire/identifiers.ts'
import type { Verified } from '../../src/wire/signatures/jws.ts'
import { parseMandate } from '../../src/wire/joint/mandate.ts'
import type { Verdict } from '../../src/wire/joint/verdict.ts'
import { NOW } from './wire-samples.ts'

export const TALLY = 'https://tally.example'
export const BEA = { owner: 'bea', issuer: 'https://as.bea.test' }
export const CARL = { owner: 'carl', issuer: 'https://as.carl.test' }

/** The mandate of the vector, as a document. */
export const MANDATE_DOCUMENT = {
  account: 'family-1',
  tally: TALLY,
  resources: ['family-1/*'],
  holders: [
    { ...BEA, weight: 1 },
    { ...CARL, weight: 1 },
  ],
  rule: { kind: 'all', threshold: 2 },
  total_weight: 2,
}

/** A lawful mandate with these members exchanged. */
export function mandateOf(changes: object = {}): CountedMandate {
  const { total_weight: _sum, ...rest } = MANDATE_DOCUMENT
  const counted = countedMandate(parseMandate({ ...rest, ...changes }))
  if ('fault' in counted) throw new Error(counted.fault)
  return counted
}

export const JOINT_GRANT: JointGrant = {
  negotiation: asFamily('fam_1'),
  contract: 's256:agreement',
  resource_id: 'family-1/savings',
  scopes: ['read'],
  exp: NOW + 600,
  cnf_jkt: 'key-of-the-agent',
  single_use: false,
}

/** The claims by which a holder allows that grant; `changes` exchanges some. */
export function allowance(
  mandate_s256: string,
  holder: { owner: string; issuer: string },
  changes: object = {},
): Verdict {
  return {
    iss: holder.issuer,
    aud: TALLY,
    iat: NOW,
    exp: NOW + 300,
    holder: asOwner(holder.owner),
    account: asOwner('family-1'),
    negotiation: JOINT_GRANT.negotiation,
    resource_id: JOINT_GRANT.resource_id,
    contract: JOINT_GRANT.contract,
    effect: 'allow',
    mandate_s256,
    cnf_jkt: JOINT_GRANT.cnf_jkt,
    scope: ['read', 'trade'],
    expires_in: 3600,
    ...changes,
  }
}

/** As if its signature had been verified: for rules, which see no other verdicts. */
export const verified = (verdict: Verdict): Verified<Verdict> => verdict as Verified<Verdict>
