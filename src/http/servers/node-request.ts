/**
 * Owns a request of Node's own server whose body is read before its handler runs: the bytes are read once,
 * within limits, and the same bytes are passed on. Contract: "Authentication" ("A truncated body fails
 * closed"). It knows no party and decides nothing.
 */
import { IncomingMessage } from 'node:http'
import type { Readable } from 'node:stream'

/**
 * Why there are no bytes. `taken`: other code has read from the stream, or decodes it. `too_large`. `gone`:
 * the sender disconnected before the end.
 */
export type UnreadBody = 'taken' | 'too_large' | 'gone'

/** The whole body, empty if there is none. Reads at most `bytesMax` and one chunk; never rejects. */
export async function readWholeBody(stream: Readable, bytesMax: number): Promise<Buffer | UnreadBody> {
  if (stream.readableDidRead || stream.readableEnded || stream.readableEncoding !== null) return 'taken'
  if (stream.destroyed) return 'gone'
  return new Promise(resolve => {
    const chunks: Buffer[] = []
    let length = 0
    const end = (outcome: Buffer | UnreadBody): void => {
      stream.off('data', onData).off('end', onEnd).off('error', onAbort).off('close', onAbort)
      // A stream that fails after this must not end the process.
      stream.on('error', () => undefined)
      resolve(outcome)
    }
    const onData = (chunk: Buffer): void => {
      length += chunk.length
      if (length <= bytesMax) chunks.push(chunk)
      else end('too_large')
    }
    const onEnd = (): void => end(Buffer.concat(chunks, length))
    const onAbort = (): void => end('gone')
    stream.on('data', onData).on('end', onEnd).on('error', onAbort).on('close', onAbort)
  })
}

/** Header fields to set and to remove, by lower-case name. */
export interface FieldChanges {
  set: readonly (readonly [name: string, value: string])[]
  remove: readonly string[]
}

/**
 * The request as its handler is to see it: the same but for the changed fields, without trailers, and with a
 * body of exactly these bytes, to be read from the start.
 */
export function replayRequest(
  request: IncomingMessage,
  body: Buffer,
  changes: FieldChanges,
): IncomingMessage {
  const replay = new ReplayedRequest(request.socket)
  const { httpVersion, httpVersionMajor, httpVersionMinor, method, url, rawHeaders } = request
  Object.assign(replay, { httpVersion, httpVersionMajor, httpVersionMinor, method, url, rawHeaders })
  replay.headers = { ...request.headers }
  replay.headersDistinct = { ...request.headersDistinct }
  changeFields(replay, changes)
  replay.complete = true
  if (body.length > 0) replay.push(body)
  replay.push(null)
  return replay
}

/**
 * Changes the fields of the request itself, in every view that Node has of them. All trailers are removed.
 */
export function changeFields(request: IncomingMessage, { set, remove }: FieldChanges): void {
  const { headers } = request
  // A request that never was on a wire (Fastify's `inject`) has no such view.
  const distinct = request.headersDistinct as IncomingMessage['headersDistinct'] | undefined
  const off = new Set([...remove, ...set.map(([name]) => name)])
  for (const name of off) {
    delete headers[name]
    if (distinct) delete distinct[name]
  }
  for (const [name, value] of set) {
    headers[name] = value
    if (distinct) distinct[name] = [value]
  }
  request.rawHeaders = [...linesWithout(request.rawHeaders, off), ...set.flat()]
  request.rawTrailers = []
  request.trailers = {}
  request.trailersDistinct = {}
}

/** Reading it touches no socket: all its bytes are there. */
class ReplayedRequest extends IncomingMessage {
  override _read(): void {
    // Everything was pushed when it was made.
  }
}

function linesWithout(lines: readonly string[], off: ReadonlySet<string>): string[] {
  const rest: string[] = []
  for (let i = 0; i + 1 < lines.length; i += 2) {
    if (!off.has(lines[i]!.toLowerCase())) rest.push(lines[i]!, lines[i + 1]!)
  }
  return rest
}
