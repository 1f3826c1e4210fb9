/**
 * Other names for parts of a grant, which are accepted only if the file lists them (`aliases`). Contract:
 * "The organization's authority" (`/break-glass`) and "Tally for a jointly held resource".
 */
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { readSidecarConfig } from '../../src/config.ts'
import { assembleCore, type Core } from '../../src/enforcement/assembly.ts'
import { createLogger } from '../../src/http/telemetry/log.ts'
import { s256Json } from '../../src/wire/encoding.ts'
import { parseJws, signJws } from '../../src/wire/signatures/jws.ts'
import { ENFORCEMENT_ALIAS, TYP } from '../../src/wire/names.ts'
import { sidecarSettings, writeSidecarFiles } from '../support/sidecar.ts'
import { startScriptedAuthority } from '../support/scripted-authority.ts'
import { startedOnce } from '../support/started.ts'
import { callOf, newKey, nowSeconds, PUBLIC_URL, verdict, type CallParts } from './calls.ts'
import { permissionOf, TRADE_PARAMS } from './core.ts'
import { jointStand, UNSATISFIED } from './joint-stand.ts'

const { breakGlassAcceptedTyp, verdictTyp } = ENFORCEMENT_ALIAS
const organization = startedOnce(startScriptedAuthority)
const { stand, says, grantOf, mandate, digestOf } = jointStand()
const { agent } = stand

let core: Core
let directory: string
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'usher-aliases-'))
})
afterEach(async () => {
  await core.close()
  await rm(directory, { recursive: true })
})

/** The core of a sidecar whose file lists these, with `more` about alice and `whole` beside the owners. */
async function start(aliases: string[] | undefined, more: object, whole: object = {}): Promise<void> {
  const settings = sidecarSettings({ directory, authority: stand.authority })
  const [alice] = settings['owners'] as object[]
  const file = await writeSidecarFiles(directory, {
    ...settings,
    owners: [{ ...alice, ...more }],
    ...(aliases === undefined ? {} : { aliases }),
    ...whole,
  })
  const config = readSidecarConfig(file, { UMA_DEV_LOOPBACK: 'true' })
  core = assembleCore(config, { logger: createLogger({ name: 'test', level: 'fatal' }), clock: Date.now })
}
const decide = async (parts: CallParts) => verdict(await core.decide(callOf({ signer: agent, ...parts })))

describe('The verdict of a holder', () => {
  const joint = () => ({
    authority: undefined,
    joint: { tally: stand.authority.issuer, account: 'alice', mandate_s256: [digestOf(mandate())] },
  })
  const readUnder = (typ: string) => {
    const token = grantOf([says('bea', {}, { typ }), says('carl')])
    return decide({ token, tool: 'portfolio_read' })
  }

  it.each([
    ['nothing', undefined],
    ['another name', [breakGlassAcceptedTyp]],
  ])('counts under the contract’s name alone where the file lists %s', async (_what, aliases) => {
    await start(aliases, joint())
    expect([await readUnder(TYP.verdict), await readUnder(verdictTyp)]).toEqual(['allow', UNSATISFIED])
  })

  it('counts under both names where the file lists it, and under no name of another kind', async () => {
    await start([verdictTyp, breakGlassAcceptedTyp], joint())
    expect([await readUnder(TYP.verdict), await readUnder(verdictTyp)]).toEqual(['allow', 'allow'])
    for (const typ of [breakGlassAcceptedTyp, TYP.verdictWithdrawal, TYP.breakGlassAccepted])
      expect(await readUnder(typ)).toBe(UNSATISFIED)
  })
})

