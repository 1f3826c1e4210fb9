/**
 * The relying party of passkeys, by the settings: contract, "Authentication" (owner at the owner API).
 */
import { describe, expect, it } from 'vitest'
import { passkeyFaults } from '../../src/config/passkeys.ts'
import { relyingPartyOf } from '../../src/wire/passkeys/relying-party.ts'

const given = (passkeyRpId?: string, passkeyOrigins?: string[]) => ({ passkeyRpId, passkeyOrigins })

describe('Passkeys', () => {
  it.each([
    ['https://owner.example.com/api', given(), 'owner.example.com', ['https://owner.example.com']],
    ['https://owner.example.com:8443', given(), 'owner.example.com', ['https://owner.example.com:8443']],
    ['https://owner.example.com', given('example.com'), 'example.com', ['https://owner.example.com']],
    ['http://127.0.0.1:9101', given(), 'localhost', ['http://localhost:9101']],
    ['http://[::1]:9101', given(), 'localhost', ['http://localhost:9101']],
    [
      'https://192.0.2.1',
      given('example.com', ['https://a.example.com']),
      'example.com',
      ['https://a.example.com'],
    ],
  ])('of a page at %s by %o are of %s', (page, settings, rp_id, origins) => {
    expect(relyingPartyOf(settings, page)).toEqual({ rp_id, origins })
    expect(passkeyFaults(settings, page)).toEqual([])
  })

  it.each(['https://192.0.2.1', 'https://[2001:db8::1]'])('of a page at the address %s are none', page => {
    expect(relyingPartyOf(given(), page)).toBeUndefined()
    expect(passkeyFaults(given(), page)).toEqual([])
  })

  it.each<[string, ReturnType<typeof given>, RegExp]>([
    ['a domain in capitals', given('Example.com'), /^UMA_AS_PASSKEY_RP_ID: give a domain/],
    ['an address for a domain', given('192.0.2.1'), /^UMA_AS_PASSKEY_RP_ID: give a domain/],
    ['a domain with a dot at its end', given('example.com.'), /^UMA_AS_PASSKEY_RP_ID: give a domain/],
    ['a domain that the page is not in', given('other.example'), /^Set UMA_AS_PASSKEY_ORIGINS: /],
    [
      'an origin beside the domain',
      given('example.com', ['https://example.com.evil.example']),
      /^UMA_AS_PASSKEY_ORIGINS: give origins within example.com/,
    ],
    [
      'a host that only ends like it',
      given('example.com', ['https://badexample.com']),
      /^UMA_AS_PASSKEY_ORIGINS: give origins within/,
    ],
    ['an origin without https', given('example.com', ['http://example.com']), /^UMA_AS_PASSKEY_ORIGINS: /],
    [
      'an origin with a path',
      given('example.com', ['https://example.com/page']),
      /^UMA_AS_PASSKEY_ORIGINS: /,
    ],
  ])('with %s are a fault of the settings', (_what, settings, said) => {
    expect(passkeyFaults(settings, 'https://owner.example.com')).toEqual([expect.stringMatching(said)])
  })

  it('with origins and no domain are a fault', () => {
    expect(passkeyFaults(given(undefined, ['https://a.example']), 'https://192.0.2.1')).toEqual([
      expect.stringMatching(/^Set UMA_AS_PASSKEY_RP_ID: /),
    ])
  })
})
