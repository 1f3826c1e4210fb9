/**
 * A grant of an emergency window at the call: contract, "The organization's authority" (`/break-glass`),
 * "What the service does" (only narrow).
 */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { beforeEach, describe, expect, it, onTestFinished } from 'vitest'
import { openMarks } from '../../src/enforcement/approval/use-marks.ts'
import { openPinnedKeys } from '../../src/enforcement/approval/pinned-keys.ts'
import {
  signBreakGlassAcceptance,
  type BreakGlassAcceptance,
} from '../../src/wire/organization/break-glass.ts'
import { withoutParameters } from '../../src/wire/owner/decision-item.ts'
import { s256Json } from '../../src/wire/encoding.ts'
import { asFamily, asOwner } from '../../src/wire/identifiers.ts'
import { publicJwk, type PrivateKey } from '../../src/wire/signatures/keys.ts'
import { readRptClaims } from '../../src/wire/negotiation/tokens.ts'
import { approvalOf } from '../support/decision-samples.ts'
import { startScriptedAuthority, type IssuedGrant } from '../support/scripted-authority.ts'
import { startedOnce } from '../support/started.ts'
import { until } from '../support/until.ts'
import { newKey, nowSeconds, PUBLIC_URL, verdict } from './calls.ts'
import { coreStand, permissionOf, tradeItem, TRADE_PARAMS } from './core.ts'

const organization = startedOnce(startScriptedAuthority)
const stand = coreStand()
const OPERATION = { tool: 'place_trade', params_s256: s256Json(TRADE_PARAMS) }
const EXCEEDED = '403 organization_envelope_exceeded'
const OUTAGE = '503 temporarily_unavailable'

const says = (changes: object = {}) =>
  organization.script('/membership/alice', {
    status: 200,
    body: {
      member: true,
      since: '2026-11-01T09:00:00.000Z',
      as_uri: stand.authority.issuer,
      view: 1,
      charter_version: 1,
      claims: ['alice/*'],
      grants: [],
      delegation: 'none',
      max_expires_in: 60,
      allowed_scopes: ['trade'],
      always_ask: ['alice/*'],
      break_glass: { enabled: true, resources: ['alice/trades'], max_expires_in: 600 },
      ...changes,
    },
  })

beforeEach(async () => {
  organization.reset()
  says()
  await stand.restart({ organization: { issuer: organization.issuer } })
})

interface Made {
  grant?: Partial<IssuedGrant>
  /** What else introspection says. */
  lie?: Record<string, unknown>
  accepted?: Partial<BreakGlassAcceptance>
  signer?: PrivateKey
}

/** A token of the organization for one trade, with what her authority accepted. */
function breakGlass({ grant, lie, accepted, signer = stand.authority.key }: Made = {}): string {
  const made: IssuedGrant = {
    owner: 'alice',
    resource: `${PUBLIC_URL}/mcp/alice`,
    key: stand.agent,
    permissions: permissionOf('trades', 'trade', { exp: nowSeconds() + 500 }),
    operation: OPERATION,
    ...grant,
  }
  const jti = `rpt_${Math.random()}`
  const acceptance: BreakGlassAcceptance = {
    iss: stand.authority.issuer,
    aud: organization.issuer,
    owner: asOwner('alice'),
    jti,
    resource_id: 'alice/trades',
    scopes: ['trade'],
    cnf_jkt: stand.agent.thumbprint,
    operation: OPERATION,
    exp: nowSeconds() + 600,
    ...accepted,
  }
  const compact = signBreakGlassAcceptance(acceptance, signer)
  return organization.issue(
    { ...made, claims: { jti, ...made.claims } },
    { break_glass: { org: 'acme', reason: 'fire', authorised_by: 'ines', accepted: compact }, ...lie },
  )
}

const trade = async (token: string, more: object = {}) =>
  verdict(
    await stand.decide({ token, signer: stand.agent, tool: 'place_trade', args: TRADE_PARAMS, ...more }),
  )

