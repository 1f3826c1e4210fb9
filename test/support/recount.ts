/**
 * Owns the count that everybody who relies on a tally's grant makes again: from the mandate, the holders'
 * keys, and the grant.
 */
import {
  countedMandate,
  countVerdicts,
  type Count,
  type CountedMandate,
} from '../../src/rules/joint/mandate.ts'
import { parseJws } from '../../src/wire/signatures/jws.ts'
import { parseMandate } from '../../src/wire/joint/mandate.ts'
import { verifyVerdict } from '../../src/wire/joint/verdict.ts'
import type { JointStand } from './joint-stand.ts'
import { TALLY } from './joint.ts'

export interface Recount {
  mandate: CountedMandate
  /** Of these verdicts, for the grant. */
  count: (verdicts: readonly string[]) => Count
}

/** @param live what introspection answers of a standing grant that reads the savings. */
export async function recount(
  stand: Pick<JointStand, 'tally' | 'holders' | 'agent'>,
  // oxlint-disable-next-line typescript/no-explicit-any -- the body of an answer
  live: any,
): Promise<Recount> {
  const mandate = countedMandate(parseMandate((await stand.tally.request('/mandate/family-1')).body))
  if ('fault' in mandate) throw new Error(mandate.fault)
  const grant = {
    negotiation: live.family,
    contract: live.contract,
    resource_id: 'family-1/savings',
    scopes: live.permissions[0].resource_scopes,
    exp: live.exp,
    cnf_jkt: stand.agent.thumbprint,
    single_use: false,
  }
  const verified = (compact: string) => {
    const issuer = (parseJws(compact).payload as { iss: string }).iss
    const { key } = stand.holders.find(one => one.issuer === issuer)!
    return verifyVerdict(compact, [{ ...key, kid: key.thumbprint }], { issuer, audience: TALLY })
  }
  return {
    mandate,
    count: verdicts => countVerdicts(mandate, verdicts.map(verified), grant, Math.floor(Date.now() / 1000)),
  }
}
