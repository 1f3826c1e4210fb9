/**
 * What her page takes for the key of another device of hers: contract, "Authentication" (a device key she
 * enrolled). A key that was not made in a page must not be enrolled as one that was.
 */
import { describe, expect, it, test } from 'vitest'
import { checkWord, readRequest } from '../../src/console/access/device-request.ts'
import { publicJwk } from '../../src/wire/signatures/keys.ts'
import { newKey } from '../support/wire-samples.ts'

const key = newKey()
const { x, thumbprint: kid } = key
const printed = publicJwk(key, kid)
const served = { jwk: { kty: 'OKP', crv: 'Ed25519', x, surface: 'served' }, kid, isOfCommandLine: false }

describe('The request of a device', () => {
  it.each([
    ['as the page shows it', `key_${x}`],
    ['with blanks around it', ` key_${x}\n`],
    ['in a link', `https://owner.example.com/#add=key_${x}`],
  ])('is read %s, as a key that a page made', async (_how, text) => {
    expect(await readRequest(text)).toEqual(served)
  })

  it.each([
    ['in several lines', JSON.stringify(printed, null, 2)],
    ['in one line, as a field takes it', JSON.stringify(printed, null, 2).replaceAll('\n', '')],
  ])('is read as `usher owner key` prints it, %s, as a key of the command line', async (_how, text) => {
    expect(await readRequest(text)).toEqual({
      jwk: { kty: 'OKP', crv: 'Ed25519', x },
      kid,
      isOfCommandLine: true,
    })
  })

  it.each([
    ['nothing', ''],
    ['a private key', JSON.stringify({ ...printed, d: x })],
    ['a key of another kind', JSON.stringify({ ...printed, crv: 'X25519' })],
    ['a key of another length', JSON.stringify({ ...printed, x: x.slice(1) })],
    ['no JSON', '{"kty":'],
    ['no object', '[]'],
    ['a request that is cut off', `key_${x.slice(1)}`],
  ])('is not read in %s', async (_what, text) => {
    expect(await readRequest(text)).toBeUndefined()
  })
})

test('the check word is how the kid begins, which the command line prints', () => {
  expect(printed.kid.startsWith(checkWord(kid).replace(' ', ''))).toBe(true)
})
