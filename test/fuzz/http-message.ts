/**
 * Owns a second reading of HTTP/1.1, with nothing of the product in it: the requests that are in some bytes,
 * and the answers. It accepts only what no two readers could read differently (RFC 9112), so an allow of
 * anything else is a finding.
 */

/** Header lines in order, names in lower case, one character per byte. */
export interface HttpMessage {
  start: string
  lines: [name: string, value: string][]
  body: Buffer
}

const LINE = /^([!#$%&'*+\-.^_`|~0-9A-Za-z]+):[ \t]*([^\0\r\n]*?)[ \t]*$/

/**
 * The messages that are wholly there, one after the other, up to the first that is not, or is not
 * well-formed.
 */
export function readMessages(bytes: Buffer): HttpMessage[] {
  const messages: HttpMessage[] = []
  for (let rest = bytes; rest.length > 0;) {
    const read = readMessage(rest)
    if (read === undefined) break
    messages.push(read.message)
    rest = rest.subarray(read.length)
  }
  return messages
}

/** The values of the lines of one name. */
export function valuesOf({ lines }: Pick<HttpMessage, 'lines'>, name: string): string[] {
  return lines.filter(([known]) => known === name).map(([, value]) => value)
}

function readMessage(bytes: Buffer): { message: HttpMessage; length: number } | undefined {
  const end = bytes.indexOf('\r\n\r\n')
  if (end < 0) return undefined
  const [start = '', ...rest] = bytes.toString('latin1', 0, end).split('\r\n')
  const lines: HttpMessage['lines'] = []
  for (const line of rest) {
    const [, name, value] = LINE.exec(line) ?? []
    if (name === undefined) return undefined
    lines.push([name.toLowerCase(), value!])
  }
  const body = readBody(bytes.subarray(end + 4), lines)
  return body && { message: { start, lines, body: body.bytes }, length: end + 4 + body.length }
}

function readBody(bytes: Buffer, lines: HttpMessage['lines']): { bytes: Buffer; length: number } | undefined {
  const codings = valuesOf({ lines }, 'transfer-encoding')
  const lengths = valuesOf({ lines }, 'content-length')
  if (codings.length + lengths.length === 0) return { bytes: Buffer.alloc(0), length: 0 }
  if (codings.length + lengths.length > 1) return undefined
  if (codings.length === 1) return codings[0]!.toLowerCase() === 'chunked' ? readChunks(bytes) : undefined
  if (!/^\d{1,9}$/.test(lengths[0]!)) return undefined
  const length = Number(lengths[0])
  return length > bytes.length ? undefined : { bytes: bytes.subarray(0, length), length }
}

/** Without extensions and trailers, which nobody sends here. */
function readChunks(bytes: Buffer): { bytes: Buffer; length: number } | undefined {
  const chunks: Buffer[] = []
  for (let at = 0; ;) {
    const size = /^([0-9a-f]{1,6})\r\n/i.exec(bytes.toString('latin1', at, at + 8))
    if (size === null) return undefined
    const from = at + size[0].length
    const to = from + Number.parseInt(size[1]!, 16)
    if (bytes.toString('latin1', to, to + 2) !== '\r\n') return undefined
    if (from === to) return { bytes: Buffer.concat(chunks), length: to + 2 }
    chunks.push(bytes.subarray(from, to))
    at = to + 2
  }
}
