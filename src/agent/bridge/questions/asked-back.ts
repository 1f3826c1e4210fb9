/**
 * Owns what a tool may ask of the client before it answers: a form or a page for the person, a question to
 * its model, or its roots, in escaped words, marked as asked by the tool's server. Contract: "Agreement
 * (claim_token, beat 3)" (what strangers write is shown, never obeyed): a server cannot speak for usher or
 * for the owner.
 */
import { isJsonObject, type Json, type JsonObject } from '../../../wire/json.ts'
import { present } from '../../../wire/json-members.ts'
import { AgentError, fail } from '../../agent-error.ts'
import { asTheServers, refuseQuestion, type AskingServer } from './asker.ts'
import { sendable } from './answer-field.ts'
import { isMarkedNumber } from '../answers/as-written.ts'
import { foreignLine, foreignText, isPlain } from '../answers/foreign-text.ts'
import { plainSampling } from './model-question.ts'
import { QUESTIONS_OF_CALL_MAX } from '../bounds.ts'
import { RPC_CODE } from '../protocol.ts'

/**
 * The tool's answer: unchanged; or, if it asks back, with its questions escaped and with the name of the
 * asking server. Fails with `unexpected_answer` if it asks something else, or in values that cannot be shown
 * as they are.
 */
export function withPlainQuestions(result: Json, asker: AskingServer): Json {
  if (!isJsonObject(result) || result['resultType'] !== 'input_required') return result
  const { resultType, inputRequests, requestState } = present(result)
  const state = requestState === undefined ? {} : { requestState }
  if (inputRequests === undefined) return { resultType: resultType!, ...state }
  if (!isJsonObject(inputRequests)) return refuseQuestion()
  const questions = Object.entries(inputRequests)
  if (questions.length > QUESTIONS_OF_CALL_MAX) return refuseQuestion()
  const plain = questions.map(([key, one]): [string, Json] => [plainValue(key), plainQuestion(one, asker)])
  return { resultType: resultType!, inputRequests: Object.fromEntries(plain), ...state }
}

/**
 * The parameters of one `elicitation/create` as they may be shown. Fails with `unexpected_answer` if they
 * cannot be.
 */
export function plainElicitation(params: Json, asker: AskingServer): JsonObject {
  return isJsonObject(params) ? formOrPage(params, asker) : refuseQuestion()
}

/**
 * The `data` of an error of a tool: as it came, except for pages that a person is asked to visit, which are
 * escaped, with the name of the asking server. Undefined if one of them may not be shown.
 */
export function withPlainPages(code: number, data: Json | undefined, asker: AskingServer): Json | undefined {
  if (code !== RPC_CODE.pageRequired) return data
  const { elicitations } = isJsonObject(data) ? data : {}
  if (!Array.isArray(elicitations) || elicitations.length > QUESTIONS_OF_CALL_MAX) return undefined
  try {
    return { elicitations: elicitations.map(one => plainElicitation(one, asker)) }
  } catch (error) {
    if (error instanceof AgentError) return undefined
    throw error
  }
}

/**
 * One question of a server as it may be passed on: a form or a page for a person, a question to the model, or
 * the one for the client's roots. Fails with `unexpected_answer` for any other.
 */
export function plainQuestion(
  question: Json,
  asker: AskingServer,
): { method: QuestionMethod; params: JsonObject } {
  const { method, params = null } = isJsonObject(question) ? question : {}
  switch (method) {
    case 'elicitation/create':
      return { method, params: plainElicitation(params, asker) }
    case 'sampling/createMessage':
      return { method, params: plainSampling(params, asker) }
    case 'roots/list':
      return { method, params: {} }
    default:
      return refuseQuestion()
  }
}

/** What a server may ask of a client that declares the capability. */
export type QuestionMethod = 'elicitation/create' | 'sampling/createMessage' | 'roots/list'

/** The parameters of one `elicitation/create`; only known members are passed on. */
function formOrPage(params: JsonObject, asker: AskingServer): JsonObject {
  const { mode, message, elicitationId, url, requestedSchema } = present(params)
  if (typeof message !== 'string') return refuseQuestion()
  if (mode === 'url') {
    const page = pageIn(url)
    return {
      mode,
      message: asTheServers(asker, `${foreignText(message)}\nThe page is at ${foreignLine(page.origin)}.`),
      url: page.href,
      ...(elicitationId === undefined ? {} : { elicitationId: plainValue(elicitationId) }),
    }
  }
  if (mode !== undefined && mode !== 'form') return refuseQuestion()
  return {
    ...(mode === undefined ? {} : { mode }),
    message: asTheServers(asker, foreignText(message)),
    requestedSchema: formIn(requestedSchema),
  }
}

/** A web page, but none whose address contains another address in front. */
function pageIn(url: Json | undefined): URL {
  const page = typeof url === 'string' && url.length <= URL_LENGTH_MAX ? URL.parse(url) : null
  if (page === null || !/^https?:$/.test(page.protocol)) return refuseQuestion()
  if (page.username !== '' || page.password !== '') return refuseQuestion()
  return page
}

