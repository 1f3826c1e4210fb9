/**
 * Owns a core as the tests of the enforcement point have it: one agent, a scripted authority, and grants of
 * that authority for the agent.
 */
import { afterEach, beforeEach } from 'vitest'
import type { Outcome } from '../../src/enforcement/call.ts'
import { s256Json } from '../../src/wire/encoding.ts'
import { asFamily, asHandle, asOwner } from '../../src/wire/identifiers.ts'
import type { DecisionItem } from '../../src/wire/owner/decision-item.ts'
import type { PrivateKey } from '../../src/wire/signatures/keys.ts'
import { ITEM } from '../support/decision-samples.ts'
import {
  startScriptedAuthority,
  type IssuedGrant,
  type ScriptedAuthority,
} from '../support/scripted-authority.ts'
import { nowIn, startedOnce } from '../support/started.ts'
import {
  callOf,
  newKey,
  nowSeconds,
  PUBLIC_URL,
  startCore,
  type CallParts,
  type Core,
  type CoreOverrides,
} from './calls.ts'

/** The parameters of the trade that `singleUse` grants. */
export const TRADE_PARAMS = { symbol: 'VTI', qty: 2 }

/** The trade as alice is shown it, of what this agent agreed to. */
export const tradeItem = (
  { thumbprint: jkt }: Pick<PrivateKey, 'thumbprint'>,
  changes: Partial<DecisionItem> = {},
): DecisionItem => ({
  ...ITEM,
  owner: asOwner('alice'),
  family: asFamily('fam_test'),
  resource: `${PUBLIC_URL}/mcp/alice`,
  resource_id: 'alice/trades',
  scopes: ['trade'],
  operation: { tool: 'place_trade', params: TRADE_PARAMS },
  params_s256: s256Json(TRADE_PARAMS),
  consequence: 'irreversible',
  agent: { handle: asHandle(`jkt:${jkt}`), jkt, identity: 'pseudonymous' },
  agreement_s256: 's256:T6xGGcoR3hDoRSt3TxuyHPcUh8qQTJBgCSnp0toH0B8',
  expires_in: 600,
  ...changes,
})

/** Changes of a grant, and `lie`, which changes what introspection tells of it. */
type Issue = (changes?: Partial<IssuedGrant>, lie?: Record<string, unknown>) => string

export interface CoreStand {
  authority: ScriptedAuthority
  core: Core
  agent: PrivateKey
  decide: (parts: CallParts) => Promise<Outcome>
  /** A grant of alice's portfolio for the agent. */
  standing: Issue
  /** One of exactly one trade. */
  singleUse: Issue
  /** Puts a core with these settings in place of the present one, for the rest of the test. */
  restart: (overrides: CoreOverrides) => Promise<void>
}

/** Permissions of one scope on a resource of alice for ten minutes; `more` changes them. */
export const permissionOf = (resource: string, scope: string, more: object = {}) => [
  { resource_id: `alice/${resource}`, resource_scopes: [scope], exp: nowSeconds() + 600, ...more },
]

/**
 * Registers the hooks of a suite that give each test a core with these settings and an authority that
 * remembers nothing.
 */
export function coreStand(overrides: CoreOverrides = {}): CoreStand {
  const agent = newKey()
  const resource = `${PUBLIC_URL}${overrides.api === undefined ? '/mcp/alice' : '/api/alice'}`
  const authority = startedOnce(startScriptedAuthority)
  const holder: { current?: Core } = {}
  const core = nowIn(holder)
  beforeEach(() => {
    authority.reset()
    holder.current = startCore(authority.issuer, overrides)
  })
  afterEach(() => holder.current?.close())

  const standing: Issue = (changes, lie) => {
    const permissions = permissionOf('portfolio', 'read')
    return authority.issue({ owner: 'alice', resource, key: agent, permissions, ...changes }, lie)
  }
  return {
    agent,
    authority,
    core,
    decide: parts => core.decide(callOf(parts)),
    standing,
    singleUse: (changes, lie) => {
      const permissions = permissionOf('trades', 'trade')
      const operation = { tool: 'place_trade', params_s256: s256Json(TRADE_PARAMS) }
      return standing({ permissions, operation, consequence: 'irreversible', ...changes }, lie)
    },
    restart: async changed => {
      await core.close()
      holder.current = startCore(authority.issuer, changed)
    },
  }
}
