/** contract, "Authentication": what may come without TLS stays on this machine. */
import { describe, expect, it } from 'vitest'
import { isLoopbackHost } from '../../src/wire/loopback.ts'

describe('A host is this machine', () => {
  it.each(['127.0.0.1', '127.255.255.255', '127.9.9.9', '::1', '[::1]'])('if it is the address %s', host => {
    expect(isLoopbackHost(host)).toBe(true)
  })

  it.each([
    ['localhost', 'a name, which a resolver may send anywhere'],
    ['app.localhost', 'a name below it'],
    ['127.0.0.1.nip.io', 'a name that begins like an address'],
    ['127.0.0.256', 'no address'],
    ['127.1', 'no address as a URL spells it'],
    ['0.0.0.0', 'every address'],
    ['::', 'every address'],
    ['128.0.0.1', 'another address'],
    ['[::ffff:127.0.0.1]', 'a mapped address'],
    ['', 'nothing'],
  ])('but not where it is %j: %s', host => {
    expect(isLoopbackHost(host)).toBe(false)
  })
})
