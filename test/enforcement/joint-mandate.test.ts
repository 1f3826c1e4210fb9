/**
 * A grant over what several hold, at the call: contract, "Authorized call", order 2; "Tally for a jointly
 * held resource"; "Errors".
 */
import { describe, expect, it } from 'vitest'
import { MANDATE_BYTES_MAX } from '../../src/wire/document-bounds.ts'
import { publicJwk } from '../../src/wire/signatures/keys.ts'
import { ENFORCEMENT_ALIAS } from '../../src/wire/names.ts'
import { row } from '../support/contract-row.ts'
import type { Script } from '../support/scripted-authority.ts'
import { newKey, verdict } from './calls.ts'
import { permissionOf } from './core.ts'
import { jointStand, CHALLENGE, DISCOVERY, MANDATE, OUTAGE, UNSATISFIED, type Holder } from './joint-stand.ts'

const {
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
} = jointStand()

describe('Enforcement order 2, on what several hold', () => {
  row('error-mandate-unsatisfied', async () => {
    expect(await read(grantOf(both()))).toBe('allow')
    expect(await read(grantOf([says('bea')]))).toBe(UNSATISFIED)
  })

  it('counts verdicts by weight: of three holders at two authorities, two are enough if the mandate says so', async () => {
    const holders = [...mandate().holders, { owner: 'dora', issuer: bea.issuer, weight: 1 }]
    const wanted = mandate({ holders, rule: { kind: 'threshold', threshold: 2 } })
    const mandate_s256 = digestOf(wanted)
    serve(wanted)
    await restart({ pinned: [mandate_s256] })
    const allow = (holder: Holder, changes: object = {}) => says(holder, { mandate_s256, ...changes })
    expect(await read(grantOf([allow('bea'), allow('bea', { holder: 'dora' })]))).toBe('allow')
    expect(await read(grantOf([allow('bea'), allow('bea')]))).toBe(UNSATISFIED)
    expect(await read(grantOf([allow('carl', { holder: 'dora' }), allow('carl')]))).toBe(UNSATISFIED)
  })

  it.each([
    [MANDATE_BYTES_MAX, 'allow'],
    [MANDATE_BYTES_MAX + 1, OUTAGE],
  ])(
    'reads a mandate with what is registered up to the bound of all its readers: of %d bytes',
    async (bytes, said) => {
      const document = { ...mandate(), registered: [{ _id: 'alice/pad', name: '' }] }
      const pad = 'x'.repeat(bytes - JSON.stringify(document).length)
      serve({ ...document, registered: [{ _id: 'alice/pad', name: pad }] })
      await restart({})
      expect(await read(grantOf(both()))).toBe(said)
    },
  )

  it('comes before the signature is looked at, and after the tool and its scopes', async () => {
    expect(verdict(await stand.decide({ token: grantOf([]), tool: 'portfolio_read' }))).toBe(UNSATISFIED)
    const other = grantOf(both(), {}, { permissions: permissionOf('other', 'read') })
    expect(await read(other)).toBe(CHALLENGE)
  })

  it('refuses what is not enough before it is spent', async () => {
    expect(await trade(tradeGrant([says('bea', forTrade)]))).toBe(UNSATISFIED)
    expect(spendings()).toBe(0)
    expect(await trade(tradeGrant())).toBe('allow')
    expect(spendings()).toBe(1)
  })

  it('lets one bad verdict stand beside enough good ones, and writes it down', async () => {
    expect(await read(grantOf(['junk', ...both()]))).toBe('allow')
    expect(stand.core.lines.at(-1)).toMatchObject({
      decision: 'allow',
      detail: 'a verdict that does not count: unreadable',
    })
  })

  it('tells the log the first fault and both digests, and the caller none of it', async () => {
    const swapped = mandate({ resources: ['alice/*', 'alice/house/*'] })
    serve(swapped)
    const outcome = await stand.decide({
      token: grantOf(both()),
      signer: stand.agent,
      tool: 'portfolio_read',
    })
    expect(verdict(outcome)).toBe(UNSATISFIED)
    const digests = [digestOf(swapped), digestOf(mandate())]
    const { detail } = stand.core.lines.at(-1)!
    for (const word of ['mandate_not_pinned', ...digests]) {
      expect(detail).toContain(word)
      expect(JSON.stringify(outcome)).not.toContain(word)
    }
  })
})

