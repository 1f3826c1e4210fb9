/**
 * contract, "Single-use grant" and "Errors": whether a call left at all is told by what failed, for only then
 * is its grant known to be unspent.
 */
import { describe, expect, it } from 'vitest'
import { neverLeft } from '../../src/agent/transports/transport.ts'
import { startScriptedPeers } from '../support/scripted-resource.ts'

describe('A request that failed', () => {
  const failure = (cause: object): Error => new TypeError('fetch failed', { cause })

  it.each(['EHOSTUNREACH', 'ENETUNREACH', 'ECONNREFUSED', 'ETIMEDOUT'])(
    'never left if no connection came to be, and may have if one stood: %s',
    code => {
      expect(neverLeft(failure({ code, syscall: 'connect' }))).toBe(true)
      for (const syscall of ['read', 'write', undefined])
        expect(neverLeft(failure({ code, syscall }))).toBe(false)
    },
  )

  it('never left if none of the addresses of a name took it, or the name has none', async () => {
    const refused = { code: 'ECONNREFUSED', syscall: 'connect' }
    expect(neverLeft(failure({ code: 'ECONNREFUSED', errors: [refused, refused] }))).toBe(true)
    expect(neverLeft(failure({ errors: [refused, { code: 'EPIPE', syscall: 'write' }] }))).toBe(false)
    expect(neverLeft(failure({ errors: [] }))).toBe(false)
    expect(neverLeft(failure({ code: 'ENOTFOUND', syscall: 'getaddrinfo' }))).toBe(true)
    expect(neverLeft(failure({ code: 'UND_ERR_CONNECT_TIMEOUT' }))).toBe(true)
    expect(neverLeft(failure({ code: 'UND_ERR_SOCKET' }))).toBe(false)
    expect(neverLeft(new TypeError('no cause'))).toBe(false)
    const peers = await startScriptedPeers()
    await peers.close()
    const thrown = await fetch(peers.resource).catch((error: unknown) => error)
    expect(neverLeft(thrown)).toBe(true)
  })
})
