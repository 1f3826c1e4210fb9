/**
 * Owns what a tool may ask of the client before it answers: a form or a page for the person, in escaped
 * words, and nothing else. Contract: "Agreement (claim_token, beat 3)" (what strangers write is shown, never
 * obeyed): nobody samples the client's model or reads its roots through the bridge.
 */
import { isJsonObject, type Json, type JsonObject } from '../../wire/json.ts'
import { fail } from '../agent-error.ts'
import { foreignText } from './foreign-text.ts'
import { namesArePlain, withPlainWords } from './tools.ts'

/**
 * The tool's answer: as it is, or where it asks back with its questions escaped. Fails with
 * `unexpected_answer` where it asks something else.
 */
export function withPlainQuestions(result: Json): Json {
  if (!isJsonObject(result) || result['resultType'] !== 'input_required') return result
  const { inputRequests } = result
  if (inputRequests === undefined) return result
  if (!isJsonObject(inputRequests)) return refuseQuestion()
  const plain = Object.entries(inputRequests).map(([key, asked]): [string, Json] => [key, question(asked)])
  return { ...result, inputRequests: Object.fromEntries(plain) }
}

function question(asked: Json): Json {
  if (!isJsonObject(asked) || asked['method'] !== 'elicitation/create') return refuseQuestion()
  const { params } = asked
  if (!isJsonObject(params) || typeof params['message'] !== 'string') return refuseQuestion()
  const message = foreignText(params['message'])
  return { method: 'elicitation/create', params: { ...params, message, ...answerable(params) } }
}

/** The page, or the form. */
function answerable({ mode, url, requestedSchema }: JsonObject): JsonObject {
  if (mode === 'url') {
    const page = typeof url === 'string' ? URL.parse(url) : null
    if (page === null || !/^https?:$/.test(page.protocol)) return refuseQuestion()
    return { url: page.href }
  }
  if (!isJsonObject(requestedSchema) || !namesArePlain(requestedSchema)) return refuseQuestion()
  if (JSON.stringify(requestedSchema).length > FORM_LENGTH_MAX) return refuseQuestion()
  return { requestedSchema: withPlainWords(requestedSchema) }
}

const FORM_LENGTH_MAX = 65_536

function refuseQuestion(): never {
  return fail(
    'unexpected_answer',
    'The tool asks for something that it may not ask: the bridge passes forms and pages for a person.',
  )
}
