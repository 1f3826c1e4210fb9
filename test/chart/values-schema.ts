/** Owns what values.schema.json says of values, as Helm asks it. */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { Ajv, type ValidateFunction } from 'ajv'
import { parse } from 'yaml'
import { ROOT } from '../support/repository.ts'
import type { Values } from './render.ts'

const CHART = join(ROOT, 'charts', 'usher')
const DEFAULTS = parse(readFileSync(join(CHART, 'values.yaml'), 'utf8')) as Values

let schema: ValidateFunction | undefined

/** Why these values, the defaults among them, are refused: a line each; nothing if they are not. */
export function refusalsOf(values: Values): string {
  schema ??= new Ajv({ strict: false, allErrors: true, formats: { uri: true } }).compile(
    JSON.parse(readFileSync(join(CHART, 'values.schema.json'), 'utf8')) as object,
  )
  schema(values)
  return (schema.errors ?? [])
    .map(one => `${one.instancePath} ${one.message} ${JSON.stringify(one.params)}`)
    .join('\n')
}

/** As Helm lays values over defaults: `null` takes one away, and a map adds to one. */
export function overDefaults(values: Values, defaults: Values = DEFAULTS): Values {
  const out = { ...defaults }
  for (const [name, value] of Object.entries(values)) {
    if (value === null) delete out[name]
    else out[name] = isMap(value) ? overDefaults(value, isMap(out[name]) ? out[name] : {}) : value
  }
  return out
}

function isMap(value: Values[string] | undefined): value is Values {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}
