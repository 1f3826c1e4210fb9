/**
 * Owns a pause of consumes, when they have locked and written all their rows and before they commit: a
 * trigger that waits for a lock which the test holds.
 */
import { Client } from 'pg'

const LOCK = 4_711

/** From now on, statements that spend grants there wait until `release` is called. */
export async function holdConsumes(url: string): Promise<{ release(): Promise<void> }> {
  const admin = new Client({ connectionString: url })
  await admin.connect()
  await admin.query(`
    CREATE OR REPLACE FUNCTION hold_consumes() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
      PERFORM pg_advisory_xact_lock_shared(${LOCK}); RETURN NULL; END $$;
    CREATE OR REPLACE TRIGGER hold_consumes AFTER UPDATE ON grants
      FOR EACH STATEMENT EXECUTE FUNCTION hold_consumes()`)
  await admin.query(`SELECT pg_advisory_lock(${LOCK})`)
  let held = true
  return {
    release: async () => {
      if (!held) return
      held = false
      await admin.query(`SELECT pg_advisory_unlock(${LOCK})`)
      await admin.query('DROP TRIGGER hold_consumes ON grants')
      await admin.end()
    },
  }
}
