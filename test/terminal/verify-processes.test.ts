/**
 * `usher verify ledger` and `usher verify heads` as programs: what they read, print and end with. The rules
 * are in the tests beside this one. docs/choices.md, "The file of a ledger". Contract: "Events" (row 5).
 */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { describe, expect, it } from 'vitest'
import { publicJwk } from '../../src/wire/signatures/keys.ts'
import { configFolder } from '../support/config-files.ts'
import { headOf, LOG_KEY, ledgerFileOf, recordOf, sampleEntries, textOf } from '../support/sample-ledger.ts'
import { usherProgram } from '../support/usher-program.ts'

const PROGRAM = usherProgram()
const { folder } = configFolder()
const entries = sampleEntries(300)
const file = (name: string, content: string): string => {
  writeFileSync(join(folder, name), content)
  return join(folder, name)
}
const keys = file('log-keys.json', JSON.stringify({ keys: [publicJwk(LOG_KEY)] }))
const ledger = file('ledger.jsonl', textOf(ledgerFileOf(entries)))
const heads = (name: string, ...sizes: number[]): string => {
  const lines = sizes.map(size => JSON.stringify({ ledger_head: headOf(entries.slice(0, size)) }))
  return file(name, `${lines.join('\n')}\n`)
}

async function usher(args: string[], input = ''): Promise<{ code: number; out: string; err: string }> {
  const child = spawn(process.execPath, [PROGRAM, 'verify', ...args, '--keys', keys], {
    env: { PATH: process.env['PATH'], HOME: '/nonexistent' },
  })
  child.stdin.end(input)
  const ends = once(child, 'close') as Promise<[number]>
  const [out, err, [code]] = await Promise.all([text(child.stdout), text(child.stderr), ends])
  return { code, out, err }
}

describe('usher verify ledger', () => {
  it('says of a ledger what it proves and what not, with heads beside it, and ends with 0', async () => {
    const { code, out, err } = await usher(['ledger', ledger, '--heads', heads('heads.jsonl', 9, 300)])
    expect([code, err]).toEqual([0, ''])
    expect(out).toMatch(/^Entries 1 to 300 of .* are what the log signed.*\nIt proves nothing of what came/)
  })

  it('reads the record of an agent from the input, and finds what was left out: it ends with 1', async () => {
    const record = recordOf(entries, 'jkt:1')
    expect(await usher(['ledger', '-'], textOf(record))).toMatchObject({ code: 0, err: '' })
    const less = { ...record, entries: record.entries.toSpliced(9, 1) }
    const { code, out } = await usher(['ledger', '-'], textOf(less))
    expect([code, out]).toEqual([1, expect.stringMatching(/^gap: Entry 38 is absent/)])
  })

  it.each<[string, string[], RegExp]>([
    ['a file that is none', ['ledger', keys], /none of a ledger's file/],
    ['a position that is none', ['ledger', ledger, '--from', '0'], /--from the position of an entry/],
    ['a position that the head does not cover', ['ledger', ledger, '--from', '301'], /it has 300/],
  ])('ends with 2 for %s', async (_what, args, sentence) => {
    const { code, out, err } = await usher(args)
    expect([code, out, err]).toEqual([2, '', expect.stringMatching(sentence)])
  })
})

describe('usher verify heads', () => {
  it('compares heads by a ledger that has the leaves below them, and ends with 1 without it', async () => {
    const known = heads('both.jsonl', 12, 250)
    const alone = await usher(['heads', known])
    expect([alone.code, alone.out]).toEqual([1, expect.stringMatching(/^unproved: /)])
    expect(await usher(['heads', known, '--ledger', ledger])).toMatchObject({
      code: 0,
      out: expect.stringContaining('are heads of the ledger in'),
    })
  })
})
