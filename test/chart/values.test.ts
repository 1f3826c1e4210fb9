/** The files of the chart that are written from charts/values. */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { generated } from '../../charts/values/generated.ts'

const files = generated()

test.each(Object.keys(files))('charts/usher/%s is what charts/values says', file => {
  const written = readFileSync(join(import.meta.dirname, '../../charts/usher', file), 'utf8')
  expect(written, 'run `make docs`').toBe(files[file])
})
