import { readFileSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import { PAGE, withFigures, writtenFigures } from '../../bench/docs.ts'
import type { Report } from '../../bench/report.ts'

describe('The figures in docs/performance.md', () => {
  const page = readFileSync(PAGE, 'utf8')

  it('were written by make bench-docs, and by nobody else', () => {
    const figures = writtenFigures(page)
    expect(figures).toHaveLength(2)
    expect(figures.filter(({ isWritten }) => !isWritten)).toEqual([])
  })

  it('are told where one was typed', () => {
    // Only what stands behind the mark is written by it; other tables of the page are typed.
    const written = page.indexOf('<!-- figures:')
    const typed = page.slice(0, written) + page.slice(written).replace(/\| (\d+\.\d+) /, '| 9$1 ')
    expect(typed).not.toBe(page)
    expect(writtenFigures(typed).filter(({ isWritten }) => !isWritten)).toHaveLength(1)
  })

  it('have a place of their own, without which nothing is written', () => {
    expect(() => withFigures('no marks', {} as Report)).toThrow('no place')
    expect(page).toContain('<!-- figures: written by `make bench-docs` -->')
  })
})
