import { describe, expect, test } from 'vitest'
import { createChallengeLimit, sourceOf } from '../../src/enforcement/challenge-limit.ts'

describe('Challenges are bounded per source', () => {
  test('a share refills steadily, and says when', () => {
    let now = 0
    const limit = createChallengeLimit({ perMinute: 60, clock: () => now })
    for (let i = 0; i < 60; i++) expect(limit.take('a')).toBe(0)
    expect(limit.take('a')).toBe(1)
    expect(limit.take('b')).toBe(0)
    now += 1_000
    expect(limit.take('a')).toBe(0)
    expect(limit.take('a')).toBe(1)
    now += 3_600_000
    for (let i = 0; i < 60; i++) expect(limit.take('a')).toBe(0)
    expect(limit.take('a')).toBeGreaterThan(0)
  })

  test('few a minute make for long waits', () => {
    const limit = createChallengeLimit({ perMinute: 1, clock: () => 0 })
    expect([limit.take('a'), limit.take('a')]).toEqual([0, 60])
  })

  test('a bounded number of sources is remembered, the one longest unseen forgotten first', () => {
    const limit = createChallengeLimit({ perMinute: 1, sourcesMax: 2, clock: () => 0 })
    expect([limit.take('a'), limit.take('b'), limit.take('a')]).toEqual([0, 0, 60])
    expect([limit.take('c'), limit.take('b'), limit.take('a')]).toEqual([0, 0, 0])
  })

  test('a token that was seen active costs nothing where it was, and elsewhere what any other does', () => {
    const limit = createChallengeLimit({ perMinute: 1, clock: () => 0 })
    const alices = { token: 'T', resource: 'https://tools.example/mcp/alice' }
    const bobs = { ...alices, resource: 'https://tools.example/mcp/bob' }
    limit.takeFor(alices, 'a').note(true)
    expect([limit.takeFor(bobs, 'a').waitSeconds, limit.takeFor(bobs, 'a').waitSeconds]).toEqual([0, 60])
    limit.takeFor(bobs, 'b').note(false)
    expect(limit.takeFor(alices, 'a').waitSeconds).toBe(0)
  })

  test.each([
    ['203.0.113.7', '203.0.113.7'],
    ['2001:db8:1:2:3:4:5:6', '2001:db8:1:2::/64'],
    ['2001:0DB8:1:2::9', '2001:db8:1:2::/64'],
    ['2001:db8::1', '2001:db8:0:0::/64'],
    ['::1', '0:0:0:0::/64'],
    ['::ffff:203.0.113.7', '203.0.113.7'],
    ['unknown', 'unknown'],
  ])('%s counts as %s', (peer, source) => {
    expect(sourceOf({ peer, headers: new Map() }, 0)).toBe(source)
  })

  test.each([
    [0, '192.0.2.1'],
    [1, '203.0.113.3'],
    [2, '203.0.113.2'],
    [3, '192.0.2.1'], // what a client wrote there himself is no address
    [9, '192.0.2.1'],
  ])('with %i trusted hops the source is %s', (hops, source) => {
    const headers = new Map([['x-forwarded-for', ['evil', '203.0.113.2, 203.0.113.3']]])
    expect(sourceOf({ peer: '192.0.2.1', headers }, hops)).toBe(source)
  })

  // Envoy with use_remote_address adds the address of whoever called it before it asks.
  test.each([
    [0, '192.0.2.1'],
    [1, '203.0.113.3'],
    [2, '203.0.113.2'],
    [3, '192.0.2.1'],
  ])('with %i trusted hops the source is %s, also if the gateway has added its own peer', (hops, source) => {
    const headers = new Map([['x-forwarded-for', ['evil', '203.0.113.2,203.0.113.3, 192.0.2.1']]])
    expect(sourceOf({ peer: '192.0.2.1', headers }, hops)).toBe(source)
  })

  test('a client that writes the address of the proxy itself moves no other address into its place', () => {
    const headers = new Map([['x-forwarded-for', ['198.51.100.9, 192.0.2.1, 203.0.113.3']]])
    expect(sourceOf({ peer: '192.0.2.1', headers }, 1)).toBe('203.0.113.3')
  })
})
