/**
 * Owns reading the contract as a list: every row of its tables and every point of its lists, each under its
 * heading.
 */
export interface ContractItem {
  /** The nearest one above, without backticks. */
  heading: string
  cells: string[]
}

/** In their order. A point of a list is an item of one cell. */
export function contractItems(markdown: string): ContractItem[] {
  const items: ContractItem[] = []
  let heading = ''
  let inTable = false
  for (const line of markdown.split('\n')) {
    const cells = line.startsWith('|') ? cellsOf(line) : undefined
    if (line.startsWith('#')) heading = line.replace(/^#+ /, '').replaceAll('`', '')
    // The first line of a table names its columns.
    if (cells !== undefined && inTable && !isRule(cells)) items.push({ heading, cells })
    inTable = cells !== undefined
    const point = /^(?:\d+\.|-) (.*)$/.exec(line)?.[1]
    if (point !== undefined) items.push({ heading, cells: [point] })
  }
  return items
}

function cellsOf(line: string): string[] {
  return line
    .split(/(?<!\\)\|/)
    .slice(1, -1)
    .map(cell => cell.trim())
}

function isRule(cells: readonly string[]): boolean {
  return cells.every(cell => /^:?-+:?$/.test(cell))
}
