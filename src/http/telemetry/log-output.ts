/**
 * Owns how the lines of a log leave the process, also where nobody reads them: memory for lines that wait has
 * a bound, and what is beyond it is dropped and counted. Contract: "Events" (a log is no ledger): a reader
 * that stands still must not end a server, nor keep its answers waiting.
 */
import type { Writable } from 'node:stream'
import { boundedLines, type WriteLines } from '../../limits/bounded-lines.ts'

/** The size of lines that were written and not read yet, in bytes. */
const WAITING_BYTES_MAX = 4 * 1_024 * 1_024

/**
 * Lines go to the stream while it takes them. Once it does again, one more line says how many were dropped.
 * A reader that went away is no fault of the process: everything is dropped then.
 */
export function boundedOutput(stream: Writable, bytesMax = WAITING_BYTES_MAX): WriteLines {
  let isBroken = false
  stream.on('error', () => {
    isBroken = true
  })
  const write = boundedLines(stream, { bytesMax, noticeOf: dropNotice })
  return (lines, count) => {
    if (!isBroken) write(lines, count)
  }
}

function dropNotice(dropped: number): string {
  const msg = 'lines of this log were dropped: nobody read it in time'
  return `${JSON.stringify({ level: 'warn', time: new Date().toISOString(), dropped, msg })}\n`
}
