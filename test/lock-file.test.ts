/** What is installed is what was chosen: docs/decisions/0005-tools.md. */
import { readFileSync } from 'node:fs'
import { expect, test } from 'vitest'

test('The lock file has the digest of every package, so that nobody can put another in its place', () => {
  const { packages } = JSON.parse(readFileSync('package-lock.json', 'utf8')) as {
    packages: Record<string, { integrity?: string; link?: boolean }>
  }
  const without = Object.entries(packages).filter(
    ([path, one]) => path !== '' && one.link !== true && one.integrity === undefined,
  )
  expect(without.map(([path]) => path)).toEqual([])
})
