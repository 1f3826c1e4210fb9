/**
 * Owns what a presented RPT says by itself, beside the authority's answer about it. Contract: "RPT claims":
 * made by the configured authority, of this kind and for this resource, or nothing of it counts. An RPT alone
 * never lets a call through.
 */
import type { JwksCache } from '../../http/outbound/jwks-cache.ts'
import type { JsonObject } from '../../wire/json.ts'
import {
  checkClaims,
  findByKid,
  isExpectedTyp,
  parseJws,
  verifyJws,
  type UnverifiedJws,
} from '../../wire/signatures/jws.ts'
import { AUTHORITY_PATH, TYP } from '../../wire/names.ts'
import { within, type Deadline } from '../deadline.ts'
import { outage } from '../outage.ts'
import type { ExpectedGrant, PresentedRpt } from '../introspection.ts'

export type AuthorityKeys = Pick<JwksCache, 'keys' | 'find'>

/** Whose RPTs they are, and what `typ` they may have beside the contract's; `typ` is always checked. */
interface ExpectedRpt extends Pick<ExpectedGrant, 'authority' | 'resource'> {
  keys: AuthorityKeys
  rptTypes?: readonly string[] | undefined
}

/** The RPT of one call. What cannot be read or verified is an outage: the authority had called it active. */
export function presentedRpt(
  token: string,
  { keys, authority, resource, rptTypes = [] }: ExpectedRpt,
  deadline: Deadline,
): PresentedRpt {
  const url = authority + AUTHORITY_PATH.jwks
  const verify = async (jws: UnverifiedJws): Promise<JsonObject> => {
    const { kid, typ: named } = jws.header
    const typAlias = rptTypes.find(typ => isExpectedTyp(named, { typ }))
    const key = typeof kid === 'string' ? await keys.find(url, kid) : undefined
    const { payload } = verifyJws(jws, key ?? findByKid(await keys.keys(url)), { typ: TYP.rpt, typAlias })
    // Whether it has expired is the authority's to say; that it says when it does is the RPT's.
    checkClaims(payload, { iss: authority, aud: resource, now: 0, skewSeconds: Infinity, requireExp: true })
    return payload
  }
  return {
    claims: () => parse(token).payload,
    verified: async () => {
      const jws = parse(token)
      return within(deadline, 'the keys of the authority', verify(jws)).catch((cause: unknown) => {
        throw outage('The authority called a grant active that cannot be verified by its keys.', cause)
      })
    },
  }
}

function parse(token: string): UnverifiedJws {
  try {
    return parseJws(token)
  } catch (cause) {
    throw outage('The authority called a grant active that is no RPT.', cause)
  }
}
