/**
 * The database of a party, from its first migration to the pools that serve. Contract: "What the service
 * does": nothing is served before the database can be used.
 */
import { openDatabase, type Database, type DatabaseOptions, type Pools } from './core/database.ts'
import { awaitDatabase } from './core/database-wait.ts'
import { watchStandby, type StandbyWatch } from './core/standby.ts'
import { migrate, refuseEarlier, type PartySchema } from './migrate.ts'

/** What a start or a command needs to know about the database. */
interface DatabasePlace {
  databaseUrl: string
  /** How long to wait for a primary that answers. */
  databaseWaitSeconds: number
}

/** When what is written is acknowledged. */
interface Acknowledging {
  /**
   * The setting that allows no acknowledgement without a synchronous standby; if undefined, acknowledgements
   * need none.
   */
  requireStandby?: string | undefined
}

interface ServingOptions
  extends
    DatabasePlace,
    Acknowledging,
    Pick<DatabaseOptions, 'poolMax' | 'callPoolMax' | 'notifies' | 'lockTimeoutMs'> {
  /** Whether this start brings the database up to date. */
  migrate: boolean
}

/** Where a start reports what it does and waits for. */
interface StartLog {
  info(facts: object, line: string): void
  warn(facts: object, line: string): void
}

export interface PartyDatabase<Tables> {
  /** Opens the pools. Nothing is connected until first use. */
  open: (options: DatabaseOptions) => Database<Tables>
  /** Like `migrate` of src/storage/migrate.ts, with the party's migrations. */
  migrate: (url: string, tell?: (line: string) => void) => Promise<string[]>
  /** The same for a command: it waits until the database answers. */
  migrateOnce: (place: DatabasePlace, tell: (line: string) => void) => Promise<string[]>
  /** Like `refuseEarlier` of src/storage/migrate.ts. */
  refuseEarlier: (url: string) => Promise<void>
  /**
   * Opens the database for a command that writes or reads and then ends. @throws Error like `awaitDatabase`,
   * and naming the setting if a standby is required and none answers in time.
   */
  openOnce: (place: DatabasePlace & Acknowledging, tell: (line: string) => void) => Promise<Database<Tables>>
  /**
   * Opens the database for a server that is about to serve: waits for it, migrates it or refuses one that is
   * too old, and opens the pools. @throws Error like `awaitDatabase`, `migrate` and `refuseEarlier`; nothing
   * is left open then.
   */
  openServing: (options: ServingOptions, log: StartLog) => Promise<Pools<Tables>>
}

/** A command does one thing after the other. */
const COMMAND_POOL_MAX = 2

/**
 * @param by the setting that keeps a start from migrating, and the command that migrates.
 * @param open how the party opens it, if more belongs to it than the pools.
 */
export function partyDatabase<Tables>(
  schema: PartySchema,
  by: { setting: string; command: string },
  open: PartyDatabase<Tables>['open'] = openDatabase<Tables>,
): PartyDatabase<Tables> {
  const party: Omit<PartyDatabase<Tables>, 'openServing'> = {
    open,
    migrate: (url, tell) => migrate(url, schema, tell),
    migrateOnce: async ({ databaseUrl: url, databaseWaitSeconds: seconds }, tell) => {
      await awaitDatabase({ url, seconds, tell })
      return migrate(url, schema, tell)
    },
    refuseEarlier: url => refuseEarlier(url, schema, by),
    openOnce: async ({ databaseUrl: url, databaseWaitSeconds: seconds, requireStandby: setting }, tell) => {
      await awaitDatabase({ url, seconds, tell })
      const onTurn = (fault: Error | undefined): void => {
        if (fault !== undefined) tell(fault.message)
      }
      return open({
        url,
        poolMax: COMMAND_POOL_MAX,
        standby: await openStandbyWatch({ url, seconds, setting }, onTurn),
      })
    },
  }
  return {
    ...party,
    openServing: async (
      { databaseUrl: url, databaseWaitSeconds: seconds, poolMax, callPoolMax, ...options },
      log,
    ) => {
      const tell = (line: string): void => log.warn({}, line)
      await awaitDatabase({ url, seconds, tell })
      if (options.migrate) {
        const applied = await party.migrate(url, tell)
        if (applied.length > 0) log.info({ applied }, 'the database was brought up to date')
      } else await party.refuseEarlier(url)
      const onTurn = (fault: Error | undefined): void =>
        fault === undefined
          ? log.info({}, 'a synchronous standby is heard from')
          : log.warn({ err: fault }, 'nothing is answered: no synchronous standby is heard from')
      const standby = await openStandbyWatch({ url, seconds, setting: options.requireStandby }, onTurn)
      const onConnectionError = (error: Error): void =>
        log.warn({ err: error }, 'a connection to the database was lost')
      const onReadFault = (error: Error): void =>
        log.warn({ err: error }, 'reads from the database fail: this replica is not ready')
      return party.open({
        url,
        poolMax,
        ...(callPoolMax !== undefined && { callPoolMax }),
        notifies: options.notifies,
        lockTimeoutMs: options.lockTimeoutMs,
        onConnectionError,
        onReadFault,
        standby,
      })
    },
  }
}

/** @returns undefined if no setting requires one. @throws Error naming it if none answers in time. */
async function openStandbyWatch(
  { url, seconds, setting }: { url: string; seconds: number; setting: string | undefined },
  onTurn: (fault: Error | undefined) => void,
): Promise<StandbyWatch | undefined> {
  if (setting === undefined) return undefined
  try {
    return await watchStandby({ url, waitSeconds: seconds, onTurn })
  } catch (error) {
    const { message } = error as Error
    throw new Error(
      `${setting}: ${message}. Start the standby and name it in synchronous_standby_names, or take the setting out.`,
      { cause: error },
    )
  }
}
