/** Owns reading this repository as text, for the tests that hold the code and the documents to each other. */
import { readdirSync, readFileSync } from 'node:fs'
import { join, relative, sep } from 'node:path'

export const ROOT = join(import.meta.dirname, '..', '..')

/** What .gitignore keeps out, and git's own folder. */
const NOT_OURS = new Set(['.git', 'node_modules', 'dist', '.cache', 'coverage', 'bench-results'])

/** One text file; `path` is relative to the repository, with `/`. */
export interface TextFile {
  path: string
  text: string
}

/** Every file of the repository that is ours, by path. */
export function repositoryFiles(): TextFile[] {
  return filesBelow(ROOT)
    .filter(path => !path.endsWith('.log'))
    .map(at => ({ path: relative(ROOT, at).split(sep).join('/'), text: readFileSync(at, 'utf8') }))
    .toSorted((one, other) => (one.path < other.path ? -1 : 1))
}

/** Folders that are not ours are never entered: other tests make and remove files there at the same time. */
function filesBelow(folder: string): string[] {
  return readdirSync(folder, { withFileTypes: true }).flatMap(entry => {
    const path = join(folder, entry.name)
    if (entry.isDirectory()) return NOT_OURS.has(entry.name) ? [] : filesBelow(path)
    return entry.isFile() && !NOT_OURS.has(entry.name) ? [path] : []
  })
}

/** The headings of a Markdown text, without their marks and backticks. */
export function headings(markdown: string): string[] {
  return [...markdown.matchAll(/^#{1,6} (.+)$/gm)].map(([, heading]) => heading!.replaceAll('`', ''))
}

/** One row of a Markdown table, with the names of its columns and the heading it stands under. */
export interface TableRow {
  heading: string
  cells: Map<string, string>
  first: string
}

/** Every row of every table of a Markdown text. */
export function tableRows(markdown: string): TableRow[] {
  const rows: TableRow[] = []
  let heading = ''
  let columns: string[] | undefined
  for (const line of markdown.split('\n')) {
    if (line.startsWith('#')) heading = line.replace(/^#+ /, '')
    if (!line.startsWith('|')) {
      columns = undefined
      continue
    }
    const cells = line
      .split(/(?<!\\)\|/)
      .slice(1, -1)
      .map(cell => cell.trim())
    if (columns === undefined) columns = cells
    else if (!cells.every(cell => /^:?-+:?$/.test(cell))) {
      const named = columns.map((column, at): [string, string] => [column, cells[at] ?? ''])
      rows.push({ heading, cells: new Map(named), first: cells[0] ?? '' })
    }
  }
  return rows
}

/** One point of a Markdown list, its lines joined, with the heading that it is under. */
export interface ListPoint {
  heading: string
  text: string
}

/** Every point of the outermost lists of a Markdown text. */
export function listPoints(markdown: string): ListPoint[] {
  const points: ListPoint[] = []
  let heading = ''
  let inPoint = false
  for (const line of markdown.split('\n')) {
    if (line.startsWith('#')) heading = line.replace(/^#+ /, '')
    const begin = /^(?:-|\d+\.) +(.*)$/.exec(line)?.[1]
    if (begin !== undefined) points.push({ heading, text: begin })
    else if (inPoint && /^ +\S/.test(line)) points.at(-1)!.text += ` ${line.trim()}`
    inPoint = begin !== undefined || (inPoint && /^ +\S/.test(line))
  }
  return points
}
