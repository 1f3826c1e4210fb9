/** The ledger as a table for other programs (RFC 4180): contract, "Owner API" (`/owner/ledger`). */
import { expect, it } from 'vitest'
import { csvOf } from '../../src/console/ledger/csv.ts'
import type { LedgerEntry } from '../../src/wire/owner/owner-api.ts'

it('an entry is one row, what is in it stays in its cell, and no cell is a formula', () => {
  const entry = {
    seq: 1,
    ts: '2026-01-02T03:04:05.000Z',
    kind: 'denied',
    tool: '=HYPERLINK("https://x"),\r\n"y"',
    facts: { b: 1, a: ['x'] },
  } as unknown as LedgerEntry
  const other = { seq: 2, ts: '', kind: '@sum', amount: -1 } as unknown as LedgerEntry
  expect(csvOf([entry, other])).toBe(
    '"seq","ts","kind","handle","family","resource_id","tool","by","binding","amount","facts"\r\n' +
      '"1","2026-01-02T03:04:05.000Z","denied",,,,"\'=HYPERLINK(""https://x""),\r\n""y""",,,,"{""a"":[""x""],""b"":1}"\r\n' +
      '"2",,"\'@sum",,,,,,,"-1",\r\n',
  )
})
