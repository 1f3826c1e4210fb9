/**
 * What each subcommand of `usher owner` and `usher admin` works with, and how it prints its answer. Contract:
 * "Owner API"; `/admin` of an organization is asked alike.
 */
import type { Terminal } from '../terminal/command.ts'
import { CUT, printableJson } from '../terminal/printable.ts'

/**
 * The API for this person, and the form of the answer: `json` for a script, tables and sentences for a
 * person.
 */
export interface ClientSession<Client> {
  client: Client
  terminal: Terminal
  json: boolean
  /** How wide a table may be; undefined means no limit. */
  columns?: number | undefined
}

/** Makes the action of a subcommand: the session is opened when the subcommand runs, not before. */
export type ClientAction<Client> = <A extends unknown[]>(
  run: (session: ClientSession<Client>, ...args: A) => Promise<void>,
) => (...args: A) => Promise<void>

/**
 * Prints an answer: as JSON for a script, otherwise as `asText` writes it. It says so if the text had to be
 * shortened.
 */
export function tell<T>(
  { terminal, json, columns }: Pick<ClientSession<unknown>, 'terminal' | 'json' | 'columns'>,
  answer: T,
  asText: (answer: T, columns?: number) => string,
): void {
  if (json) return terminal.out(`${printableJson(answer)}\n`)
  const text = asText(answer, columns)
  terminal.out(text)
  // A table that does not fit is printed as complete records.
  if (columns !== undefined && cutsIn(text) > cutsIn(asText(answer)))
    terminal.err('Shortened to fit; --wide shows everything. The beginning of a name will do as its name.\n')
}

function cutsIn(text: string): number {
  return text.split(CUT).length - 1
}
