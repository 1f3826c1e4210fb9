/** Owns the texts of the files that are made of the values' schema, formatted as everything else is. */
import { join } from 'node:path'
import { format, resolveConfig } from 'prettier'
import { valuesPage, valuesYaml } from './pages.ts'
import { VALUES, valuesSchema } from './schema.ts'

/** By name within the chart. */
export async function generated(): Promise<Record<string, string>> {
  const schema = valuesSchema()
  const defaults = VALUES.parse({})
  const texts = {
    'values.schema.json': JSON.stringify(schema),
    'values.yaml': valuesYaml(schema, defaults),
    'README.md': valuesPage(schema, defaults),
  }
  const entries = Object.entries(texts).map(async ([name, text]) => {
    const filepath = join(import.meta.dirname, '..', 'usher', name)
    return [name, await format(text, { ...(await resolveConfig(filepath)), filepath })] as const
  })
  return Object.fromEntries(await Promise.all(entries))
}
