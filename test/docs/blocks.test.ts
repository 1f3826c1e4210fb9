/** Every command that a document prints: each `sh` block is run by a test, or listed with a reason. */
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { blocksOf, listedBlocks, runnableBlocks } from '../support/pages.ts'
import { repositoryFiles, ROOT } from '../support/repository.ts'

const pages = repositoryFiles()
  .filter(({ path }) => path.endsWith('.md'))
  .map(({ path, text }) => ({ path, blocks: blocksOf(text) }))
  .filter(({ blocks }) => blocks.length > 0)
const listed = listedBlocks()
const firstLine = (text: string): string => text.split('\n')[0]!

describe('each sh block of a document', () => {
  it('is run by a test, or stands in test/docs/blocks.yaml with the reason why it is not', () => {
    const isRun = (page: string): boolean => listed.some(one => 'run_by' in one && one.page === page)
    const unheld = pages
      .filter(({ path }) => !isRun(path))
      .flatMap(({ path }) =>
        runnableBlocks(path).map(({ line, text }) => `${path}:${line}: ${firstLine(text)}`),
      )
    expect(unheld).toEqual([])
  })

  it('that a test runs is run by a file that names the page', () => {
    const wrong = listed.filter(
      one =>
        'run_by' in one &&
        !(
          existsSync(join(ROOT, one.run_by)) &&
          readFileSync(join(ROOT, one.run_by), 'utf8').includes(`runPage('${one.page}'`)
        ),
    )
    expect(wrong).toEqual([])
  })

  it('that the list names exists, once', () => {
    const begins = (page: string): string[] =>
      pages.find(({ path }) => path === page)?.blocks.map(({ text }) => firstLine(text)) ?? []
    const stale = listed.filter(one =>
      'begins' in one
        ? begins(one.page).filter(line => line === one.begins).length !== 1
        : runnableBlocks(one.page).length === 0,
    )
    expect(stale).toEqual([])
    expect(pages.length).toBeGreaterThan(8)
  })
})
