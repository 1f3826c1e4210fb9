/**
 * Owns what a client's message would lose on its way through the SDK, which is found out while it is still
 * text: a number that no double carries, and a member that no parser keeps. Contract: "Agreement
 * (claim_token, beat 3)": what the owner approves is what was sent.
 */
import { Transform } from 'node:stream'
import {
  inexactNumberIn,
  inexactSentence,
  isJsonObject,
  type Json,
  type JsonObject,
} from '../../wire/json.ts'

/** In the `_meta` of a call that would not arrive as it was written: why, in a sentence. */
const MARK = 'usher/changed'
const MEMBER_SENTENCE =
  'Give no argument the name __proto__: programs on the way would drop it, and another call would be made.'

/** Why the call would not arrive as it was written; undefined if it does. */
export function whyChanged(meta: unknown): string | undefined {
  const why = isJsonObject(meta) ? meta[MARK] : undefined
  return typeof why === 'string' ? why : undefined
}

/**
 * The text of a message; a call in it that would not arrive as it was written has no arguments, but a mark.
 */
export function marked(text: string): string {
  let message: Json
  try {
    message = JSON.parse(text) as Json
  } catch {
    return text
  }
  const calls = (Array.isArray(message) ? message : [message]).filter(isToolCall)
  if (calls.length === 0) return text
  const number = inexactNumberIn(text)
  let isMarked = false
  for (const call of calls) {
    const { arguments: args = {}, inputResponses = {} } = call.params
    const why =
      number !== undefined
        ? inexactSentence(number)
        : hasProto(args) || hasProto(inputResponses)
          ? MEMBER_SENTENCE
          : undefined
    if (why === undefined) continue
    const meta = isJsonObject(call.params['_meta']) ? call.params['_meta'] : {}
    const { inputResponses: _answers, ...params } = call.params
    call.params = { ...params, arguments: {}, _meta: { ...meta, [MARK]: why } }
    isMarked = true
  }
  return isMarked ? JSON.stringify(message) : text
}

function isToolCall(message: Json): message is JsonObject & { params: JsonObject } {
  return isJsonObject(message) && message['method'] === 'tools/call' && isJsonObject(message['params'])
}

function hasProto(json: Json): boolean {
  if (Array.isArray(json)) return json.some(hasProto)
  if (!isJsonObject(json)) return false
  return Object.entries(json).some(([name, value]) => name === '__proto__' || hasProto(value))
}

/** A longer line is passed on as it comes: the SDK takes none, and says so. */
const LINE_BYTES_MAX = 16 * 1024 * 1024
const LINE_FEED = 0x0a

/** A stream of messages, one on each line, each marked. */
export function markingLines(): Transform {
  let pieces: Buffer[] = []
  let bytes = 0
  let isTooLong = false
  return new Transform({
    transform(chunk: Buffer, _encoding, done) {
      let at = 0
      for (let end = chunk.indexOf(LINE_FEED); end !== -1; end = chunk.indexOf(LINE_FEED, at)) {
        const line = Buffer.concat([...pieces, chunk.subarray(at, end)])
        this.push(isTooLong ? line : marked(line.toString('utf8')))
        this.push('\n')
        at = end + 1
        pieces = []
        bytes = 0
        isTooLong = false
      }
      const rest = chunk.subarray(at)
      bytes += rest.length
      isTooLong ||= bytes > LINE_BYTES_MAX
      if (rest.length > 0) pieces.push(rest)
      if (isTooLong) {
        this.push(Buffer.concat(pieces))
        pieces = []
      }
      done()
    },
    flush(done) {
      done(null, Buffer.concat(pieces))
    },
  })
}