describe('An RPT', () => {
  const listed = (rpt_types: string[]) => ({ authorities: [{ issuer: stand.authority.issuer, rpt_types }] })
  /** A call under a grant of this `typ` about which the answer leaves something to the RPT. */
  const readUnder = (typ: string | undefined, key = stand.authority.key) => {
    const permissions = permissionOf('portfolio', 'read')
    const made = stand.authority.issue({
      owner: 'alice',
      resource: `${PUBLIC_URL}/mcp/alice`,
      key: agent,
      permissions,
    })
    const { payload } = parseJws(made)
    stand.authority.script('/introspect', {
      status: 200,
      body: { ...payload, active: true, owner: undefined },
    })
    const token = signJws({ ...(typ === undefined ? {} : { typ }), payload }, key)
    return decide({ token, tool: 'portfolio_read' })
  }
  const OUTAGE = '503 temporarily_unavailable'

  it('counts under the contract’s `typ` alone if the file lists none', async () => {
    await start(undefined, {})
    expect([await readUnder(TYP.rpt), await readUnder('rpt+jwt')]).toEqual(['allow', OUTAGE])
  })

  it('counts also under one that the file lists for its authority, and under no other', async () => {
    await start(undefined, {}, listed(['rpt+jwt']))
    for (const typ of [TYP.rpt, 'rpt+jwt', 'application/RPT+jwt']) expect(await readUnder(typ)).toBe('allow')
    for (const typ of [TYP.pat, TYP.verdict, 'jwt', undefined]) expect(await readUnder(typ)).toBe(OUTAGE)
    expect(await readUnder('rpt+jwt', newKey())).toBe(OUTAGE)
  })

  it.each([[TYP.pat], ['application/x+jwt'], ['MyTerms-Receipt+JWS'], [verdictTyp], ['']])(
    'has never a `typ` that is the name of another kind, or none: %j is refused at the start',
    async typ => {
      await start(undefined, {})
      await expect(start(undefined, {}, listed([typ]))).rejects.toThrow(/authorities.*rpt_types/)
    },
  )
})

describe("The yes of the owner's authority to an emergency", () => {
  const EXCEEDED = '403 organization_envelope_exceeded'
  const operation = { tool: 'place_trade', params_s256: s256Json(TRADE_PARAMS) }
  const above = () => ({
    organization: { issuer: organization.issuer, credential: 'of-this-point', resources: ['alice/*'] },
  })
  beforeEach(() => {
    organization.reset()
    const body = {
      member: true,
      since: '2026-11-01T09:00:00.000Z',
      as_uri: stand.authority.issuer,
      view: 1,
      charter_version: 1,
      claims: ['alice/*'],
      grants: ['alice/*'],
      delegation: 'any-agent',
      max_expires_in: 900,
      allowed_scopes: ['trade'],
      always_ask: [],
      break_glass: { enabled: true, resources: ['alice/trades'], max_expires_in: 600 },
    }
    organization.script('/membership/alice', { status: 200, body })
  })
  const tradeUnder = (typ: string) => {
    const payload = {
      iss: stand.authority.issuer,
      aud: organization.issuer,
      owner: 'alice',
      jti: `rpt_${Math.random()}`,
      resource_id: 'alice/trades',
      scopes: ['trade'],
      cnf_jkt: agent.thumbprint,
      operation,
      exp: nowSeconds() + 600,
    }
    const accepted = signJws({ typ, payload }, stand.authority.key)
    const token = organization.issue(
      {
        owner: 'alice',
        resource: `${PUBLIC_URL}/mcp/alice`,
        key: agent,
        permissions: permissionOf('trades', 'trade', { exp: nowSeconds() + 500 }),
        operation,
        claims: { jti: payload.jti },
      },
      { break_glass: { org: 'acme', reason: 'fire', authorised_by: 'ines', accepted } },
    )
    return decide({ token, tool: 'place_trade', args: TRADE_PARAMS })
  }

  it.each([
    ['nothing', undefined],
    ['another name', [verdictTyp]],
  ])('is one under the contract’s name alone where the file lists %s', async (_what, aliases) => {
    await start(aliases, above())
    expect([await tradeUnder(TYP.breakGlassAccepted), await tradeUnder(breakGlassAcceptedTyp)]).toEqual([
      'allow',
      EXCEEDED,
    ])
  })

  it('is one under both names where the file lists it, and under no name of another kind', async () => {
    await start([breakGlassAcceptedTyp, verdictTyp], above())
    expect([await tradeUnder(TYP.breakGlassAccepted), await tradeUnder(breakGlassAcceptedTyp)]).toEqual([
      'allow',
      'allow',
    ])
    for (const typ of [verdictTyp, TYP.verdict, TYP.clearance]) expect(await tradeUnder(typ)).toBe(EXCEEDED)
  })
})
