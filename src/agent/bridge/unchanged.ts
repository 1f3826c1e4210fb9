/**
 * Owns what a client's message would lose on its way through the SDK, which is found out while it is still
 * text: a number that no double carries, and a member that no parser keeps. Contract: "Agreement
 * (claim_token, beat 3)": what the owner approves is what was sent.
 */
import { isUtf8 } from 'node:buffer'
import { Transform } from 'node:stream'
import {
  inexactNumberIn,
  inexactSentence,
  isJsonObject,
  parseJson,
  type Json,
  type JsonObject,
} from '../../wire/json.ts'
import { Refusal } from '../../wire/refusal.ts'

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
 * The text of a message, as the SDK may read it. A call in it that would not arrive as it was written has no
 * arguments, but a mark; an answer of the client's that would not is an error that says so; `params` that are
 * null are absent.
 */
export function marked(source: string | Buffer): string {
  const text = source.toString('utf8')
  let message: Json
  try {
    message = JSON.parse(text) as Json
  } catch {
    return text
  }
  let isChanged = false
  for (const one of Array.isArray(message) ? message : [message]) {
    if (!isJsonObject(one)) continue
    if (one['params'] === null) {
      delete one['params']
      isChanged = true
    }
    if (isToolCall(one)) {
      const { arguments: args = {}, inputResponses = {}, ...params } = one.params
      const why = whyOtherwise(source, text, [args, inputResponses])
      if (why === undefined) continue
      const meta = isJsonObject(params['_meta']) ? params['_meta'] : {}
      one['params'] = { ...params, arguments: {}, _meta: { ...meta, [MARK]: why } }
      isChanged = true
    } else if (isAnswer(one)) {
      const why = whyOtherwise(source, text, [one.result])
      if (why === undefined) continue
      one['error'] = { code: INVALID_PARAMS, message: why }
      delete (one as JsonObject)['result']
      isChanged = true
    }
  }
  return isChanged ? JSON.stringify(message) : text
}

const INVALID_PARAMS = -32_602

/** Why what a message says would arrive otherwise than it was written; undefined if it does not. */
function whyOtherwise(source: string | Buffer, text: string, parts: Json[]): string | undefined {
  if (typeof source !== 'string' && !isUtf8(source)) return 'Send JSON in UTF-8.'
  const number = inexactNumberIn(text)
  if (number !== undefined) return inexactSentence(number)
  if (parts.some(hasProto)) return MEMBER_SENTENCE
  try {
    parseJson(text)
  } catch (error) {
    // How deep it may be is judged where it is called.
    if (error instanceof Refusal && /once|surrogate/.test(error.detail ?? '')) return error.detail
  }
  return undefined
}

function isToolCall(message: JsonObject): message is JsonObject & { params: JsonObject } {
  return message['method'] === 'tools/call' && isJsonObject(message['params'])
}

/** What the client answers a question. */
function isAnswer(message: JsonObject): message is JsonObject & { result: JsonObject } {
  return message['method'] === undefined && isJsonObject(message['result'])
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
        this.push(isTooLong ? line : marked(line))
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
