/** Owns the texts of the files that are made of the values' schema, formatted as everything else is. */
import { execFileSync } from 'node:child_process'
import { join } from 'node:path'
import { valuesPage, valuesYaml } from './pages.ts'
import { VALUES, valuesSchema } from './schema.ts'

const CHART = join(import.meta.dirname, '..', 'usher')
/** Its command, because the options of each file stand in a configuration that its functions do not read. */
const FORMATTER = join(import.meta.dirname, '..', '..', 'node_modules', '.bin', 'oxfmt')

/** By name within the chart. */
export function generated(): Record<string, string> {
  const schema = valuesSchema()
  const defaults = VALUES.parse({})
  const texts = {
    'values.schema.json': JSON.stringify(schema),
    'values.yaml': valuesYaml(schema, defaults),
    'README.md': valuesPage(schema, defaults),
  }
  return Object.fromEntries(Object.entries(texts).map(([name, text]) => [name, formatted(name, text)]))
}

function formatted(name: string, text: string): string {
  const options = [`--stdin-filepath=${join(CHART, name)}`]
  return execFileSync(FORMATTER, options, { input: text, encoding: 'utf8' })
}