describe('A mandate that takes the place of another', () => {
  const next = () => mandate({ rule: { kind: 'any' } })

  it('counts if it is pinned beside it, and then verdicts under the old one do not', async () => {
    await restart({ pinned: [digestOf(mandate()), digestOf(next())] })
    expect(await read(grantOf(both()))).toBe('allow')
    await restart({ pinned: [digestOf(mandate()), digestOf(next())] })
    serve(next())
    expect(await read(grantOf(both()))).toBe(UNSATISFIED)
    expect(await read(grantOf([says('bea', { mandate_s256: digestOf(next()) })]))).toBe('allow')
  })

  it('counts if nothing is pinned, because the operator trusts the tally for it', async () => {
    await restart({ pinned: 'any' })
    serve(next())
    expect(await read(grantOf([says('bea', { mandate_s256: digestOf(next()) })]))).toBe('allow')
    expect(await read(grantOf([]))).toBe(UNSATISFIED)
  })
})

describe('What was verified', () => {
  it('is not verified again: one introspection for each call, and nothing else after the first', async () => {
    const token = grantOf(both())
    for (let call = 0; call < 20; call++) expect(await read(token)).toBe('allow')
    expect(stand.authority.count('/introspect')).toBe(20)
    expect([bea.count('/jwks'), carl.count('/jwks')]).toEqual([1, 1])
    expect([stand.authority.count(MANDATE), stand.authority.count(DISCOVERY)]).toEqual([1, 1])
    expect(stand.authority.count('/jwks')).toBe(0)
  })

  it('proves no liveness: a grant that has ended does not count', async () => {
    const token = grantOf(both())
    expect(await read(token)).toBe('allow')
    stand.authority.end(token, 'connection_revoked')
    expect(await read(token)).toBe('403 access_revoked')
  })

  it('counts no longer than the keys that it was verified with', async () => {
    let now = Date.now()
    await restart({ keysClock: () => now })
    const token = grantOf(both())
    expect(await read(token)).toBe('allow')
    carl.script('/jwks', { status: 200, body: { keys: [publicJwk(newKey())] } })
    now += 299_000
    expect(await read(token)).toBe('allow')
    now += 1_000
    expect(await read(token)).toBe(UNSATISFIED)
  })

  it('counts no longer than the first of its keys, even if an unknown one made others be read', async () => {
    let now = Date.now()
    await restart({ keysClock: () => now })
    // Hers are read now, those of the other holder when they are needed.
    expect(await read(grantOf([says('carl')]))).toBe(UNSATISFIED)
    carl.script('/jwks', { status: 200, body: { keys: [publicJwk(newKey())] } })
    now += 200_000
    const token = grantOf([says('carl'), says('carl', {}, { key: newKey() }), says('bea')])
    expect(await read(token)).toBe('allow')
    expect(carl.count('/jwks')).toBe(2)
    now += 100_000
    expect(await read(token)).toBe(UNSATISFIED)
  })

  it('is verified anew if the tally tells something else of the same grant', async () => {
    const token = grantOf(both())
    expect(await read(token)).toBe('allow')
    const told = grantOf([says('bea'), says('carl', { effect: 'deny' })])
    stand.authority.script('/introspect', { status: 200, body: await introspected(told) })
    expect(await read(token)).toBe(UNSATISFIED)
  })

  it('is verified anew under another mandate, whose holders are others', async () => {
    let now = 0
    const dora = { owner: 'dora', issuer: bea.issuer, weight: 1 }
    const [ofBea, ofCarl] = mandate().holders
    const before = mandate({ holders: [ofBea, dora] })
    const after = mandate({ holders: [ofBea, ofCarl], rule: { kind: 'any' } })
    serve(before)
    await restart({ pinned: [digestOf(before), digestOf(after)], clock: () => now })
    const token = grantOf([
      says('bea', { mandate_s256: digestOf(before) }),
      says('carl', { mandate_s256: digestOf(after) }),
    ])
    expect(await read(token)).toBe(UNSATISFIED)
    serve(after)
    now = 301_000
    expect(await read(token)).toBe('allow')
  })

  const introspected = async (token: string): Promise<unknown> => {
    const body = new URLSearchParams({ token })
    return (await fetch(`${stand.authority.issuer}/introspect`, { method: 'POST', body })).json()
  }
})

