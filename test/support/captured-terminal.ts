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

/** How a command ended, and what it wrote to either stream. */
export interface CommandRun {
  code: number
  printed: string
  said: string
}

/** Runs a command, which answers its exit code, on such a terminal. */
export async function runCaptured(
  command: (terminal: CapturedTerminal) => Promise<number>,
  columns?: number,
): Promise<CommandRun> {
  const terminal = capturedTerminal(columns)
  const code = await command(terminal)
  return { code, printed: terminal.printed, said: terminal.said }
}
