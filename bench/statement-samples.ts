/**
 * Owns a profile of Postgres by samples: which statement each backend runs, and what it waits for, looked at
 * again and again. It needs no extension, so it works on every server.
 */
import { setTimeout as delay } from 'node:timers/promises'
import { Client } from 'pg'

/** How often a statement was seen at work on something. */
export interface StatementSample {
  statement: string
  /** `cpu` if it waits for nothing. */
  wait: string
  samples: number
}

export interface StatementProfile {
  /** How often it was looked. */
  looks: number
  /** The most frequent first. */
  seen: StatementSample[]
  commits: number
}

export interface Sampling {
  stop(): Promise<StatementProfile>
}

const PAUSE_MS = 10
const LABEL_CHARACTERS_MAX = 70
const SEEN = `
  SELECT query, coalesce(wait_event_type || ' ' || wait_event, 'cpu') AS wait FROM pg_stat_activity
  WHERE datname = current_database() AND pid <> pg_backend_pid() AND state = 'active'
    AND backend_type = 'client backend'`
const COMMITS = 'SELECT xact_commit AS commits FROM pg_stat_database WHERE datname = current_database()'

/** Begins to look. `skip` says of a statement that it is the bench's own. */
export async function sampleStatements(
  databaseUrl: string,
  skip: (query: string) => boolean,
): Promise<Sampling> {
  const client = new Client({ connectionString: databaseUrl })
  await client.connect()
  const before = await commitsOf(client)
  const counts = new Map<string, StatementSample>()
  const over = new AbortController()
  let looks = 0
  const looking = (async () => {
    while (!over.signal.aborted) {
      const { rows } = await client.query<{ query: string; wait: string }>(SEEN)
      looks++
      for (const { query, wait } of rows) if (!skip(query)) count(counts, labelOf(query), wait)
      await delay(PAUSE_MS)
    }
  })()
  return {
    stop: async () => {
      over.abort()
      try {
        await looking
        const commits = (await commitsOf(client)) - before - looks
        return { looks, seen: [...counts.values()].toSorted((a, b) => b.samples - a.samples), commits }
      } finally {
        await client.end()
      }
    },
  }
}

function count(counts: Map<string, StatementSample>, statement: string, wait: string): void {
  const key = `${statement}\n${wait}`
  const known = counts.get(key)
  if (known === undefined) counts.set(key, { statement, wait, samples: 1 })
  else known.samples++
}

/** The first words of a statement, on one line. */
export function labelOf(query: string): string {
  const line = query.replaceAll(/\s+/g, ' ').trim()
  return line.length <= LABEL_CHARACTERS_MAX ? line : `${line.slice(0, LABEL_CHARACTERS_MAX)}…`
}

async function commitsOf(client: Client): Promise<number> {
  const { rows } = await client.query<{ commits: string }>(COMMITS)
  return Number(rows[0]!.commits)
}
