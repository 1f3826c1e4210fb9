/**
 * Bounds the memory of lines that were written and that nobody has read yet: what is beyond it is dropped and
 * counted. Contract: "What the service does": a reader that stands still ends nothing, and holds up nothing.
 */

/** What takes lines: a stream of Node. */
export interface LineStream {
  /** The bytes that were written and not taken yet. */
  readonly writableLength: number
  write(text: string): unknown
}

/** Writes whole lines, `count` of them. */
export type WriteLines = (lines: string, count: number) => void

/**
 * Lines go to the stream while it takes them. Once it does again, the first line is `noticeOf` the number of
 * lines that were dropped.
 */
export function boundedLines(
  stream: LineStream,
  { bytesMax, noticeOf }: { bytesMax: number; noticeOf: (dropped: number) => string },
): WriteLines {
  let dropped = 0
  return (lines, count) => {
    if (stream.writableLength + lines.length > bytesMax) {
      dropped += count
      return
    }
    stream.write(dropped === 0 ? lines : `${noticeOf(dropped)}${lines}`)
    dropped = 0
  }
}
