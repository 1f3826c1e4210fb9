/** A terminal whose output a test reads: what a command printed, and what it said about it. */
import type { Terminal } from '../../src/terminal/command.ts'

export interface CapturedTerminal extends Terminal {
  readonly printed: string
  readonly said: string
}

/** `columns` is how wide it is; undefined: it is a file or a program. */
export function capturedTerminal(columns?: number): CapturedTerminal {
  const written = { out: '', err: '' }
  return {
    columns,
    out: text => void (written.out += text),
    err: text => void (written.err += text),
    get printed() {
      return written.out
    },
    get said() {
      return written.err
    },
  }
}
