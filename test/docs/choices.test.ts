/**
 * docs/choices.md has what was chosen where the contract is silent, with the reason. The facts that follow
 * from it are on the pages of docs/details, so that a reader finds each under one heading of one page.
 */
import { describe, expect, it } from 'vitest'
import { repositoryFiles } from '../support/repository.ts'

const files = repositoryFiles()
const textOf = (path: string): string => files.find(file => file.path === path)?.text ?? ''
const choices = textOf('docs/choices.md')
const details = files.filter(({ path }) => /^docs\/details\/[\w-]+\.md$/.test(path))
const BYTES_MAX = 110_000

/** The anchor of a heading, as GitHub makes it. */
const anchorOf = (heading: string): string =>
  heading
    .toLowerCase()
    .replace(/[^\w\- ]/g, '')
    .replaceAll(' ', '-')
const anchorsIn = (text: string): string[] =>
  [...text.matchAll(/^#+ (.*)$/gm)].map(([, heading]) => anchorOf(heading!))

describe('docs/choices.md', () => {
  it('stays a page that can be read: facts without a choice go to the pages of docs/details', () => {
    expect(Buffer.byteLength(choices)).toBeLessThan(BYTES_MAX)
  })

  it('leads to each page of docs/details, and to headings that are there', () => {
    const links = [...choices.matchAll(/\]\((details\/[\w-]+\.md)(?:#([^)]*))?\)/g)]
    expect(details.length).toBeGreaterThan(10)
    const leads = new Set(links.map(([, page]) => `docs/${page}`))
    expect(details.map(({ path }) => path).filter(path => !leads.has(path))).toEqual([])
    const missing = links.filter(
      ([, page, anchor]) => anchor !== undefined && !anchorsIn(textOf(`docs/${page}`)).includes(anchor),
    )
    expect(missing.map(([link]) => link)).toEqual([])
  })

  it('has no heading without a word below it', () => {
    const sections = choices.split(/^#{2,3} /m).slice(1)
    const groups = ['Resources and their fields', 'States and transitions']
    const empty = sections.filter(text => text.split('\n').slice(1).join('').trim() === '')
    expect(empty.map(text => text.trim()).filter(heading => !groups.includes(heading))).toEqual([])
  })
})
