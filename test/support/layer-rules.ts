/**
 * Owns what holds between the two layers of the tests: a file of the full layer alone may add to what
 * `make test` shows of a part of the contract, and shows no part by itself.
 */
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { headings, ROOT, type TextFile } from './repository.ts'

/** Whether `make test` passes over this file. */
export const isOfFullLayer = (path: string): boolean => path.endsWith('.full.test.ts')

/** Every file of tests that `make test-full` runs with vitest, by its path in the repository. */
export function testFiles(): TextFile[] {
  return readdirSync(join(ROOT, 'test'), { recursive: true, encoding: 'utf8' })
    .map(name => `test/${name}`)
    .filter(path => path.endsWith('.test.ts') && !/^test\/(cluster|gateway)\//.test(path))
    .map(path => ({ path, text: readFileSync(join(ROOT, path), 'utf8') }))
}

/** The headings of the contract that a file cites in the comment at its head. */
export function citedHeadings({ text }: TextFile, contract: string): string[] {
  const comment = /^\/\*\*.*?\*\//s.exec(text)?.[0].replaceAll(/\n \* ?/g, ' ') ?? ''
  const known = new Set(headings(contract))
  return [...comment.matchAll(/"([^"]+)"/g)].map(([, cited]) => cited!).filter(cited => known.has(cited))
}

/** A sentence for each heading that only files of the full layer cite. */
export function headingsOfFullLayerAlone(files: readonly TextFile[], contract: string): string[] {
  const landing = files.filter(({ path }) => !isOfFullLayer(path))
  const shown = new Set(landing.flatMap(file => citedHeadings(file, contract)))
  return files
    .filter(({ path }) => isOfFullLayer(path))
    .flatMap(file =>
      citedHeadings(file, contract)
        .filter(cited => !shown.has(cited))
        .map(cited => `${file.path}: no test of make test cites this part of the contract: ${cited}`),
    )
}

/**
 * Whether a file that was not run has a test of that name, its suites before it with ` > ` between: each is
 * written there, or is a row of a table whose title is (`%s` and `$name` stand for anything).
 */
export function isWritten(path: string, name: string): boolean {
  const text = readFileSync(join(ROOT, path), 'utf8').replaceAll("\\'", "'")
  const titles = [...text.matchAll(/'([^'\n]*[%$][^'\n]*)'/g)].map(([, title]) => patternOf(title!))
  return name.split(' > ').every(part => text.includes(part) || titles.some(title => title.test(part)))
}

/** Of a title with at least a few words of its own. */
function patternOf(title: string): RegExp {
  const parts = title.split(/%[a-z]|\$[a-z.]+/i)
  if (parts.join('').length < 10) return /$^/
  return new RegExp(
    `^${parts.map(part => part.replaceAll(/[.*+?^${}()|[\]\\]/g, String.raw`\$&`)).join('.*')}$`,
  )
}
