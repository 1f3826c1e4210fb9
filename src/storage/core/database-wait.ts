/**
 * Waits for the database at the start of a process, and says so. Contract: "What the service does": nothing
 * is served before it can be judged.
 */
import { setTimeout as delay } from 'node:timers/promises'
import { openConnection } from './connection.ts'
import { isOutage } from './database.ts'

export interface WaitOptions {
  url: string
  /** How long to go on trying; 0: once. */
  seconds: number
  /** Told every 5 seconds what is waited for. */
  tell: (line: string) => void
}

const TELL_MS = 5_000
const PAUSE_MS = 500
const ANSWER_MS_MAX = 5_000
const ANSWER_MS_MIN = 1_000

/**
 * Resolves once a primary answers. @throws Error naming DATABASE_URL and its place, never the URL, which
 * holds a password: where none did in time, and at once where one refused for a reason that waiting does not
 * mend (a wrong password, a database that is not there).
 */
export async function awaitDatabase({ url, seconds, tell }: WaitOptions): Promise<void> {
  const place = placeOf(url)
  const until = performance.now() + seconds * 1_000
  let said = 'no answer yet'
  await telling(
    () => `waiting for the database at ${place} (DATABASE_URL): ${said}`,
    tell,
    async () => {
      for (;;) {
        const left = until - performance.now()
        const connectMs = Math.min(ANSWER_MS_MAX, Math.max(ANSWER_MS_MIN, left))
        try {
          const connection = await openConnection({
            url,
            name: 'usher-start',
            connectMs,
            statementMs: connectMs,
          })
          return await connection.close()
        } catch (error) {
          said = sayingOf(error)
          if (!isOutage(error))
            throw new Error(`DATABASE_URL: the database at ${place} refuses us: ${said}`, { cause: error })
          if (performance.now() + PAUSE_MS > until)
            throw new Error(`DATABASE_URL: no primary answered at ${place} within ${seconds} s: ${said}`, {
              cause: error,
            })
          await delay(PAUSE_MS)
        }
      }
    },
  )
}

/** Runs `work`, and tells every 5 seconds what is still waited for. */
export async function telling<T>(
  line: () => string,
  tell: (line: string) => void,
  work: () => Promise<T>,
): Promise<T> {
  const timer = setInterval(() => tell(line()), TELL_MS)
  try {
    return await work()
  } finally {
    clearInterval(timer)
  }
}

/** `host:port/database`. */
function placeOf(url: string): string {
  // A socket's URL names no host beside its user.
  const { host, pathname } = new URL(url.replace('@/', '@localhost/'))
  return `${host}${pathname}`
}

/** What is refused at several addresses has no message, but a code. */
function sayingOf(error: unknown): string {
  const { message, code } = error as Error & { code?: string }
  return message || code || String(error)
}
