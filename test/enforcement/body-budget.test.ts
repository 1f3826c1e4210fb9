import { describe, expect, test } from 'vitest'
import { until } from '../support/until.ts'
import { callOf, verdict } from './calls.ts'
import { coreStand } from './core.ts'

const { agent, authority, core, standing } = coreStand({ bodiesBytesMax: 50_000 })

const ALLOWED = 'allow'
const asked = (bytes: number, deadlineMs = 60_000) =>
  core
    .decide(
      callOf({
        token: standing(),
        signer: agent,
        args: { note: 'x'.repeat(bytes) },
        deadlineAt: Date.now() + deadlineMs,
      }),
    )
    .then(verdict)

describe('Bodies of calls that wait', () => {
  test('beyond what may be held at a time are refused as an outage, before anybody is asked', async () => {
    authority.script('/introspect', 'hang')
    const waiting = [asked(20_000, 5_000), asked(20_000, 5_000)]
    await until(() => authority.count('/introspect') === 2)
    expect(await asked(20_000)).toBe('503 temporarily_unavailable')
    expect(core.lines.at(-1)).toMatchObject({ detail: expect.stringContaining('large bodies') })
    expect(authority.count('/introspect')).toBe(2)

    authority.script('/introspect', undefined)
    expect(await asked(100)).toBe(ALLOWED) // a small one finds room beside them
    expect(await Promise.all(waiting)).toEqual(Array(2).fill('503 temporarily_unavailable'))
    expect(await Promise.all([asked(20_000), asked(20_000)])).toEqual([ALLOWED, ALLOWED])
  })

  test('never keep out a larger body that is alone', async () => {
    expect(await asked(60_000)).toBe(ALLOWED)
    expect(await asked(60_000)).toBe(ALLOWED)
  })
})
