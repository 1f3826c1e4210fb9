/**
 * Owns answers that come compressed although nobody asked for it: what an object store keeps so, a cache or a
 * content network hands to everybody. Contract: "Registry materialization" and "Operator documents": a
 * document is what it says, however it was packed on its way.
 */
import { brotliDecompressSync, gunzipSync, inflateSync, type ZlibOptions } from 'node:zlib'
import { OutboundFault } from './outbound-fault.ts'

type Decode = (body: Buffer, options: Pick<ZlibOptions, 'maxOutputLength'>) => Buffer

const DECODE: ReadonlyMap<string, Decode> = new Map<string, Decode>([
  ['gzip', gunzipSync],
  ['x-gzip', gunzipSync],
  ['deflate', inflateSync],
  ['br', brotliDecompressSync],
])

/**
 * The body without its one content-coding, at most `bytesMax` bytes of it; or the fault: it is longer, it is
 * spoilt, or its coding is another.
 */
export function decodedBody(
  body: Buffer,
  coding: string | string[] | undefined,
  bytesMax: number,
): Buffer | OutboundFault {
  const name = [coding ?? []].flat().join().trim().toLowerCase()
  if (name === '' || name === 'identity' || body.length === 0) return body
  const decode = DECODE.get(name)
  const broken = (why: string, cause?: unknown): OutboundFault =>
    new OutboundFault('broken', `the answer ${why}`, { sent: true, cause })
  if (decode === undefined) return broken(`has the content-encoding ${JSON.stringify(name.slice(0, 40))}`)
  try {
    return decode(body, { maxOutputLength: bytesMax })
  } catch (cause) {
    if ((cause as NodeJS.ErrnoException).code === 'ERR_BUFFER_TOO_LARGE')
      return new OutboundFault('too_large', `the answer is over ${bytesMax} bytes`, { sent: true, cause })
    return broken(`is not in its content-encoding, ${name}`, cause)
  }
}
