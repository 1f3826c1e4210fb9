/**
 * What each subcommand of `usher owner` and `usher admin` works with, and how it tells its answer. Contract:
 * "Owner API"; `/admin` of an organization is asked alike.
 */
import type { Terminal } from '../terminal/command.ts'
import { printableJson } from '../terminal/printable.ts'

/**
 * The API as this person reaches it, and where the answer goes: `json` for a script, tables and sentences for
 * a person.
 */
export interface ClientSession<Client> {
  client: Client
  terminal: Terminal
  json: boolean
  /** How wide a table may be; undefined: as wide as it is. */
  columns?: number | undefined
}

/** Makes the action of a subcommand: the session is opened when the subcommand runs, not before. */
export type ClientAction<Client> = <A extends unknown[]>(
  run: (session: ClientSession<Client>, ...args: A) => Promise<void>,
) => (...args: A) => Promise<void>

/**
 * Prints an answer: as JSON for a script, else as `asText` writes it; says so when it had to be shortened.
 */
export function tell<T>(
  { terminal, json, columns }: Pick<ClientSession<unknown>, 'terminal' | 'json' | 'columns'>,
  answer: T,
  asText: (answer: T, columns?: number) => string,
): void {
  if (json) return terminal.out(`${printableJson(answer)}\n`)
  const text = asText(answer, columns)
  terminal.out(text)
  if (columns !== undefined && text !== asText(answer))
    terminal.err('Shortened to fit; --wide shows everything. The beginning of a name will do as its name.\n')
}
