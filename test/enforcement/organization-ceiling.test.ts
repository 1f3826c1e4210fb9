/**
 * The ceiling of the organization above an owner, at the call: contract, "Authorized call", order 2;
 * "Errors".
 */
import { beforeEach, describe, expect, it } from 'vitest'
import { generatePrivateJwk, importPrivateJwk } from '../../src/wire/signatures/keys.ts'
import { row } from '../support/contract-row.ts'
import { startScriptedAuthority, type Script } from '../support/scripted-authority.ts'
import { startedOnce } from '../support/started.ts'
import { verdict } from './calls.ts'
import { coreStand, permissionOf, TRADE_PARAMS } from './core.ts'

const organization = startedOnce(startScriptedAuthority)
const stand = coreStand()
const MEMBERSHIP = '/membership/alice'

const MEMBER = () => ({
  member: true,
  since: '2026-11-01T09:00:00.000Z',
  as_uri: stand.authority.issuer,
  view: 1,
  charter_version: 1,
  claims: ['alice/*'],
  grants: ['alice/*'],
  delegation: 'any-agent',
  max_expires_in: 600,
  allowed_scopes: null,
  always_ask: [],
  break_glass: { enabled: false, resources: [], max_expires_in: 60 },
})
const says = (changes: object = {}) =>
  organization.script(MEMBERSHIP, { status: 200, body: { ...MEMBER(), ...changes } })

/** The clock of what is known of her. */
let monotonic: number
beforeEach(async () => {
  organization.reset()
  monotonic = 0
  says()
  await stand.restart({ organization: { issuer: organization.issuer, clock: () => monotonic } })
})

const read = async (token = stand.standing()) =>
  verdict(await stand.decide({ token, signer: stand.agent, tool: 'portfolio_read' }))
const trade = async (token = stand.singleUse()) =>
  verdict(await stand.decide({ token, signer: stand.agent, tool: 'place_trade', args: TRADE_PARAMS }))
const EXCEEDED = '403 organization_envelope_exceeded'
const OUTAGE = '503 temporarily_unavailable'

describe('Enforcement order 2', () => {
  row('error-envelope-exceeded', async () => {
    expect(await read()).toBe('allow')
    await stand.restart({ organization: { issuer: organization.issuer } })
    says({ max_expires_in: 599 })
    expect(await read()).toBe(EXCEEDED)
  })

  it.each<[string, object]>([
    ['the resource is not shared', { grants: ['alice/other'] }],
    ['she may let no agent act', { delegation: 'none' }],
    ['a scope exceeds it', { allowed_scopes: ['trade'] }],
    ['the grant lives longer', { max_expires_in: 599 }],
    ['every operation is asked about', { always_ask: ['alice/portfolio'] }],
    ['she is no member', { member: false }],
  ])(
    'refuses organization_envelope_exceeded where %s, before the signature is looked at, and without consuming',
    async (_when, changes) => {
      says(changes)
      const token = stand.standing()
      expect(verdict(await stand.decide({ token }))).toBe(EXCEEDED)
      expect(stand.authority.count('/consume')).toBe(0)
    },
  )

  it('notes in the log what is exceeded', async () => {
    says({ max_expires_in: 599 })
    await read()
    expect(stand.core.lines.at(-1)).toMatchObject({
      reason: 'organization_envelope_exceeded',
      detail: expect.stringMatching(/allows shorter grants/) as string,
    })
  })

  it('lets a single-use grant through if every operation is asked about', async () => {
    says({ always_ask: ['alice/*'] })
    expect(await trade()).toBe('allow')
    expect(await read()).toBe(EXCEEDED)
  })

  it('challenges first if the permission is missing: the ceiling is no answer to that', async () => {
    says({ grants: [] })
    const token = stand.standing({ permissions: permissionOf('other', 'read') })
    expect(await read(token)).toBe('401 insufficient_authorization')
  })

  it('holds a grant to the earliest time that answer and RPT say it was issued at', async () => {
    const iat = Math.floor(Date.now() / 1000)
    expect(await read(stand.standing({}, { iat: iat - 100 }))).toBe(EXCEEDED)
    expect(await read(stand.standing({ claims: { iat: iat - 100 } }, { iat }))).toBe(EXCEEDED)
    expect(await read(stand.standing({ claims: { iat: undefined } }, { iat: undefined }))).toBe(OUTAGE)
  })
})

