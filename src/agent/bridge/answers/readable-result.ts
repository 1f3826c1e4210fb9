/**
 * Owns the result of a call that a client would throw away whole: what it can take is handed on as it is, and
 * each part that it cannot take becomes words that say what came, escaped. Contract: "Errors" and "Single-use
 * grant": a call that was answered was made, and is never told as one whose outcome is unknown.
 */
import { isJsonObject, type Json, type JsonObject } from '../../../wire/json.ts'
import { present } from '../../../wire/json-members.ts'
import { asWritten, rounded } from './as-written.ts'
import { foreignWhole } from './foreign-text.ts'

/** Whether clients take a part of a result's content. */
export type IsContent = (part: Json) => boolean

/** What a part may lack and still say the same. */
const DECORATIONS = ['annotations', '_meta', 'icons'] as const
/** Members that say how a part is to be shown; clients take a double there, and nothing else. */
const OF_DOUBLES: ReadonlySet<string> = new Set(['annotations', 'size'])
const KNOWN: ReadonlySet<string> = new Set(['content', 'structuredContent', 'isError', '_meta', 'resultType'])

/** The result in a form that clients take; the same object if they take it as it is. */
export function readableResult(result: Json, isContent: IsContent): JsonObject {
  if (!isJsonObject(result)) return unreadableResult(result)
  const { content, isError, structuredContent, _meta, ...rest } = present(result)
  const notes: JsonObject[] = []
  if (isError !== undefined && typeof isError !== 'boolean') notes.push(words('isError', isError))
  if (_meta !== undefined && !isJsonObject(_meta)) notes.push(words('_meta', _meta))
  if (content === undefined && structuredContent === undefined) {
    const unknown = Object.entries(rest).filter(([name]) => !KNOWN.has(name))
    if (unknown.length > 0) notes.push(words('a result without content', Object.fromEntries(unknown)))
  }
  const parts = content === undefined ? [] : Array.isArray(content) ? content : [content]
  return {
    ...rest,
    content: [...parts.map(part => readablePart(part, isContent)), ...notes],
    ...(structuredContent === undefined ? {} : { structuredContent }),
    ...(typeof isError === 'boolean' ? { isError } : notes.length > 0 ? { isError: true } : {}),
    ...(isJsonObject(_meta) ? { _meta } : {}),
  }
}

/** The words for a result of which nothing can be handed on as it is. */
export function unreadableResult(result: Json): JsonObject {
  return { content: [words('what is no result of a tool', result)], isError: true }
}

function readablePart(part: Json, isContent: IsContent): Json {
  if (!isJsonObject(part)) return words('a part', part)
  const nested = Object.entries(present(part)).map(([name, value]): [string, Json] => {
    const member = isJsonObject(value) && name !== '_meta' ? present(value) : value
    return [name, OF_DOUBLES.has(name) ? rounded(member) : member]
  })
  const plain: JsonObject = Object.fromEntries(nested)
  if (isContent(plain)) return plain
  const bare = Object.fromEntries(
    Object.entries(plain).filter(([name]) => !(DECORATIONS as readonly string[]).includes(name)),
  )
  if (isContent(bare)) return bare
  const { type } = plain
  return words(typeof type === 'string' ? `a part of type "${type}"` : 'a part', part)
}

/** The answer is put between quotation marks, which it must not close. */
function words(what: string, original: Json): JsonObject {
  const quoted = foreignWhole(JSON.stringify(asWritten(original)).replaceAll('"', "'"))
  const text =
    `The call was made, and the tool answered; in its answer is ${foreignWhole(what)} that this client ` +
    `cannot be shown as it is. It came as: "${quoted}"`
  return { type: 'text', text }
}
