/** contract, "Authorized call": the proof of a call that no HTTP carries, by a key as a program has it. */
import { expect, it } from 'vitest'
import { proveMessage } from '../../src/agent/index.ts'
import { generatePrivateJwk, importPrivateJwk } from '../../src/wire/signatures/keys.ts'

const message = { jsonrpc: '2.0', id: 1, method: 'tools/call', params: { name: 'portfolio_read' } }
const call = {
  resource: 'https://tools.example.com/mcp/alice',
  message,
  accessToken: 'rpt',
  now: 1_800_000_000,
}

it('takes a private JWK, and signs as with the key that is made of it', () => {
  const jwk = generatePrivateJwk()
  const proven = proveMessage({ ...call, key: jwk })
  expect(proven).toEqual(proveMessage({ ...call, key: importPrivateJwk(jwk) }))
  expect(JSON.stringify(proven)).not.toContain(jwk.d)
})

it('refuses what is no JWK, and says that the key is wrong', () => {
  const key = { kty: 'OKP', crv: 'Ed25519', x: 'short', d: 'short' } as ReturnType<typeof generatePrivateJwk>
  expect(() => proveMessage({ ...call, key })).toThrow(/The key of the agent cannot be used/)
})
