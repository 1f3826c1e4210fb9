/**
 * What is printed without end, to a reader that takes its time: nothing more is asked of the authority until
 * what was printed is taken. contract, "Events", "Owner API".
 */
import { setImmediate } from 'node:timers/promises'
import { describe, expect, it } from 'vitest'
import { runOwner } from '../../src/owner/main.ts'
import { capturedTerminal } from '../support/captured-terminal.ts'
import { ownerCommand } from '../support/owner-command.ts'
import type { Received, Reply } from '../support/scripted-http.ts'
import { until } from '../support/until.ts'

const { api } = ownerCommand()

/** A terminal that takes one line each time it is let. */
function slowTerminal() {
  const terminal = capturedTerminal()
  const waiting: (() => void)[] = []
  return {
    terminal: {
      ...terminal,
      ready: (signal?: AbortSignal) =>
        new Promise<void>(resolve => {
          waiting.push(resolve)
          signal?.addEventListener('abort', () => resolve())
        }),
    },
    lines: () => terminal.printed.split('\n').length - 1,
    take: () => waiting.splice(0).forEach(resolve => resolve()),
  }
}

const LINES = 6
const numbers = Array.from({ length: LINES }, (_, at) => at + 1)
const entry = (seq: number) => ({ seq, ts: '2026-11-21T09:00:00Z', kind: 'touched', handle: 'jkt:a' })

/** Each prints six lines; how the authority answers, and what ends it. */
const PRINTING: [string, string, (args: { asked: number } & Received) => Reply][] = [
  [
    'watch --json',
    '/owner/events',
    ({ asked }) =>
      asked === 1
        ? {
            headers: { 'content-type': 'text/event-stream' },
            body: numbers.map(id => `id: ${id}\nevent: reset\ndata: {}\n\n`).join(''),
          }
        : { status: 204 },
  ],
  [
    'ledger --after 0 --follow --json',
    '/owner/ledger',
    ({ asked }) => {
      if (asked === 1) return { body: { entries: [], next: null } }
      if (asked === 2) return { body: { entries: numbers.slice(0, 3).map(entry), next: 3 } }
      if (asked === 3) return { body: { entries: numbers.slice(3).map(entry), next: null } }
      return { status: 403, body: { error: 'access_denied', error_description: 'It is over.' } }
    },
  ],
  [
    'export -',
    '/owner/export',
    ({ asked }) => ({
      body: {
        lines: numbers.slice(3 * asked - 3, 3 * asked).map(id => ({ part: 'tiers', row: { id } })),
        next: asked === 1 ? 'more' : null,
      },
    }),
  ],
]

describe('A reader that takes its time', () => {
  it.each(PRINTING)(
    'is waited for, line by line, by usher owner %s',
    async (command, path, answer) => {
      let asked = 0
      api.script(path, received => answer({ ...received, asked: ++asked }))
      const { terminal, lines, take } = slowTerminal()
      const ended = runOwner(command.split(' '), terminal)
      for (const line of numbers) {
        await until(() => lines() >= line)
        // What comes without being waited for would have come by now.
        for (let turn = 0; turn < 20; turn++) await setImmediate()
        expect(lines()).toBe(line)
        take()
      }
      await ended
      expect(lines()).toBe(LINES)
    },
    30_000,
  )

  it('is waited for no longer than until Ctrl-C', async () => {
    api.script('/owner/events', () => ({
      write: response => {
        response.writeHead(200, { 'content-type': 'text/event-stream' })
        response.write('id: 1\nevent: reset\ndata: {}\n\n')
      },
    }))
    const { terminal, lines } = slowTerminal()
    const ended = runOwner(['watch', '--json'], terminal)
    await until(() => lines() === 1)
    process.emit('SIGINT')
    expect(await ended).toBe(0)
  })
})