describe('A grant of an emergency window', () => {
  it('is introspected and consumed at the organization and nowhere else, once', async () => {
    const token = breakGlass()
    expect(await trade(token)).toBe('allow')
    expect(['/introspect', '/consume'].map(path => organization.count(path))).toEqual([1, 1])
    expect(['/introspect', '/consume'].map(path => stand.authority.count(path))).toEqual([0, 0])
    // A later call negotiates with her authority.
    expect(await trade(token)).toBe('401 insufficient_authorization')
    expect(stand.authority.count('/perm')).toBe(1)
  })

  it('is reported to her authority, under its family and the jti that was accepted there', async () => {
    const claims = { jti: 'rpt_told', family: 'bg_told' }
    expect(await trade(breakGlass({ grant: { claims }, accepted: { jti: 'rpt_told' } }))).toBe('allow')
    await until(() => stand.authority.count('/audit/access') === 1)
    const { body } = stand.authority.received.find(({ path }) => path === '/audit/access')!
    const said = JSON.parse(body) as { entries?: object[] }
    expect(said.entries?.[0] ?? said).toMatchObject({ ...claims, tool: 'place_trade' })
  })

  it('is let through whether the resource is shared and may be passed on or not', async () => {
    says({ grants: ['alice/*'], delegation: 'any-agent' })
    expect(await trade(breakGlass())).toBe('allow')
  })

  it('is for exactly its operation and its key', async () => {
    expect(await trade(breakGlass(), { args: { ...TRADE_PARAMS, qty: 3 } })).toBe('403 operation_mismatch')
    expect(await trade(breakGlass(), { signer: newKey() })).toBe('401 invalid_token')
    expect(organization.count('/consume')).toBe(0)
  })

  it('does not get to a tool that asks for her signature, with whatever decision of hers', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'usher-emergency-'))
    onTestFinished(() => rmSync(folder, { recursive: true }))
    const alice = newKey()
    writeFileSync(join(folder, 'keys.json'), JSON.stringify({ keys: [publicJwk(alice)] }))
    const unexpected = (line: object): never => expect.fail(JSON.stringify(line))
    const logger = { error: unexpected, warn: unexpected }
    const keys = openPinnedKeys(join(folder, 'keys.json'), { logger })
    const ownerApproval = { keys, marks: openMarks(folder, { clock: Date.now }) }
    await stand.restart({
      organization: { issuer: organization.issuer },
      tool: name => (name === 'place_trade' ? { ownerApproval } : {}),
    })
    const { family, contract } = readRptClaims(breakGlass())
    const item = tradeItem(stand.agent, { family: asFamily(family), agreement_s256: contract })
    const statement = approvalOf(item, alice, { aud: stand.authority.issuer, iat: nowSeconds() })
    const owner_decision = { item: withoutParameters(item), statement }
    expect(await trade(breakGlass({ lie: { owner_decision } }))).toBe('403 owner_approval_missing')
    expect(organization.count('/consume')).toBe(0)
    expect(stand.core.lines.at(-1)).toMatchObject({ detail: 'owner approval: break-glass disagrees' })
  })

  it.each<[string, () => Made]>([
    ['without her authority’s yes', () => ({ lie: { break_glass: { org: 'acme' } } })],
    ['with a yes of the organization itself', () => ({ signer: organization.key })],
    ['with a yes to another organization', () => ({ accepted: { aud: 'https://other.example' } })],
    ['with a yes of another authority', () => ({ accepted: { iss: 'https://other.example' } })],
    ['with a yes for another owner', () => ({ accepted: { owner: asOwner('bob') } })],
    ['with a yes to another grant', () => ({ accepted: { jti: 'rpt_other' } })],
    ['with a yes for another resource', () => ({ accepted: { resource_id: 'alice/portfolio' } })],
    ['with a yes for fewer scopes', () => ({ accepted: { scopes: [] } })],
    ['with a yes for another key', () => ({ accepted: { cnf_jkt: newKey().thumbprint } })],
    [
      'with a yes to other parameters',
      () => ({ accepted: { operation: { ...OPERATION, params_s256: 's256:x' } } }),
    ],
    [
      'with a yes to another tool',
      () => ({ accepted: { operation: { ...OPERATION, tool: 'portfolio_read' } } }),
    ],
    ['with a yes for a shorter time', () => ({ accepted: { exp: nowSeconds() + 499 } })],
    ['with a yes that has expired', () => ({ accepted: { exp: nowSeconds() - 1 } })],
    ['of another issuer', () => ({ lie: { iss: stand.authority.issuer } })],
    ['that says nothing of single use', () => ({ grant: { operation: undefined! } })],
    [
      'over more than what was accepted',
      () => ({
        grant: { permissions: [...permissionOf('trades', 'trade'), ...permissionOf('portfolio', 'read')] },
      }),
    ],
  ])('%s is refused organization_envelope_exceeded, and nothing is consumed', async (_what, made) => {
    expect(await trade(breakGlass(made()))).toBe(EXCEEDED)
    expect(organization.count('/consume')).toBe(0)
  })

  it.each<[string, object]>([
    ['she is no member', { member: false }],
    ['the clause is off', { break_glass: { enabled: false, resources: ['alice/*'], max_expires_in: 600 } }],
    [
      'the clause is over other resources',
      { break_glass: { enabled: true, resources: [], max_expires_in: 600 } },
    ],
    [
      'it lives longer than the clause says',
      { break_glass: { enabled: true, resources: ['alice/*'], max_expires_in: 60 } },
    ],
    ['the ceiling does not allow its scope', { allowed_scopes: ['read'] }],
  ])('is refused organization_envelope_exceeded where %s', async (_when, changes) => {
    says(changes)
    expect(await trade(breakGlass())).toBe(EXCEEDED)
    expect(organization.count('/consume')).toBe(0)
  })

  it('is refused over resources that the organization is not to be asked about', async () => {
    await stand.restart({ organization: { issuer: organization.issuer, resources: ['alice/portfolio'] } })
    expect(await trade(breakGlass())).toBe(EXCEEDED)
  })

  it.each<[string, () => string]>([
    ['another audience', () => breakGlass({ lie: { aud: 'https://other.example' } })],
    ['another owner', () => breakGlass({ lie: { owner: 'bob' } })],
    ['no permissions', () => breakGlass({ lie: { permissions: 'all' } })],
  ])('of which the organization tells %s is an outage', async (_what, make) => {
    expect(await trade(make())).toBe(OUTAGE)
  })

  it('whose acceptance cannot be verified because her authority is away is an outage, not her no', async () => {
    stand.authority.script('/jwks', 'cut')
    expect(await trade(breakGlass())).toBe(OUTAGE)
  })

  it('is an outage if the organization is, and never a matter for her authority', async () => {
    organization.script('/introspect', 'cut')
    expect(await trade(breakGlass())).toBe(OUTAGE)
    organization.script('/introspect', undefined)
    organization.script('/consume', { status: 503, body: {} })
    expect(await trade(breakGlass())).toBe(OUTAGE)
    expect(stand.authority.count('/introspect')).toBe(0)
  })

  describe('of an organization that was stolen and says consumed: true to everybody', () => {
    const USED = '403 already_consumed'
    const directory = () => {
      const made = mkdtempSync(join(tmpdir(), 'usher-emergencies-'))
      onTestFinished(() => rmSync(made, { recursive: true, force: true }))
      return made
    }
    beforeEach(() =>
      organization.script('/consume', { status: 200, body: { consumed: true, family: 'bg_1' } }),
    )

    it('passes once for one yes of her authority, which is not asked to consume it again under any token', async () => {
      const token = breakGlass({ grant: { claims: { jti: 'rpt_one' } }, accepted: { jti: 'rpt_one' } })
      const answers = await Promise.all(Array.from({ length: 5 }, () => trade(token)))
      expect(answers.sort()).toEqual([USED, USED, USED, USED, 'allow'])
      const another = breakGlass({
        grant: { claims: { jti: 'rpt_one', reason: 'smoke' } },
        accepted: { jti: 'rpt_one' },
      })
      expect(another).not.toBe(token)
      expect(await trade(another)).toBe(USED)
      expect(organization.count('/consume')).toBe(1)
      expect(await trade(breakGlass())).toBe('allow')
    })

    it('keeps the yes for the next try if the call was not let through', async () => {
      organization.script('/consume', { status: 503, body: {} })
      const token = breakGlass()
      expect(await trade(token)).toBe(OUTAGE)
      organization.script('/consume', { status: 200, body: { consumed: true, family: 'bg_1' } })
      expect(await trade(token)).toBe('allow')
      expect(await trade(token)).toBe(USED)
    })

    it('is remembered after a restart, and by all that share the directory', async () => {
      const stateDirectory = directory()
      const settings = { organization: { issuer: organization.issuer, stateDirectory } }
      await stand.restart(settings)
      const token = breakGlass()
      expect(await trade(token)).toBe('allow')
      await stand.restart(settings)
      expect(await trade(token)).toBe(USED)
    })

    it('is an outage if that cannot be written down, before anything is consumed', async () => {
      const stateDirectory = directory()
      await stand.restart({ organization: { issuer: organization.issuer, stateDirectory } })
      rmSync(stateDirectory, { recursive: true })
      expect(await trade(breakGlass())).toBe(OUTAGE)
      expect(organization.count('/consume')).toBe(0)
    })
  })

  it('is a stranger’s if the route has no organization: her authority is asked', async () => {
    await stand.restart({})
    expect(await trade(breakGlass())).toBe('401 insufficient_authorization')
    expect([stand.authority.count('/introspect'), organization.count('/introspect')]).toEqual([1, 0])
  })

  it('that names her authority as its issuer is asked about there', async () => {
    says({ grants: ['alice/*'], delegation: 'any-agent', max_expires_in: 600 })
    expect(await trade(stand.singleUse())).toBe('allow')
    expect(organization.count('/introspect')).toBe(0)
    expect(readRptClaims(stand.singleUse()).iss).toBe(stand.authority.issuer)
  })
})
