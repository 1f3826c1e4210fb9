/**
 * Owns how deep an answer of a resource may be nested: deeper nesting crashes the parsers of clients, and
 * then nobody would answer. Contract: "Errors": a refusal has its own code. It is counted over the bytes as
 * they come, before anything is built of them.
 */

/** The outermost array or object of a message counts as one. */
export const ANSWER_DEPTH_MAX = 128

export const LINE_FEED = 0x0a
const CARRIAGE_RETURN = 0x0d
const QUOTE = 0x22
const ESCAPE = 0x5c
const OPENING = 0x7b
const CLOSING = 0x7d
const DATA_BYTES = Buffer.from('data:')
const BYTE_ORDER_MARK = Buffer.from([0xef, 0xbb, 0xbf])

/**
 * Tells for each chunk of a body whether it is nested no deeper than an answer may be. In a stream of events,
 * only the data counts, and each event separately.
 */
export function depthGuard(isStream: boolean): (chunk: Uint8Array) => boolean {
  const nesting = createNesting()
  return isStream ? streamGuard(nesting) : chunk => nesting.take(chunk, 0, chunk.length)
}

/** How deep JSON goes. */
interface Nesting {
  /** Takes a part of a chunk; false if it goes too deep in there. */
  take: (chunk: Uint8Array, from: number, to: number) => boolean
  /** A JSON string never continues on the next line. */
  endLine: () => void
  /** Another document begins. */
  begin: () => void
}

function createNesting(): Nesting {
  let depth = 0
  let inText = false
  /** The next byte is taken literally. */
  let escaped = false
  return {
    take: (chunk, from, to) => {
      let at = from
      // Each is searched for once, however many come before it.
      let quote = -1
      let escape = -1
      while (at < to) {
        if (escaped) {
          escaped = false
          at++
        } else if (inText) {
          if (quote < at) quote = next(chunk, QUOTE, at)
          if (escape < at) escape = next(chunk, ESCAPE, at)
          at = Math.min(quote, escape)
          if (at >= to) break
          if (at === quote) inText = false
          else escaped = true
          at++
        } else {
          const byte = chunk[at++]!
          if (byte === QUOTE) inText = true
          // Brackets differ from braces in this one bit.
          else if ((byte | 0x20) === OPENING && ++depth > ANSWER_DEPTH_MAX) return false
          else if ((byte | 0x20) === CLOSING) depth--
        }
      }
      return true
    },
    endLine: () => (inText = escaped = false),
    begin: () => {
      depth = 0
      inText = escaped = false
    },
  }
}

/**
 * Reads events by lines. Fields other than data, and comments, do not count as JSON, whatever they contain.
 */
function streamGuard(nesting: Nesting): (chunk: Uint8Array) => boolean {
  /** Bytes of the line so far, and whether they are those of a line of data. */
  let length = 0
  let isData = true
  let afterReturn = false
  /** Bytes so far of a byte order mark. */
  let marked = 0
  return chunk => {
    let at = 0
    while (marked < BYTE_ORDER_MARK.length && at < chunk.length) {
      if (chunk[at] !== BYTE_ORDER_MARK[marked++]) marked = BYTE_ORDER_MARK.length
      else at++
    }
    let line = -1
    let back = -1
    while (at < chunk.length) {
      if (line < at) line = next(chunk, LINE_FEED, at)
      if (back < at) back = next(chunk, CARRIAGE_RETURN, at)
      const end = Math.min(line, back)
      for (; at < end && length < DATA_BYTES.length; at++, length++)
        isData &&= chunk[at] === DATA_BYTES[length]
      if (isData && at < end && !nesting.take(chunk, at, end)) return false
      length += end - at
      if (end >= chunk.length) return true
      const isSecondHalf = afterReturn && length === 0 && end === line
      if (length === 0 && !isSecondHalf) nesting.begin()
      else nesting.endLine()
      afterReturn = end === back
      at = end + 1
      length = 0
      isData = true
    }
    return true
  }
}

/** The next position of the byte, or the end of the chunk. */
function next(chunk: Uint8Array, byte: number, from: number): number {
  const at = chunk.indexOf(byte, from)
  return at === -1 ? chunk.length : at
}
