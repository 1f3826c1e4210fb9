/**
 * Owns the settings that say where the database is and how long a start waits for it. Contract: "Limits".
 */
import { cells } from './cells.ts'
import { postgresUrl } from './postgres-url.ts'
import { defaulted, required, wholeNumber } from './settings.ts'

export const databaseUrl = required('DATABASE_URL', postgresUrl, {
  description: 'The Postgres that remembers everything: its primary, as a `postgres://` URL.',
})

/** The settings of every command that opens the authority's database. */
export const DATABASE_SETTINGS = {
  databaseUrl,
  cells,
  databaseWaitSeconds: defaulted('UMA_AS_DATABASE_WAIT_SECONDS', wholeNumber(0, 3600), '30', {
    description:
      'How long a start waits for a database that cannot be reached, does not answer or takes no writes; a log line says so after a second, and then every 5. Then it fails.',
    unit: 'seconds',
  }),
}
