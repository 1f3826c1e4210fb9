/**
 * What an authority can do to an enforcement point by a false word of what it knew: docs/choices.md, "What
 * judged a call", "Revocations that prove themselves". Contract: "What the service does" (row 9: revocation
 * is immediate).
 */
import * as fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { createEndsWatch } from '../../src/enforcement/authorities/ends-watch.ts'
import { judgeCall, type EndedGrants } from '../../src/verify/index.ts'
import type { OwnerEnds } from '../../src/wire/documents/owner-ends.ts'
import { asHandle, asOwner } from '../../src/wire/identifiers.ts'
import { Refusal } from '../../src/wire/refusal.ts'
import '../support/property-seed.ts'

const [AGENT, OWNER, IAT] = [asHandle('jkt:one'), asOwner('alice'), 1_800_000_000]
const ISSUER = 'https://as.example'
/** When the enforcement point begins to check the call, by its own clock. */
const BEGIN = IAT * 1_000
/** Milliseconds from there, also far beyond what is taken. */
const lie = fc.oneof(fc.integer({ min: -70_000, max: 70_000 }), fc.integer({ min: -1e9, max: 1e9 }))

/** The steps of one check, as parts of the time that it may take. */
const check = fc.record({
  timeOutMs: fc.integer({ min: 50, max: 60_000 }),
  leaseMs: fc.integer({ min: 0, max: 1_900 }),
  answered: fc.double({ min: 0, max: 1, noNaN: true }),
  spent: fc.double({ min: 0, max: 1, noNaN: true }),
  judged: fc.record({ ends: fc.nat(9), at: lie }),
  consume: fc.option(fc.record({ ends: fc.nat(9), at: lie }), { nil: undefined }),
})

describe('An enforcement point that keeps time-out and lease', () => {
  it('is never at fault by the record of a call, whatever the authority said that it knew, and when', () => {
    let convictable = 0
    fc.assert(
      fc.property(check, ({ timeOutMs, leaseMs, answered, spent, judged, consume }) => {
        let now = BEGIN
        const watch = createEndsWatch({ clock: () => now })
        const expected = watch.expected()
        now = BEGIN + Math.floor(answered * timeOutMs)
        let record: OwnerEnds | undefined
        try {
          record = watch.takeLive({ ...judged, at: BEGIN + judged.at }, expected)
        } catch (error) {
          // It lets nothing through by such a word.
          expect(error).toBeInstanceOf(Refusal)
          return
        }
        now += Math.floor(spent * (BEGIN + timeOutMs - now))
        if (consume !== undefined) record = watch.takeSpent({ ...consume, at: BEGIN + consume.at }) ?? record
        const call = {
          // An answer that is kept is used until the end of its lease, by a check that takes all its time.
          time: BEGIN + timeOutMs + leaseMs,
          decision: 'allow' as const,
          owner: OWNER,
          handle: AGENT,
          iat: IAT - 3_600,
          judged: record,
          issuer: ISSUER,
        }
        for (const at of [BEGIN - 120_000, BEGIN, BEGIN + 120_000]) {
          const revocation: EndedGrants = {
            iss: ISSUER,
            owner: OWNER,
            iat: IAT,
            at,
            ends: 10,
            ended: new Set([AGENT]),
          }
          const { verdict } = judgeCall(call, revocation, { timeOutMs, leaseMs })
          expect(verdict).toBeDefined()
          expect(verdict).not.toBe('enforcement point at fault')
        }
        convictable += 1
      }),
      { numRuns: 1_000 },
    )
    expect(convictable).toBeGreaterThan(100)
  })
})