const URL_LENGTH_MAX = 2048
const FORM_LENGTH_MAX = 65_536
/** The field types of a form (MCP, elicitation), and which of their parts are neither text nor values. */
const FIELD_TYPES: ReadonlySet<Json | undefined> = new Set([
  'string',
  'number',
  'integer',
  'boolean',
  'array',
])
const BOUNDS = ['minLength', 'maxLength', 'minimum', 'maximum', 'minItems', 'maxItems'] as const

function formIn(schema: Json | undefined): JsonObject {
  if (!isJsonObject(schema) || JSON.stringify(schema).length > FORM_LENGTH_MAX) return refuseQuestion()
  const { type = 'object', properties = {}, required = [], ...about } = present(schema)
  if (type !== 'object' || !isJsonObject(properties)) return refuseQuestion()
  // Nobody can fill in a required name that has no field, so a client that insists on it could send nothing.
  const needed = listOf(required, plainValue).filter(name => Object.hasOwn(properties, name))
  const fields = Object.entries(properties).flatMap(([name, field]): [string, Json][] => {
    const plain = fieldIn(field)
    if (isFillable(plain)) return [[plainValue(name), plain]]
    if (!needed.includes(name)) return []
    return fail(
      'unexpected_answer',
      `The tool asks by a form that nobody could send: "${plainValue(name)}" is required, and no value fits it.`,
    )
  })
  const requires = schema['required'] === undefined || schema['required'] === null ? {} : { required: needed }
  return sendable({ type, ...words(about), properties: Object.fromEntries(fields), ...requires })
}

/** Whether any value fits a field: one of its choices, within its bounds. */
function isFillable(field: JsonObject): boolean {
  const { items } = field
  const of = isJsonObject(items) ? items : field
  const lists = [of['enum'], of['oneOf'], of['anyOf']].filter(list => Array.isArray(list))
  const choicesMax = Math.min(Infinity, ...lists.map(list => list.length))
  const bound = (name: (typeof BOUNDS)[number], otherwise: number): number => {
    const value = field[name]
    return typeof value === 'number' ? value : otherwise
  }
  if (bound('minimum', -Infinity) > bound('maximum', Infinity)) return false
  if (bound('minLength', 0) > bound('maxLength', Infinity)) return false
  if (field['type'] !== 'array') return choicesMax > 0
  return bound('minItems', 0) <= Math.min(choicesMax, bound('maxItems', Infinity))
}

/**
 * A field: its text is escaped; the values that it is compared or filled with are passed unchanged, or not at
 * all.
 */
function fieldIn(schema: Json): JsonObject {
  const field = isJsonObject(schema) ? present(schema) : refuseQuestion()
  if (!FIELD_TYPES.has(field['type'])) return refuseQuestion()
  const { type, format, items, default: preset } = field
  const bounds = BOUNDS.filter(name => typeof field[name] === 'number').map(name => [name, field[name]!])
  return {
    ...(type === undefined ? {} : { type }),
    ...words(field),
    ...(format === undefined ? {} : { format: plainValue(format) }),
    ...(Object.fromEntries(bounds) as JsonObject),
    ...choices(field),
    ...(items === undefined ? {} : { items: itemsIn(items) }),
    // One that a person would see as another is none.
    ...(preset === undefined || isMarkedNumber(preset) ? {} : { default: presetIn(preset) }),
  }
}

function itemsIn(items: Json): JsonObject {
  const schema = isJsonObject(items) ? present(items) : refuseQuestion()
  const { type } = schema
  return { ...(type === undefined ? {} : { type: plainValue(type) }), ...choices(schema) }
}

/** The choices of a field, in each form that MCP allows. */
function choices(of: JsonObject): JsonObject {
  const titled = (one: Json): JsonObject =>
    isJsonObject(one) && one['const'] !== undefined
      ? { const: plainValue(one['const']), ...words(present(one)) }
      : refuseQuestion()
  return {
    ...(of['enum'] === undefined ? {} : { enum: listOf(of['enum'], plainValue) }),
    ...(of['enumNames'] === undefined ? {} : { enumNames: listOf(of['enumNames'], lineIn) }),
    ...(of['oneOf'] === undefined ? {} : { oneOf: listOf(of['oneOf'], titled) }),
    ...(of['anyOf'] === undefined ? {} : { anyOf: listOf(of['anyOf'], titled) }),
  }
}

function words({ title, description }: JsonObject): JsonObject {
  return {
    ...(title === undefined ? {} : { title: lineIn(title) }),
    ...(typeof description === 'string' ? { description: foreignText(description) } : {}),
  }
}

function lineIn(word: Json): string {
  return typeof word === 'string' ? foreignLine(word) : refuseQuestion()
}

function presetIn(preset: Json): Json {
  if (typeof preset === 'number' || typeof preset === 'boolean') return preset
  return Array.isArray(preset) ? preset.map(plainValue) : plainValue(preset)
}

function listOf<T extends Json>(list: Json, of: (one: Json) => T): T[] {
  return Array.isArray(list) ? list.map(of) : refuseQuestion()
}

/** Text that comes back as it is shown, so it must be what it looks like. */
function plainValue(value: Json): string {
  return typeof value === 'string' && !isMarkedNumber(value) && isPlain(value) ? value : refuseQuestion()
}
