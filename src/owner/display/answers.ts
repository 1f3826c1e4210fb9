/**
 * Owns answers of the owner API that are shown as they came: an authority of another version may send more,
 * or less. Contract: "Owner API".
 */
import { ApiError } from '../../client/api-error.ts'
import type { ApiRequest } from '../../client/signed-fetch.ts'
import { printable } from '../../terminal/printable.ts'
import { isJsonObject, type Json, type JsonObject } from '../../wire/json.ts'
import type { OwnerSession } from '../session.ts'

/** Sends a request, and returns the object in the answer. Fails with `ApiError`, also if there is none. */
export async function ask(session: OwnerSession, request: ApiRequest): Promise<JsonObject> {
  const answer = await session.client.ask(request)
  if (isJsonObject(answer)) return answer
  throw new ApiError('server_error', 'The authority gave no usable answer.')
}

/** A list of printable texts; empty for anything but a list. */
export function texts(value: Json | undefined): string[] {
  return Array.isArray(value) ? value.map(shown) : []
}

/** The objects in a list; empty for anything but a list. */
export function objects(value: Json | undefined): JsonObject[] {
  return Array.isArray(value) ? value.filter(isJsonObject) : []
}

/** A value as printable text. */
export function shown(value: Json | undefined): string {
  return printable(typeof value === 'string' ? value : JSON.stringify(value ?? null))
}
