/**
 * Owns the output of a migration that is run as a command: what it waits for on stderr, what it applied on
 * stdout. docs/choices.md, "Storage".
 */

/**
 * Runs a migration as a command. @param migrate brings the database up to date, and resolves to the names
 * that it applied.
 */
export async function runMigrationCommand(
  migrate: (tell: (line: string) => void) => Promise<readonly string[]>,
): Promise<void> {
  const applied = await migrate(line => void process.stderr.write(`${line}\n`))
  const message = applied.length === 0 ? 'The database is up to date.' : `Applied ${applied.join(', ')}.`
  process.stdout.write(`${message}\n`)
}
