/**
 * Owns files that a person gives to a command: JSON, from a file or from standard input. Contract: "Owner
 * API": a tier or a charter is sent as JSON.
 */
import { readFile } from 'node:fs/promises'
import { text } from 'node:stream/consumers'
import { UsageError } from '../terminal/command.ts'
import { isJsonObject, parseJson, type Json, type JsonObject } from '../wire/json.ts'

/**
 * The JSON object in `file`; `-` reads standard input. `what` names it in a refusal, such as `a tier`. Throws
 * `UsageError`.
 */
export async function readJsonObject(file: string, what: string): Promise<JsonObject> {
  let json: Json
  try {
    json = parseJson(file === '-' ? await text(process.stdin) : await readFile(file))
  } catch (error) {
    throw new UsageError(`Give ${what} as JSON: ${file} cannot be read (${(error as Error).message}).`)
  }
  if (!isJsonObject(json))
    throw new UsageError(`Give ${what} as a JSON object: ${file} holds something else.`)
  return json
}
