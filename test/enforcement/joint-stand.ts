/**
 * Owns the enforcement point of an account that bea and carl hold, each at an authority of her own, and a
 * tally that says of it whatever a test lets it say.
 */
import { beforeEach } from 'vitest'
import { s256Json } from '../../src/wire/encoding.ts'
import { signJws } from '../../src/wire/signatures/jws.ts'
import type { PrivateKey } from '../../src/wire/signatures/keys.ts'
import { mandateDigest, parseMandate } from '../../src/wire/joint/mandate.ts'
import { TYP } from '../../src/wire/names.ts'
import {
  startScriptedAuthority,
  type IssuedGrant,
  type ScriptedAuthority,
} from '../support/scripted-authority.ts'
import { startedOnce } from '../support/started.ts'
import { nowSeconds, verdict, type CoreOverrides } from './calls.ts'
import { coreStand, TRADE_PARAMS } from './core.ts'

export type Holder = 'bea' | 'carl'
export const UNSATISFIED = '403 joint_mandate_unsatisfied'
export const OUTAGE = '503 temporarily_unavailable'
export const CHALLENGE = '401 insufficient_authorization'
export const MANDATE = '/mandate/alice'
export const DISCOVERY = '/.well-known/agents-configuration'
export const TRADE = { tool: 'place_trade', params_s256: s256Json(TRADE_PARAMS) }

/** Registers the hooks of a suite; each test begins with the mandate served and pinned. */
export function jointStand() {
  const bea = startedOnce(startScriptedAuthority)
  const carl = startedOnce(startScriptedAuthority)
  const stand = coreStand()
  /** The agreement and the negotiation of every grant of the stand. */
  const CONTRACT = 's256:T6xGGcoR3hDoRSt3TxuyHPcUh8qQTJBgCSnp0toH0B8'
  const FAMILY = 'fam_test'

  const mandate = (changes: object = {}) => ({
    account: 'alice',
    tally: stand.authority.issuer,
    resources: ['alice/*'],
    holders: [
      { owner: 'bea', issuer: bea.issuer, weight: 1 },
      { owner: 'carl', issuer: carl.issuer, weight: 1 },
    ],
    rule: { kind: 'all', threshold: 2 },
    ...changes,
  })
  const digestOf = (document: object) => mandateDigest(parseMandate(document))
  const serve = (document: unknown) => stand.authority.script(MANDATE, { status: 200, body: document })
  const discovery = (changes: object = {}) => {
    const { issuer } = stand.authority
    const body = {
      issuer,
      token_endpoint: `${issuer}/token`,
      jwks_uri: `${issuer}/jwks`,
      ext_tally: true,
      ext_mandate_endpoint: `${issuer}/mandate`,
      ...changes,
    }
    stand.authority.script(DISCOVERY, { status: 200, body })
  }
  const pinned = () => ({ pinned: [digestOf(mandate())] })

  beforeEach(async () => {
    bea.reset()
    carl.reset()
    discovery()
    serve({ ...mandate(), total_weight: 2, summary: ['Both must allow.'] })
    await stand.restart({ joint: pinned() })
  })
  /** A core that pins these mandates, or with other settings. */
  const restart = (joint: Partial<NonNullable<CoreOverrides['joint']>>, more: CoreOverrides = {}) =>
    stand.restart({ joint: { ...pinned(), ...joint }, ...more })

  const authorityOf = (holder: Holder): ScriptedAuthority => (holder === 'bea' ? bea : carl)
  const claimsOf = (holder: Holder) => ({
    iss: authorityOf(holder).issuer,
    aud: stand.authority.issuer,
    iat: nowSeconds(),
    exp: nowSeconds() + 300,
    holder,
    account: 'alice',
    negotiation: FAMILY,
    resource_id: 'alice/portfolio',
    contract: CONTRACT,
    effect: 'allow',
    mandate_s256: digestOf(mandate()),
    cnf_jkt: stand.agent.thumbprint,
    scope: ['read'],
    expires_in: 3600,
  })
  const says = (
    holder: Holder,
    changes: object = {},
    { typ, key }: { typ?: string; key?: PrivateKey } = {},
  ) =>
    signJws(
      { typ: typ ?? TYP.verdict, payload: { ...claimsOf(holder), ...changes } },
      key ?? authorityOf(holder).key,
    )
  const both = (changes: object = {}) => [says('bea', changes), says('carl', changes)]

  /** A grant that the tally tells of with these verdicts; `lie` is what else it tells. */
  const grantOf = (verdicts: unknown, lie: object = {}, changes: Partial<IssuedGrant> = {}) =>
    stand.standing(changes, { joint: { account: 'alice', mandate: mandate(), verdicts, tally: {} }, ...lie })
  const read = async (token: string) =>
    verdict(await stand.decide({ token, signer: stand.agent, tool: 'portfolio_read' }))

  const forTrade = { resource_id: 'alice/trades', scope: ['trade'] }
  const tradeGrant = (verdicts = both(forTrade), lie: object = {}) =>
    stand.singleUse({}, { joint: { account: 'alice', verdicts }, ...lie })
  const trade = async (token: string, more: object = {}) =>
    verdict(
      await stand.decide({ token, signer: stand.agent, tool: 'place_trade', args: TRADE_PARAMS, ...more }),
    )
  const spendings = () => stand.authority.count('/consume')

  return {
    bea,
    carl,
    stand,
    mandate,
    digestOf,
    serve,
    discovery,
    restart,
    says,
    both,
    grantOf,
    read,
    forTrade,
    tradeGrant,
    trade,
    spendings,
  }
}
