/**
 * Owns which columns of a table stand on a terminal: those that a person chooses by, with names as short as
 * commands take them and times of her zone. A file or another program gets all of them in full. Contract:
 * "Owner API".
 */
import { shortName } from '../../client/names.ts'
import { localTime, printableTime, table } from '../../terminal/printable.ts'

/** A column of a table: `name` of a thing and `time` are written in another way on a terminal. */
export interface Column<Row> {
  heading: string
  of: (row: Row) => unknown
  as?: 'name' | 'time'
  /** `wide`: never on a terminal. `filled`: there only if some row has a value. */
  shown?: 'wide' | 'filled'
}

/** The table; `width` is that of the terminal, undefined if nothing is to be left out. */
export function columnsTable<Row>(
  rows: readonly Row[],
  columns: readonly Column<Row>[],
  width: number | undefined,
): string {
  const chosen = width === undefined ? columns : columns.filter(column => fits(column, rows))
  return table(
    chosen.map(({ heading }) => heading),
    rows.map(row => chosen.map(({ of, as }) => written(of(row), as, width !== undefined))),
    width,
  )
}

function fits<Row>({ of, shown }: Column<Row>, rows: readonly Row[]): boolean {
  if (shown === 'wide') return false
  return shown !== 'filled' || rows.some(row => !isEmpty(of(row)))
}

function written(value: unknown, as: Column<never>['as'], onTerminal: boolean): unknown {
  if (as === 'time') return onTerminal ? localTime(value) : printableTime(value)
  return as === 'name' && onTerminal && typeof value === 'string' ? shortName(value) : value
}

function isEmpty(value: unknown): boolean {
  return value === null || value === undefined || value === '' || (Array.isArray(value) && value.length === 0)
}
