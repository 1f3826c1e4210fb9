/**
 * Owns the one field of a form that asks for nothing but a yes: some clients cannot send a form without a
 * required field, and so could not accept anything. Contract: "Agreement (claim_token, beat 3)": nobody
 * agrees by a form that she could not send.
 */
import { isJsonObject, type Json, type JsonObject } from '../../../wire/json.ts'

/** Distinct from whatever a tool may call its own fields. */
const FIELD = 'usher_answer'

/** A form of one required field; its first choice is the yes. */
export const ANSWER_FORM = {
  type: 'object' as const,
  properties: {
    [FIELD]: { type: 'string' as const, title: 'Your answer', enum: ['accept', 'decline'] },
  },
  required: [FIELD],
}

/** The form of a tool, with that field if it has none of its own. */
export function sendable(form: JsonObject): JsonObject {
  const { properties } = form
  return isJsonObject(properties) && Object.keys(properties).length > 0 ? form : { ...form, ...ANSWER_FORM }
}

/** Whether the form asks for that field, and so for nothing of a tool's own. */
export function asksForAnswer(params: JsonObject): boolean {
  const form = params['requestedSchema']
  return isJsonObject(form) && isJsonObject(form['properties']) && Object.hasOwn(form['properties'], FIELD)
}

/**
 * A client's reply without the field, which no tool asked for. The choice in the field counts: an accepted
 * form that says no is a decline. If the field is left out, only the action counts.
 */
export function withoutAnswer(reply: Json): Json {
  if (!isJsonObject(reply) || !isJsonObject(reply['content'])) return reply
  const { [FIELD]: answer, ...content } = reply['content']
  if (answer === undefined) return reply
  if (reply['action'] !== 'accept' || answer === 'accept') return { ...reply, content }
  return { action: answer === 'decline' ? 'decline' : 'cancel' }
}
