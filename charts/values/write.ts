/**
 * Writes what the chart has of its values: values.schema.json, values.yaml and the page. `--check` only
 * compares.
 */
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { generated } from './generated.ts'

const CHART = join(import.meta.dirname, '..', 'usher')

const stale: string[] = []
for (const [file, text] of Object.entries(generated())) {
  const path = join(CHART, file)
  if (!process.argv.includes('--check')) writeFileSync(path, text)
  else if (readFileSync(path, 'utf8') !== text) stale.push(file)
}
if (stale.length > 0) {
  process.stderr.write(`Run \`make docs\`: not what charts/values says: ${stale.join(', ')}\n`)
  process.exitCode = 1
}
