/** How wide a page may be: it is read in terminals, in differences and on small screens. */
import { expect, it } from 'vitest'
import { repositoryFiles } from '../support/repository.ts'

const COLUMNS_MAX = 120

it('no line of a page is wider than 120 columns: a row that is too wide becomes a point of a list', () => {
  const pages = repositoryFiles().filter(({ path }) => path.endsWith('.md'))
  expect(pages.length).toBeGreaterThan(50)
  const wide = pages.flatMap(({ path, text }) =>
    text.split('\n').flatMap((line, at) => (line.length > COLUMNS_MAX ? [`${path}:${at + 1}`] : [])),
  )
  expect(wide).toEqual([])
})
