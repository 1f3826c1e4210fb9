/**
 * Owns what a client's message would lose on its way through the SDK, which is found out while it is still
 * text: a number that no double carries, and a member that no parser keeps. Contract: "Agreement
 * (claim_token, beat 3)": what the owner approves is what was sent.
 */
import { isUtf8 } from 'node:buffer'
import { Transform } from 'node:stream'
import { inexactSentence, isJsonObject, parseJson, type Json, type JsonObject } from '../../../wire/json.ts'
import { Refusal } from '../../../wire/refusal.ts'
import { asWritten, isMarkedNumber, keepIds, nameAsWritten, parseMarked } from './as-written.ts'
import { RPC_CODE } from '../protocol.ts'
import { LINE_FEED } from './depth.ts'

/** In the `_meta` of a request that would not arrive as it was written: why, in a sentence. */
const CHANGED_META = 'usher/changed'
const MEMBER_SENTENCE =
  'Give no argument the name __proto__: programs on the way would drop it, and another call would be made.'

/** Why the request would not arrive as it was written; undefined if it does. */
export function whyChanged(meta: unknown): string | undefined {
  const why = isJsonObject(meta) ? meta[CHANGED_META] : undefined
  return typeof why === 'string' ? why : undefined
}

/**
 * The text of a message, as the SDK may read it. A request in it whose words for a tool would not arrive as
 * they were written has none of them, but a mark; an answer of the client's that would not is an error that
 * says so; `params` that are null are absent; and an id that no double carries is marked (`as-written.ts`),
 * so that its answer has it as it was written.
 */
export function marked(source: string | Buffer): string {
  const text = source.toString('utf8')
  try {
    const { plain, exact } = parseMarked(text)
    const exactly = listOf(exact)
    const isChanged = listOf(plain)
      .map((one, at) => isJsonObject(one) && markOne(one, exactly[at] as JsonObject, { source, text }))
      .includes(true)
    return isChanged ? JSON.stringify(plain) : text
  } catch (error) {
    // No JSON, or nested so deep that nobody follows it, which is judged where it is called.
    if (error instanceof SyntaxError || error instanceof RangeError) return text
    throw error
  }
}

function listOf(message: Json): Json[] {
  return Array.isArray(message) ? message : [message]
}

/** Marks one message; false if it may stay as it is. */
function markOne(one: JsonObject, exact: JsonObject, written: WrittenMessage): boolean {
  let isChanged = keepIds(one, exact)
  if (one['params'] === null) {
    delete one['params']
    isChanged = true
  }
  const { params, result } = one
  if (one['method'] === undefined && isJsonObject(result)) {
    const why = whyOtherwise(written, [exact['result']!])
    if (why === undefined) return isChanged
    one['error'] = { code: RPC_CODE.invalidParams, message: why }
    delete one['result']
    return true
  }
  if (!isJsonObject(params) || !isJsonObject(exact['params'])) return isChanged
  const passed = PASSED_ON.filter(name => params[name] !== undefined)
  if (passed.length === 0 && one['method'] !== 'tools/call') return isChanged
  const parts = passed.map(name => (exact['params'] as JsonObject)[name]!)
  const why = whyOtherwise(written, parts)
  if (why === undefined) return isChanged
  const meta = isJsonObject(params['_meta']) ? params['_meta'] : {}
  const emptied = Object.fromEntries(passed.map(name => [name, {}]))
  one['params'] = { ...params, ...emptied, _meta: { ...meta, [CHANGED_META]: why } }
  return true
}

/** The members of a request's params that are passed on to a tool, in whatever request they come. */
const PASSED_ON = ['arguments', 'inputResponses'] as const

interface WrittenMessage {
  source: string | Buffer
  text: string
}

/** Why what a message says would arrive otherwise than it was written; undefined if it does not. */
function whyOtherwise({ source, text }: WrittenMessage, parts: Json[]): string | undefined {
  if (typeof source !== 'string' && !isUtf8(source)) return 'Send JSON in UTF-8.'
  const number = firstIn(parts, isMarkedNumber)
  if (number !== undefined) return inexactSentence(JSON.stringify(asWritten(number)))
  if (parts.some(hasProto)) return MEMBER_SENTENCE
  try {
    parseJson(text)
  } catch (error) {
    // How deep it may be is judged where it is called.
    if (error instanceof Refusal && /once|surrogate/.test(error.detail ?? '')) return error.detail
  }
  return undefined
}

/** The first value of that kind in a document. */
function firstIn(json: Json, isOfKind: (one: Json) => boolean): Json | undefined {
  if (typeof json !== 'object' || json === null) return isOfKind(json) ? json : undefined
  for (const one of Object.values(json)) {
    const found = firstIn(one, isOfKind)
    if (found !== undefined) return found
  }
  return undefined
}

function hasProto(marked: Json): boolean {
  if (Array.isArray(marked)) return marked.some(hasProto)
  if (!isJsonObject(marked)) return false
  return Object.entries(marked).some(
    ([name, value]) => nameAsWritten(name) === '__proto__' || hasProto(value),
  )
}

/** A longer line is passed on as it comes: the SDK takes none, and says so. */
const LINE_BYTES_MAX = 16 * 1024 * 1024

/**
 * A stream of messages, one on each line, each marked. Its end is passed on after `beforeEnd`, so that what
 * is being answered then is still answered.
 */
export function markingLines(beforeEnd?: () => Promise<unknown>): Transform {
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
      const end = (): void => done(null, Buffer.concat(pieces))
      if (beforeEnd === undefined) return end()
      void beforeEnd().finally(() => setImmediate(end))
    },
  })
}