describe('The organization is asked', () => {
  it('about the configured resources alone, whatever its charter claims', async () => {
    await stand.restart({ organization: { issuer: organization.issuer, resources: ['alice/trades'] } })
    says({ grants: [] })
    expect(await read()).toBe('allow')
    expect(organization.received).toEqual([])
    expect(await trade()).toBe(EXCEEDED)
  })

  it('by nobody if none is configured', async () => {
    await stand.restart({})
    expect(await read()).toBe('allow')
    expect(organization.received).toEqual([])
  })

  it('once in 5 s and never by a later call that waits: however many calls come', async () => {
    for (let call = 0; call < 20; call++) expect(await read()).toBe('allow')
    expect(organization.count(MEMBERSHIP)).toBe(1)
    // It hangs, and nobody waits for it.
    organization.script(MEMBERSHIP, 'hang')
    monotonic = 9_999
    expect(await read()).toBe('allow')
  })

  it('with the credential that it provisioned, or by a signature', async () => {
    await read()
    expect(organization.received.at(-1)!.authorization).toBe('Bearer credential-of-this-point')
    const key = importPrivateJwk(generatePrivateJwk())
    await stand.restart({ organization: { issuer: organization.issuer, proof: { kind: 'signature', key } } })
    expect(await read()).toBe('allow')
    expect(organization.received.at(-1)!.headers).toMatchObject({
      signature: expect.any(String),
      'signature-input': expect.stringContaining('"@path"'),
    })
    expect(organization.received.at(-1)!.authorization).toBeUndefined()
  })
})

describe('An organization that gives no answer', () => {
  it.each<[string, Script]>([
    ['hangs', 'hang'],
    ['cuts the connection', 'cut'],
    ['knows neither her nor us', { status: 404, body: { error: 'not_found' } }],
    ['refuses our credential', { status: 401, body: { error: 'invalid_token' } }],
    ['fails', { status: 500, body: {} }],
    ['answers no JSON', { status: 200, body: '<html>' }],
    ['answers another form', { status: 200, body: { member: 'yes', claims: [] } }],
    ['leaves the ceiling out', { status: 200, body: { member: true, claims: [] } }],
  ])('because it %s is an outage for its resources and for nothing else', async (_how, script) => {
    await stand.restart({
      organization: { issuer: organization.issuer, resources: ['alice/portfolio'] },
      // Long enough for those calls that need no answer.
      deadlineMs: 3_000,
    })
    organization.script(MEMBERSHIP, script)
    const refused = await stand.decide({
      token: stand.standing(),
      signer: stand.agent,
      tool: 'portfolio_read',
    })
    expect(verdict(refused)).toBe(OUTAGE)
    expect(JSON.stringify(refused)).not.toContain('127.0.0.1')
    expect(await trade()).toBe('allow')
    // A caller without a grant is challenged as usual.
    expect(verdict(await stand.decide({ tool: 'portfolio_read' }))).toBe('401 insufficient_authorization')
  })

  it('is an outage only after what is known is 10 s old, and over when it answers again', async () => {
    await read()
    organization.script(MEMBERSHIP, 'cut')
    monotonic = 9_000
    expect(await read()).toBe('allow')
    monotonic = 10_000
    expect(await read()).toBe(OUTAGE)
    says()
    monotonic = 12_000
    expect(await read()).toBe('allow')
  })

  it('is one that knows her at another authorization server than the route', async () => {
    says({ as_uri: 'https://elsewhere.example' })
    expect(await read()).toBe(OUTAGE)
  })
})