describe('The keys of a holder', () => {
  it('are asked for once more if a key is named that is new', async () => {
    let now = Date.now()
    await restart({ keysClock: () => now })
    expect(await read(grantOf(both()))).toBe('allow')
    const next = newKey()
    carl.script('/jwks', { status: 200, body: { keys: [publicJwk(carl.key), publicJwk(next)] } })
    now += 31_000
    expect(await read(grantOf([says('bea'), says('carl', {}, { key: next })]))).toBe('allow')
    expect(carl.count('/jwks')).toBe(2)
    expect(await read(grantOf([says('bea'), says('carl', {}, { key: newKey() })]))).toBe(UNSATISFIED)
    expect(carl.count('/jwks')).toBe(2)
  })

  it('are asked only of authorities that the mandate names', async () => {
    const eve = carl
    serve(mandate({ holders: [mandate().holders[0], { owner: 'dora', issuer: bea.issuer, weight: 1 }] }))
    await restart({ pinned: 'any' })
    expect(await read(grantOf([says('bea'), says('carl')]))).toBe(UNSATISFIED)
    expect(eve.received).toEqual([])
  })

  const SILENT: [string, Script][] = [
    ['hang', 'hang'],
    ['are cut off', 'cut'],
    ['fail', { status: 503, body: {} }],
    ['are none', { status: 404, body: {} }],
    ['cannot be read', { status: 200, body: { keys: 'none' } }],
  ]

  it.each(SILENT)('that %s are an outage, if they could change the count', async (_how, script) => {
    await restart({}, { deadlineMs: 300 })
    carl.script('/jwks', script)
    expect(await read(grantOf(both()))).toBe(OUTAGE)
    expect(spendings()).toBe(0)
  })

  it.each(SILENT)('that %s stop nobody if the others are enough', async (_how, script) => {
    const any = mandate({ rule: { kind: 'any' } })
    serve(any)
    await restart({ pinned: [digestOf(any)] })
    carl.script('/jwks', script)
    const token = grantOf(both({ mandate_s256: digestOf(any) }))
    expect(await read(token)).toBe('allow')
    expect(await read(token)).toBe('allow')
  })

  it('that cannot be had are no outage if they could change nothing', async () => {
    carl.script('/jwks', 'cut')
    expect(await read(grantOf([says('carl')]))).toBe(UNSATISFIED)
  })
})

describe('A tally whose mandate cannot be had', () => {
  it.each<[string, Script]>([
    ['hangs', 'hang'],
    ['cuts the connection', 'cut'],
    ['fails', { status: 500, body: {} }],
    ['knows no such account', { status: 404, body: {} }],
    ['answers no JSON', { status: 200, body: '<html>' }],
    ['answers another form', { status: 200, body: { account: 'alice' } }],
  ])('because it %s is an outage, never a refusal', async (_how, script) => {
    stand.authority.script(MANDATE, script)
    // Long enough for the call that needs no mandate.
    await restart({}, { deadlineMs: 3_000 })
    const outcome = await stand.decide({
      token: grantOf(both()),
      signer: stand.agent,
      tool: 'portfolio_read',
    })
    expect(verdict(outcome)).toBe(OUTAGE)
    expect(JSON.stringify(outcome)).not.toContain('127.0.0.1')
    // A caller without a grant is challenged as usual.
    expect(verdict(await stand.decide({ tool: 'portfolio_read' }))).toBe(CHALLENGE)
  })

  it.each<[string, object]>([
    ['does not say that it is a tally', { ext_tally: undefined }],
    ['names no place for mandates', { ext_mandate_endpoint: undefined }],
    ['names one at another origin', { ext_mandate_endpoint: 'https://elsewhere.example/mandate' }],
    ['is another', { issuer: 'https://tally.elsewhere' }],
  ])('because its metadata %s is an outage', async (_how, changes) => {
    discovery(changes)
    expect(await read(grantOf(both()))).toBe(OUTAGE)
    expect(stand.authority.count(MANDATE)).toBe(0)
  })

  it('because its metadata names one at another origin is an outage, even if the mandate is served there', async () => {
    bea.script(MANDATE, { status: 200, body: mandate() })
    discovery({ ext_mandate_endpoint: `${bea.issuer}/mandate` })
    expect(await read(grantOf(both()))).toBe(OUTAGE)
    expect(bea.count(MANDATE)).toBe(0)
  })

  it('has the address of its mandates looked up again after 300 s, and where nothing is served there', async () => {
    let now = 0
    await restart({ clock: () => now })
    const token = grantOf(both())
    const lookedUp = async (at: number): Promise<number> => {
      now = at
      await read(token)
      return stand.authority.count(DISCOVERY)
    }
    expect(await lookedUp(0)).toBe(1)
    expect(await lookedUp(250_000)).toBe(1)
    expect(await lookedUp(600_000)).toBe(2)
    stand.authority.script(MANDATE, { status: 404, body: {} })
    await lookedUp(1_000_000)
    expect(await lookedUp(1_002_000)).toBe(4)
  })

  it('is none if it says so under other names that are listed', async () => {
    const { issuer } = stand.authority
    const { tally, mandateEndpoint } = ENFORCEMENT_ALIAS
    const named = { [tally]: true, [mandateEndpoint]: `${issuer}/mandate` }
    discovery({ ext_tally: undefined, ext_mandate_endpoint: undefined, ...named })
    expect(await read(grantOf(both()))).toBe(OUTAGE)
    await restart({ aliases: [tally, mandateEndpoint] })
    expect(await read(grantOf(both()))).toBe('allow')
  })

  it('is one only 300 s after it was last read', async () => {
    let now = 0
    await restart({ clock: () => now })
    const token = grantOf(both())
    expect(await read(token)).toBe('allow')
    stand.authority.script(MANDATE, 'cut')
    now = 299_000
    expect(await read(token)).toBe('allow')
    now = 300_001
    expect(await read(token)).toBe(OUTAGE)
    serve(mandate())
    now = 302_000
    expect(await read(token)).toBe('allow')
  })
})

