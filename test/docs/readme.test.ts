/**
 * README.md, the index docs/README.md and what CONTRIBUTING.md and the READMEs of src tell who works on it:
 * what a newcomer sees first, and how every other page is found.
 */
import { execFileSync } from 'node:child_process'
import { dirname, join } from 'node:path'
import { describe, expect, it, test } from 'vitest'
import { parse } from 'yaml'
import { PROVISION_FILE } from '../../src/config/provisioning/provision.ts'
import { SIDECAR_FILE } from '../../src/config/sidecar/sidecar-file.ts'
import { STORY } from '../../src/dev/story/story.ts'
import { repositoryFiles } from '../support/repository.ts'
import { usherProgram } from '../support/usher-program.ts'

const files = repositoryFiles()
const textOf = (path: string): string => files.find(file => file.path === path)?.text ?? ''
const readme = textOf('README.md')
const said = (text: string, pattern: RegExp): string[] => [...text.matchAll(pattern)].map(([, what]) => what!)

/** What a page links to, as paths of the repository. */
const linkedFrom = (page: string): string[] =>
  said(textOf(page), /\]\((?!https?:|#)([^)#\s]+)[^)]*\)/g).map(to => join(dirname(page), to))

describe('the README', () => {
  const opening = readme.split('\n').slice(0, 29).join('\n')

  it('shows what it is, for whom, why not a plain OAuth server, a picture and a command before line 30', () => {
    for (const name of ['UMA 2.0', 'RFC 9068', 'RFC 9421', 'RFC 9728', '`make demo`', 'usher agent call'])
      expect(opening).toContain(name)
    expect(opening).toMatch(/for you\s+if/)
    expect(opening).toContain('Why not a plain OAuth server?')
    expect(opening).toMatch(/```\nagent ──► Envoy/)
  })

  it('names the Node that the package needs', () => {
    const { engines } = JSON.parse(textOf('package.json')) as { engines: { node: string } }
    expect(opening).toContain(`Node ${engines.node.replace(/^>=/, '')} or later`)
  })

  it('shows of the demo what the demo says', () => {
    const [excerpt] = said(opening, /```text\n([\s\S]*?)```/g)
    const steps = STORY.map(({ title }, at) => `${String(at + 1).padStart(2)}. ${title}`)
    const shown = excerpt!.trimEnd().split('\n')
    expect(shown.length).toBeGreaterThan(2)
    expect(shown.filter(line => !steps.includes(line))).toEqual([])
  })

  it('leads to the index of the documents', () => {
    expect(linkedFrom('README.md')).toContain('docs/README.md')
    expect(opening).toMatch(/\]\(docs\//)
  })
})

test('docs/running.md shows files that the schemas accept', () => {
  const shown = said(textOf('docs/running.md'), /```yaml\n([\s\S]*?)```/g).map(text => parse(text) as unknown)
  const [provision, sidecar] = shown
  expect(PROVISION_FILE.safeParse(provision).error).toBeUndefined()
  expect(SIDECAR_FILE.safeParse(sidecar).error).toBeUndefined()
})

describe('the index of the documents', () => {
  const index = linkedFrom('docs/README.md')

  it('leads to every page, by itself or by its folder', () => {
    const pages = files
      .map(({ path }) => path)
      .filter(path => path.startsWith('docs/') && path.endsWith('.md') && path !== 'docs/README.md')
    expect(pages.length).toBeGreaterThan(20)
    expect(pages.filter(page => !index.some(to => page === to || page.startsWith(`${to}/`)))).toEqual([])
  })

  it('names each page once, under one of the four kinds', () => {
    expect(index.filter((to, at) => index.indexOf(to) !== at)).toEqual([])
    const kinds = ['Tutorial', 'How to', 'Reference', 'Explanation']
    expect(said(textOf('docs/README.md'), /^## (.*)$/gm)).toEqual(kinds)
  })
})

test('CONTRIBUTING.md has a glossary of at most 40 words, the four of an organization among them', () => {
  const [glossary] = textOf('CONTRIBUTING.md').split('## Glossary')[1]!.split(/^## /m)
  const words = said(glossary!, /^\| ([a-z, ]+?) +\| [^-]/gm).flatMap(cell => cell.split(', '))
  expect(words).toEqual(expect.arrayContaining(['charter', 'membership', 'view', 'ceiling']))
  expect(words.length).toBeLessThanOrEqual(40)
})

const PARTIES = [
  'authority',
  'organization',
  'tally',
  'witness',
  'enforcement',
  'agent',
  'owner',
  'admin',
  'console',
]

test.each(PARTIES)('src/%s/README.md says what it owns, who may import it and where to begin', party => {
  const page = textOf(`src/${party}/README.md`)
  expect(page).toContain('This folder owns')
  expect(page).toMatch(/imports?\b/)
  expect(page).toMatch(/^Begin in/m)
})

test.each(['owner', 'agent'])('docs/commands.md lists each command of usher %s', party => {
  const help = execFileSync(process.execPath, [usherProgram(), party, '--help'], {
    encoding: 'utf8',
  })
  const commands = said(help.slice(help.indexOf('Commands:')), /^ {2}([a-z-]+) /gm)
  expect(commands.length).toBeGreaterThan(1)
  const page = textOf('docs/commands.md')
    .split(/^## /m)
    .find(part => part.startsWith(`usher ${party}\n`))!
  const items = said(page.replaceAll(/\n +/g, ' '), /^- (.*)$/gm)
  const isListed = (name: string): boolean =>
    items.some(item => new RegExp(`\`[^\`]*\\b${name}\\b[^\`]*\``).test(item))
  expect(commands.filter(name => name !== 'help' && !isListed(name))).toEqual([])
})
