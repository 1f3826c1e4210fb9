/**
 * A tally that lies, in one thing at a time: contract, "Tally for a jointly held resource" (it decides
 * nothing), "Authorized call", order 2.
 */
import { describe, expect, it } from 'vitest'
import { TYP } from '../../src/wire/names.ts'
import { s256Json } from '../../src/wire/encoding.ts'
import { newKey, nowSeconds, verdict } from './calls.ts'
import { permissionOf } from './core.ts'
import { jointStand, CHALLENGE, TRADE, UNSATISFIED } from './joint-stand.ts'

const {
  bea,
  stand,
  mandate,
  digestOf,
  serve,
  restart,
  says,
  both,
  grantOf,
  read,
  forTrade,
  tradeGrant,
  trade,
} = jointStand()

describe('A tally that lies is caught where of one verdict', () => {
  it.each<[string, string, () => string | undefined]>([
    ['too_few', 'nothing is there', () => undefined],
    ['forged', 'the signature is by the tally', () => says('carl', {}, { key: stand.authority.key })],
    ['forged', "the signature is by the other holder's authority", () => says('carl', {}, { key: bea.key })],
    [
      'forged',
      'a part was changed',
      () => says('carl').replace(/\.[^.]*\./, `.${says('bea').split('.')[1]}.`),
    ],
    ['unreadable', 'the typ is that of a receipt', () => says('carl', {}, { typ: TYP.receipt })],
    ['foreign', 'the issuer is another', () => says('carl', { iss: 'https://as.eve.test' })],
    ['foreign', 'the issuer is the tally', () => says('carl', { iss: stand.authority.issuer })],
    ['foreign', 'the holder is nobody', () => says('carl', { holder: 'eve' })],
    ['foreign', "the holder is the other's", () => says('carl', { holder: 'bea' })],
    ['forged', 'the audience is another tally', () => says('carl', { aud: 'https://tally.elsewhere' })],
    ['forged', 'the audience is left out', () => says('carl', { aud: undefined })],
    ['other_account', 'the account is another', () => says('carl', { account: 'bob' })],
    ['other_negotiation', 'the negotiation is another', () => says('carl', { negotiation: 'fam_other' })],
    ['other_contract', 'the agreement is another', () => says('carl', { contract: 's256:other' })],
    ['other_resource', 'the resource is another', () => says('carl', { resource_id: 'alice/trades' })],
    ['too_few', 'the effect is a refusal', () => says('carl', { effect: 'deny' })],
    ['forged', 'the effect is a maybe', () => says('carl', { effect: 'ask' })],
    ['other_mandate', 'the mandate is another', () => says('carl', { mandate_s256: 's256:other' })],
    ['other_key', 'the key is another', () => says('carl', { cnf_jkt: newKey().thumbprint })],
    ['wider', 'the scopes are others', () => says('carl', { scope: ['trade'] })],
    ['longer', 'the time is shorter', () => says('carl', { expires_in: 500 })],
    ['longer', 'the time began long ago', () => says('carl', { iat: nowSeconds() - 3_500 })],
    ['from_the_future', 'the time is to come', () => says('carl', { iat: nowSeconds() + 90 })],
    [
      'other_operation',
      'there is one operation, and the grant is for any',
      () => says('carl', { operation: TRADE }),
    ],
    ['foreign', 'it is one of the other holder, again', () => says('bea', { holder: 'carl' })],
  ])('%s: %s', async (fault, _what, second) => {
    const verdicts = [says('bea'), second()].filter(one => one !== undefined)
    expect(await read(grantOf(verdicts))).toBe(UNSATISFIED)
    expect(stand.core.lines.at(-1)!.detail).toContain(`joint: ${fault};`)
  })

  it('too_few: it is the first one once more', async () => {
    expect(await read(grantOf([says('bea'), says('bea'), says('bea', { iat: nowSeconds() - 1 })]))).toBe(
      UNSATISFIED,
    )
  })
})

describe('A tally that lies is caught where of the grant', () => {
  const later = () => permissionOf('portfolio', 'read', { exp: nowSeconds() + 4_000 })
  it.each<[string, string, () => string]>([
    [UNSATISFIED, 'the negotiation is another', () => grantOf(both(), { family: 'fam_other' })],
    [UNSATISFIED, 'the agreement is another', () => grantOf(both(), { contract: 's256:other' })],
    [
      UNSATISFIED,
      'a scope was added',
      () =>
        grantOf(
          both(),
          {},
          {
            permissions: [{ ...permissionOf('portfolio', 'read')[0]!, resource_scopes: ['read', 'trade'] }],
          },
        ),
    ],
    [
      UNSATISFIED,
      'the end is later',
      () => grantOf(both(), {}, { permissions: later(), claims: { exp: nowSeconds() + 4_000 } }),
    ],
    [CHALLENGE, 'the issuer is another', () => grantOf(both(), { iss: 'https://tally.elsewhere' })],
    [CHALLENGE, 'the audience is another', () => grantOf(both(), { aud: 'https://tools.elsewhere/mcp' })],
    [CHALLENGE, 'the owner is another', () => grantOf(both(), { owner: 'bob' })],
  ])('%s: %s', async (expected, _what, token) => {
    expect(await read(token())).toBe(expected)
  })

  it('the key is that of another agent, who signs the call by it', async () => {
    const thief = newKey()
    const token = grantOf(both(), {}, { key: thief })
    expect(verdict(await stand.decide({ token, signer: thief, tool: 'portfolio_read' }))).toBe(UNSATISFIED)
  })

  it('the operation is another than a holder allowed, or the grant is for more than once', async () => {
    const verdicts = both({ ...forTrade, operation: TRADE })
    expect(await trade(tradeGrant(verdicts))).toBe('allow')
    const other = { ...TRADE, params_s256: s256Json({ symbol: 'VTI', qty: 200 }) }
    const larger = tradeGrant(both({ ...forTrade, operation: other }))
    expect(await trade(larger)).toBe(UNSATISFIED)
    const permissions = permissionOf('trades', 'trade')
    expect(await trade(grantOf(verdicts, {}, { permissions, consequence: 'irreversible' }))).toBe(UNSATISFIED)
  })
})

