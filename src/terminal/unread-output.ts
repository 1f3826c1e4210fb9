/**
 * Owns what a command does when nobody reads its output any more (`usher print-docs | head`): it ends
 * quietly, as other programs do. Contract: "What the service does": a server continues even if nobody reads
 * its log.
 */
import type { Writable } from 'node:stream'

/** 128 and the number of SIGPIPE, by which a shell knows it. */
export const UNREAD = 141

/**
 * Ends the process with 141 once the reader of its standard output or its messages has gone. Not where
 * somebody else listens for the failures of that stream, too, as the log of a server does.
 */
export function endWhenUnread(
  streams: readonly Writable[] = [process.stdout, process.stderr],
  end: (code: number) => void = code => process.exit(code),
): void {
  for (const stream of streams)
    stream.on('error', (error: NodeJS.ErrnoException) => {
      if (stream.listenerCount('error') > 1) return
      if (error.code !== 'EPIPE' && error.code !== 'ECONNRESET') throw error
      end(UNREAD)
    })
}
