/** Contract, "What the service does": the statements of the call path, which Postgres plans once. */
import { expect, it } from 'vitest'
import { repositoryFiles } from './support/repository.ts'

it('each prepared statement has a name of its own', () => {
  const declared =
    /\b(?:prepared(?:<[^(]*>)?|recordStatement(?:<[^(]*>)?|spending|standingStatement|usesStatement)\(\s*'([a-z-]+)'/g
  const names = repositoryFiles()
    .filter(({ path }) => path.startsWith('src/storage/'))
    .flatMap(({ text }) => [...text.matchAll(declared)].map(([, name]) => name!))
  expect(names.length).toBeGreaterThan(25)
  expect(names.filter((name, at) => names.indexOf(name) !== at)).toEqual([])
})