describe('A single-use grant over what several hold', () => {
  it('is used once, even if the tally makes another one from the same verdicts', async () => {
    const verdicts = both(forTrade)
    expect(await trade(tradeGrant(verdicts))).toBe('allow')
    expect(await trade(tradeGrant(verdicts))).toBe('403 already_consumed')
    expect(await trade(tradeGrant(both(forTrade)))).toBe('403 already_consumed')
    expect(spendings()).toBe(1)
  })

  it('is used once by many at a time, though the tally says yes to each', async () => {
    stand.authority.script('/consume', { status: 200, body: { consumed: true }, delayMs: 20 })
    const verdicts = both(forTrade)
    const calls = Array.from({ length: 20 }, () => trade(tradeGrant(verdicts)))
    const outcomes = await Promise.all(calls)
    expect(outcomes.filter(one => one === 'allow')).toHaveLength(1)
    expect(outcomes.filter(one => ![OUTAGE, 'allow', '403 already_consumed'].includes(one))).toEqual([])
    expect(spendings()).toBe(1)
  })

  it('that could not be spent is not taken for spent', async () => {
    const token = tradeGrant()
    stand.authority.script('/consume', { status: 500, body: {} })
    expect(await trade(token)).toBe(OUTAGE)
    stand.authority.script('/consume', undefined)
    expect(await trade(token)).toBe('allow')
    expect(await trade(tradeGrant())).toBe('403 already_consumed')
  })

  it('of another negotiation is another one', async () => {
    expect(await trade(tradeGrant())).toBe('allow')
    const other = both({ ...forTrade, negotiation: 'fam_two' })
    expect(await trade(tradeGrant(other, { family: 'fam_two' }))).toBe('allow')
  })
})

describe('A call that needs a grant and no permission', () => {
  it('is held to the verdicts for what its grant is over', async () => {
    const opened = { method: 'GET', body: { state: 'absent' as const }, tool: '' }
    await restart({}, { openMethods: ['GET'] })
    const open = async (token: string) =>
      verdict(await stand.decide({ ...opened, token, signer: stand.agent }))
    expect(await open(grantOf(both()))).toBe('allow')
    expect(await open(grantOf([says('bea')]))).toBe(UNSATISFIED)
  })
})

it('Where no mandate is configured nothing is fetched, and what a grant says of one changes nothing', async () => {
  await stand.restart({})
  for (const joint of [undefined, 'yes', { account: 'bob', verdicts: [] }])
    expect(await read(stand.standing({}, { joint }))).toBe('allow')
  expect([...bea.received, ...carl.received]).toEqual([])
  expect([stand.authority.count(MANDATE), stand.authority.count(DISCOVERY)]).toEqual([0, 0])
})