describe('A tally that lies is caught where of joint', () => {
  it.each<[string, string, object]>([
    [UNSATISFIED, 'nothing is said', { joint: undefined }],
    [UNSATISFIED, 'nothing can be read', { joint: 'yes' }],
    [UNSATISFIED, 'no verdicts are told', { joint: { account: 'alice' } }],
    [UNSATISFIED, 'verdicts are no list', { joint: { account: 'alice', verdicts: 'both' } }],
    [UNSATISFIED, 'a verdict is no text', { joint: { account: 'alice', verdicts: [{ effect: 'allow' }] } }],
    [CHALLENGE, 'the account is another', { joint: { account: 'bob', verdicts: [] } }],
    [CHALLENGE, 'the account is left out', { joint: { verdicts: [] } }],
  ])('%s: %s', async (expected, _what, lie) => {
    expect(await read(grantOf(both(), lie))).toBe(expected)
  })

  it('more verdicts are told than any mandate has use for', async () => {
    expect(await read(grantOf([...both(), ...Array.from({ length: 31 }, () => 'x')]))).toBe(UNSATISFIED)
  })

  it('a mandate of its own stands in the grant: nobody reads it', async () => {
    const mine = mandate({ holders: [{ owner: 'eve', issuer: 'https://as.eve.test', weight: 2 }] })
    expect(
      await read(grantOf(both(), { joint: { account: 'alice', mandate: mine, verdicts: both() } })),
    ).toBe('allow')
    expect(await read(grantOf([], { joint: { account: 'alice', mandate: mine, verdicts: [] } }))).toBe(
      UNSATISFIED,
    )
  })
})

describe('A tally that lies is caught where of the mandate that it serves', () => {
  it.each<[string, string, () => object]>([
    [
      'mandate_not_pinned',
      'a holder is another',
      () => ({ holders: [mandate().holders[0], { ...mandate().holders[1]!, owner: 'eve' }] }),
    ],
    [
      'mandate_not_pinned',
      'an authority is another',
      () => ({
        holders: [mandate().holders[0], { ...mandate().holders[1]!, issuer: 'https://as.eve.test' }],
      }),
    ],
    [
      'mandate_not_pinned',
      'a weight is another',
      () => ({
        holders: [{ ...mandate().holders[0]!, weight: 2 }, mandate().holders[1]],
        rule: { kind: 'threshold', threshold: 2 },
      }),
    ],
    ['mandate_not_pinned', 'the rule takes fewer', () => ({ rule: { kind: 'any' } })],
    ['mandate_not_pinned', 'the resources are more', () => ({ resources: ['alice/*', 'alice/a/*'] })],
    ['mandate_of_another', 'the tally is another', () => ({ tally: 'https://tally.elsewhere' })],
    ['unlawful_mandate', 'the account is another', () => ({ account: 'bob' })],
    [
      'unlawful_mandate',
      'one holder is left',
      () => ({ holders: [mandate().holders[0]], rule: { kind: 'any' } }),
    ],
    [
      'unlawful_mandate',
      'a holder is listed twice',
      () => ({ holders: [mandate().holders[0], mandate().holders[0]] }),
    ],
    [
      'unlawful_mandate',
      'it is a holder itself',
      () => ({
        holders: [mandate().holders[0], { ...mandate().holders[1]!, issuer: stand.authority.issuer }],
      }),
    ],
  ])('%s: %s', async (fault, _what, changes) => {
    serve(mandate(changes()))
    expect(await read(grantOf(both()))).toBe(UNSATISFIED)
    expect(stand.core.lines.at(-1)!.detail).toContain(`joint: ${fault};`)
  })

  it('resource_not_covered: a lawful one is over something else', async () => {
    const elsewhere = mandate({ resources: ['alice/house'] })
    serve(elsewhere)
    await restart({ pinned: [digestOf(elsewhere)] })
    const mandate_s256 = digestOf(elsewhere)
    expect(await read(grantOf(both({ mandate_s256 })))).toBe(UNSATISFIED)
    expect(stand.core.lines.at(-1)!.detail).toContain('resource_not_covered')
  })
})
