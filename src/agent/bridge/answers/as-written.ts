/**
 * Owns what a tool, or its result, would lose on its way from the resource to the client: a number that no
 * double carries, and a member that parsers and schemas drop. Between the two it travels as marked text,
 * which the SDK and the disk keep. Contract: "Errors": an answer that came is told as it came; "Single-use
 * grant".
 */
import {
  inexactNumberIn,
  isJsonObject,
  parseWithSource,
  rawJSON,
  type Json,
  type JsonObject,
} from '../../../wire/json.ts'

/** Before the text of a number, or before text (of a name, too) that is to be told from that. */
const WRITTEN_MARK = 'usher:as-written:'
const TEXT = `${WRITTEN_MARK}text:`
const NUMBER = /^-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?$/
/** Text without any of this needs no second reading; any name may be written with escapes. */
const MAY_BE_LOST = /__proto__|usher:|\\u/

/**
 * One document of JSON: as every parser reads it, and with numbers that no double carries, and members called
 * `__proto__`, marked; both are the same value if there are none. Throws SyntaxError for what is no JSON, and
 * RangeError for what is nested too deep to be marked.
 */
export function parseMarked(text: string): { plain: Json; exact: Json } {
  const plain = JSON.parse(text) as Json
  if (!MAY_BE_LOST.test(text) && inexactNumberIn(text) === undefined) return { plain, exact: plain }
  const exact = parseWithSource(text, (_name, value, { source }) => {
    if (typeof value === 'number')
      return source === undefined || inexactNumberIn(source) === undefined ? value : WRITTEN_MARK + source
    if (typeof value === 'string') return value.startsWith(WRITTEN_MARK) ? TEXT + value : value
    return renamed(value, name =>
      name === '__proto__' || name.startsWith(WRITTEN_MARK) ? TEXT + name : name,
    )
  })
  return { plain, exact }
}

/**
 * Takes the ids by which two sides know a request from the marked message: a request is answered, cancelled
 * and told of under the id that it was sent with. False if they stay as they are.
 */
export function keepIds(plain: JsonObject, exact: JsonObject): boolean {
  const ofMessage = keep(plain, exact, 'id')
  const [params, exactParams] = [plain['params'], exact['params']]
  if (!isJsonObject(params) || !isJsonObject(exactParams)) return ofMessage
  const [meta, exactMeta] = [params['_meta'], exactParams['_meta']]
  const ofParams = keep(params, exactParams, 'requestId')
  const ofMeta = isJsonObject(meta) && isJsonObject(exactMeta) && keep(meta, exactMeta, 'progressToken')
  return ofMessage || ofParams || ofMeta
}

function keep(plain: JsonObject, exact: JsonObject, name: string): boolean {
  const value = exact[name]
  if (plain[name] === value || typeof value !== 'string') return false
  plain[name] = value
  return true
}

/** The value as it was written, for `JSON.stringify`; the same value if nothing in it is marked. */
export function asWritten(marked: Json): Json {
  if (typeof marked === 'string') return wordAsWritten(marked)
  if (typeof marked !== 'object' || marked === null) return marked
  if (Array.isArray(marked)) {
    const written = marked.map(asWritten)
    return written.every((one, at) => one === marked[at]) ? marked : written
  }
  const members = Object.entries(marked).map(([name, value]): [string, Json] => [name, asWritten(value)])
  const isSame = members.every(([name, value]) => value === marked[name])
  return renamed(isSame ? marked : Object.fromEntries(members), nameAsWritten)
}

/** The value with its numbers as doubles: for members of which clients take nothing else. */
export function rounded(marked: Json): Json {
  if (typeof marked === 'string')
    return isMarkedNumber(marked) ? Number(marked.slice(WRITTEN_MARK.length)) : marked
  if (Array.isArray(marked)) return marked.map(rounded)
  if (!isJsonObject(marked)) return marked
  return Object.fromEntries(Object.entries(marked).map(([name, value]) => [name, rounded(value)]))
}

/**
 * A question as a form can show it: without numbers that no double carries, and without members that are
 * null, which mean nothing there, and for which the SDK refuses the whole question.
 */
