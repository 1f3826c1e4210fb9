/**
 * Owns what many servers mean by null: that the member is not there. Contract: "Errors": an answer that came
 * is never told as none, and clients refuse a whole answer for a null in an optional place.
 */
import type { JsonObject } from '../../wire/json.ts'

/** The members of an object that are there. */
export function present(json: JsonObject): JsonObject {
  return Object.fromEntries(Object.entries(json).filter(([, value]) => value !== null))
}
