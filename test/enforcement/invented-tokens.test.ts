/** contract, "Limits": a token that anybody can invent costs its source, and nobody else. */
import { expect, test } from 'vitest'
import type { Denied } from '../../src/enforcement/call.ts'
import { verdict } from './calls.ts'
import { coreStand } from './core.ts'

const PER_MINUTE = 20
const FLOOD = 200
const { agent, authority, decide, restart, standing } = coreStand()

test('a flood of invented tokens is introspected within the bound of its source, beside a live agent that is not limited', async () => {
  await restart({ perMinute: PER_MINUTE })
  const live = standing()
  expect(verdict(await decide({ token: live, signer: agent }))).toBe('allow')
  const before = authority.count('/introspect')
  const since = performance.now()
  const flood = Array.from({ length: FLOOD }, (_, n) => decide({ token: `invented-${n}` }))
  const beside = Array.from({ length: 20 }, () => decide({ token: live, signer: agent }))
  const told = new Set((await Promise.all(flood)).map(verdict))
  expect(new Set((await Promise.all(beside)).map(verdict))).toEqual(new Set(['allow']))
  expect(told).toEqual(new Set(['401 insufficient_authorization', '429 temporarily_unavailable']))
  const refilled = Math.ceil(((performance.now() - since) / 60_000) * PER_MINUTE)
  expect(authority.count('/introspect') - before).toBeLessThanOrEqual(20 + PER_MINUTE + refilled)
  expect(authority.count('/perm')).toBeLessThanOrEqual(PER_MINUTE + refilled)

  // The first call with a fresh grant from there is told when to come again, never that its grant is bad;
  // from elsewhere it goes through, and so it does ever after.
  const fresh = standing()
  const first = (await decide({ token: fresh, signer: agent })) as Denied
  expect(verdict(first)).toBe('429 temporarily_unavailable')
  expect(Number(new Map(first.headers).get('retry-after'))).toBeGreaterThan(0)
  expect(verdict(await decide({ token: fresh, signer: agent, peer: '203.0.113.8' }))).toBe('allow')
  expect(verdict(await decide({ token: fresh, signer: agent }))).toBe('allow')
})

test('a first call with a fresh grant gives back what it took', async () => {
  await restart({ perMinute: 1 })
  for (let n = 0; n < 5; n++)
    expect(verdict(await decide({ token: standing(), signer: agent }))).toBe('allow')
})