export function asQuestion(marked: Json): Json {
  if (typeof marked === 'string') return nameAsWritten(marked)
  if (Array.isArray(marked)) return marked.filter(one => !isMarkedNumber(one)).map(asQuestion)
  if (!isJsonObject(marked)) return marked
  const members = Object.entries(marked).filter(([, value]) => value !== null && !isMarkedNumber(value))
  return Object.fromEntries(members.map(([name, value]) => [nameAsWritten(name), asQuestion(value)]))
}

/** Whether it represents a number that no double carries. */
export function isMarkedNumber(marked: Json | undefined): boolean {
  return (
    typeof marked === 'string' &&
    marked.startsWith(WRITTEN_MARK) &&
    NUMBER.test(marked.slice(WRITTEN_MARK.length))
  )
}

/** Whether it represents a number that is past every double. */
export function isPastDoubles(marked: Json): boolean {
  return isMarkedNumber(marked) && !Number.isFinite(rounded(marked))
}

/** Whether it is text, and represents no number. */
export function isText(marked: Json | undefined): marked is string {
  return typeof marked === 'string' && !isMarkedNumber(marked)
}

/** The name of a member as it was written. */
export function nameAsWritten(marked: string): string {
  return marked.startsWith(TEXT) ? marked.slice(TEXT.length) : marked
}

function wordAsWritten(marked: string): Json {
  return isMarkedNumber(marked) ? rawJSON(marked.slice(WRITTEN_MARK.length)) : nameAsWritten(marked)
}

function renamed(value: Json, rename: (name: string) => string): Json {
  if (!isJsonObject(value)) return value
  const names = Object.keys(value)
  if (names.every(name => rename(name) === name)) return value
  return Object.fromEntries(names.map((name): [string, Json] => [rename(name), value[name]!]))
}

/**
 * A message to the client: its id, its result and its token as they were written. The questions of a result
 * (of a call, or of a task) have been read as a form can show them, and have no marks: what looks like one in
 * them is a stranger's.
 */
export function messageAsWritten(message: JsonObject): JsonObject {
  const { id, result, params } = message
  const token = isJsonObject(params) ? params['progressToken'] : undefined
  return {
    ...message,
    ...(id === undefined ? {} : { id: asWritten(id) }),
    ...(result === undefined ? {} : { result: resultAsWritten(result) }),
    ...(token === undefined
      ? {}
      : { params: { ...(params as JsonObject), progressToken: asWritten(token) } }),
  }
}

function resultAsWritten(result: Json): Json {
  if (!isJsonObject(result) || result['inputRequests'] === undefined) return asWritten(result)
  const { inputRequests, ...rest } = result
  const isAsking = rest['resultType'] === 'input_required' || rest['status'] === 'input_required'
  return isAsking ? { ...(asWritten(rest) as JsonObject), inputRequests } : asWritten(result)
}

/** The text of an answer to a server, under the id that the server sent. */
export function idAsWritten(text: string): string {
  if (!text.includes(WRITTEN_MARK)) return text
  const message = JSON.parse(text) as Json
  if (!isJsonObject(message) || message['id'] === undefined) return text
  return JSON.stringify({ ...message, id: asWritten(message['id']) })
}

/** The text of a message to the client so; the same text if nothing in it is marked. */
function textAsWritten(text: string): string {
  if (!text.includes(WRITTEN_MARK)) return text
  const message = JSON.parse(text) as Json
  const written = Array.isArray(message) ? message.map(oneAsWritten) : oneAsWritten(message)
  return JSON.stringify(written)
}

function oneAsWritten(message: Json): Json {
  return isJsonObject(message) ? messageAsWritten(message) : message
}

const DATA_FIELD = 'data: '

/** A stream of events or a document, each message in it as it was written. */
export function writingLines(): TransformStream<Uint8Array, Uint8Array> {
  const decoder = new TextDecoder()
  const encoder = new TextEncoder()
  let rest = ''
  const written = (line: string): string =>
    line.startsWith(DATA_FIELD)
      ? DATA_FIELD + textAsWritten(line.slice(DATA_FIELD.length))
      : textAsWritten(line)
  return new TransformStream({
    transform: (chunk, controller) => {
      const lines = (rest + decoder.decode(chunk, { stream: true })).split('\n')
      rest = lines.pop()!
      if (lines.length > 0)
        controller.enqueue(encoder.encode(lines.map(line => `${written(line)}\n`).join('')))
    },
    flush: controller => {
      if (rest !== '') controller.enqueue(encoder.encode(written(rest)))
    },
  })
}
