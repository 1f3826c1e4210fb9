/**
 * Owns what a tool's server may ask of the client's model (`sampling/createMessage`): text, images and sound,
 * under a line that says whose words they are. Contract: "Agreement (claim_token, beat 3)" (what strangers
 * write is shown, never obeyed): a model that is asked gets neither tools nor what other servers said.
 */
import { isJsonObject, type Json, type JsonObject } from '../../../wire/json.ts'
import { present } from '../../../wire/json-members.ts'
import { asTheServers, refuseQuestion, type AskingServer } from './asker.ts'
import { foreignText } from '../answers/foreign-text.ts'

const MESSAGES_MAX = 64
const SAMPLING_LENGTH_MAX = 4 * 1_048_576
const NUMBERS = ['maxTokens', 'temperature'] as const
const PRIORITIES = ['costPriority', 'speedPriority', 'intelligencePriority'] as const

/** The parameters as they may be passed on. Fails with `unexpected_answer` if they may not be. */
export function plainSampling(params: Json, asker: AskingServer): JsonObject {
  if (!isJsonObject(params) || JSON.stringify(params).length > SAMPLING_LENGTH_MAX) return refuseQuestion()
  const {
    messages,
    systemPrompt = '',
    modelPreferences,
    stopSequences,
    tools,
    toolChoice,
    ...rest
  } = present(params)
  if (tools !== undefined || toolChoice !== undefined || typeof systemPrompt !== 'string')
    return refuseQuestion()
  if (!Array.isArray(messages) || messages.length > MESSAGES_MAX) return refuseQuestion()
  const numbers = NUMBERS.filter(name => typeof rest[name] === 'number').map(name => [name, rest[name]!])
  const stops = Array.isArray(stopSequences) && stopSequences.every(one => typeof one === 'string')
  return {
    messages: messages.map(messageIn),
    systemPrompt: asTheServers(asker, escaped(systemPrompt)),
    ...(Object.fromEntries(numbers) as JsonObject),
    ...(stops ? { stopSequences } : {}),
    ...(isJsonObject(modelPreferences) ? { modelPreferences: preferencesIn(modelPreferences) } : {}),
  }
}

function messageIn(message: Json): JsonObject {
  if (!isJsonObject(message)) return refuseQuestion()
  const { role, content } = message
  if (role !== 'user' && role !== 'assistant') return refuseQuestion()
  return { role, content: Array.isArray(content) ? content.map(partIn) : partIn(content ?? null) }
}

function partIn(part: Json): JsonObject {
  if (!isJsonObject(part)) return refuseQuestion()
  const { type, text, data, mimeType } = part
  if (type === 'text' && typeof text === 'string') return { type, text: escaped(text) }
  const isMedia = (type === 'image' || type === 'audio') && typeof data === 'string'
  return isMedia && typeof mimeType === 'string' ? { type, data, mimeType } : refuseQuestion()
}

function preferencesIn(preferences: JsonObject): JsonObject {
  const { hints } = preferences
  const numbers = PRIORITIES.filter(name => typeof preferences[name] === 'number')
  const names = Array.isArray(hints) ? hints.filter(isJsonObject).map(({ name }) => name) : []
  return {
    ...Object.fromEntries(numbers.map(name => [name, preferences[name]!])),
    ...(names.length === 0
      ? {}
      : { hints: names.filter(name => typeof name === 'string').map(name => ({ name: escaped(name) })) }),
  }
}

/** Never cut: a question that is cut is another one. */
function escaped(text: string): string {
  return foreignText(text, Infinity)
}
