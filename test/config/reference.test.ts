/** docs/configuration.md against the schemas that it is written from. */
import { readFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import { configurationDocs } from '../../src/config.ts'

test('docs/configuration.md is what the schemas say', () => {
  const page = readFileSync(new URL('../../docs/configuration.md', import.meta.url), 'utf8')
  expect(page, 'run `usher print-docs > docs/configuration.md`').toBe(configurationDocs())
})
