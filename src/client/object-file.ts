/**
 * Owns files that a person gives to a command: YAML or JSON, from a file or from standard input. Contract:
 * "Owner API": a tier or a charter is sent as JSON, whatever form its file has.
 */
import { readFile } from 'node:fs/promises'
import { buffer } from 'node:stream/consumers'
import { UsageError } from '../terminal/command.ts'
import { printableLines } from '../terminal/printable.ts'
import { isJsonObject, parseJson, type Json, type JsonObject } from '../wire/json.ts'
import { NOT_UTF8, utf8Text } from '../wire/utf8-text.ts'

/**
 * The object in `file`; `-` reads standard input. `what` names it in a refusal, for example `a tier`. Text
 * that begins with `{` is read as JSON, anything else as YAML 1.2. Throws `UsageError`.
 */
export async function readObjectFile(file: string, what: string): Promise<JsonObject> {
  let json: Json
  try {
    const source = utf8Text(file === '-' ? await buffer(process.stdin) : await readFile(file))
    if (source === undefined) throw new Error(`it ${NOT_UTF8}`)
    json = source.trimStart().startsWith('{') ? parseJson(source) : await parseYaml(source)
  } catch (error) {
    const why = (error as Error).message.trimEnd()
    throw new UsageError(`Give ${what} as YAML or JSON: ${file} cannot be read (${why}).`)
  }
  if (!isJsonObject(json))
    throw new UsageError(
      `Give ${what} as members with values, in YAML or JSON: ${file} holds something else.`,
    )
  return json
}

/**
 * The value as JSON can express it: what only YAML can say (dates, infinities) is refused, or becomes text.
 */
async function parseYaml(source: string): Promise<Json> {
  const { parse } = await import('yaml')
  return parseJson(JSON.stringify(parse(source, { uniqueKeys: true, version: '1.2' }) ?? null))
}

/** A record as YAML that `readRecordFile` accepts; characters that a terminal would act on are escaped. */
export async function yamlText(value: object): Promise<string> {
  const { stringify } = await import('yaml')
  return printableLines(stringify(value, { lineWidth: 0 }))
}
