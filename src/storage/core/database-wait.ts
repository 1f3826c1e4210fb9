/**
 * Waits for the database at the start of a process, and says so. Contract: "What the service does": nothing
 * is served before it can be judged.
 */
import { setTimeout as delay } from 'node:timers/promises'
import { waitAtMost } from '../../limits/patience.ts'
import { openConnection } from './connection.ts'
import { isOutage } from './database.ts'
import { assertKeepsSessions, refusesStartUp } from './pooler.ts'
import { Unusable } from './session.ts'

export interface WaitOptions {
  url: string
  /** How long to keep trying; 0: once. */
  seconds: number
  /** Called after a second, and then every 5 seconds, with what is waited for. */
  tell: (line: string) => void
}

/** Whoever starts it by hand wonders sooner than whoever reads a log. */
const FIRST_NOTICE_DELAY_MS = 1_000
const NOTICE_DELAY_MS = 5_000
const PAUSE_MS = 500
/** How long one look waits for an answer: at first a second, and twice as long each time, up to 5. */
const ANSWER_MS = { first: 1_000, most: 5_000 }

/**
 * Resolves once a primary answers. @throws Error naming DATABASE_URL and its place, never the URL, which
 * holds a password: if none did in time, and at once if one refused for a reason that waiting does not repair
 * (a wrong password, a database that does not exist, a setting that we cannot work under, a pooler that keeps
 * no session).
 */
export async function awaitDatabase({ url, seconds, tell }: WaitOptions): Promise<void> {
  const place = placeOf(url)
  const until = performance.now() + seconds * 1_000
  let problem = 'no answer yet'
  await withProgress(
    () => `waiting for the database at ${place} (DATABASE_URL): ${problem}`,
    tell,
    async () => {
      for (let patience = ANSWER_MS.first; ; patience = Math.min(patience * 2, ANSWER_MS.most)) {
        const left = until - performance.now()
        const connectMs = Math.min(patience, Math.max(ANSWER_MS.first, left))
        try {
          return await look(url, connectMs)
        } catch (error) {
          problem = messageOf(error)
          if (!mayPass(error)) throw refusedFor(error, place)
          if (performance.now() + PAUSE_MS > until)
            throw new Error(
              `DATABASE_URL: no primary answered at ${place} within ${seconds} s: ${problem}. Start Postgres there, or correct the host and the port.`,
              { cause: error },
            )
          await delay(PAUSE_MS)
        }
      }
    },
  )
}

/** Opens sessions as we need them, and closes them again. */
async function look(url: string, connectMs: number): Promise<void> {
  const open = () => openConnection({ url, name: 'usher-start', connectMs, statementMs: connectMs })
  const opened = [await open()]
  try {
    await assertKeepsSessions(opened[0]!.client, async () => {
      const another = await open()
      opened.push(another)
      return another.client
    })
  } finally {
    await Promise.all(opened.map(connection => connection.close()))
  }
}

/** Whether waiting may mend it. */
function mayPass(error: unknown): boolean {
  return isOutage(error) && !(error instanceof Unusable) && !speaksNoTls(error) && !refusesStartUp(error)
}

function refusedFor(error: unknown, place: string): Error {
  const problem = messageOf(error)
  const sentence =
    error instanceof Unusable
      ? `cannot be used: ${problem}.`
      : `refuses us: ${problem}. ${refusedRemedy(error)}`
  return new Error(`DATABASE_URL: the database at ${place} ${sentence}`, { cause: error })
}

/** Runs `work`, and says after a second, and then every 5 seconds, what is still waited for. */
export async function withProgress<T>(
  line: () => string,
  tell: (line: string) => void,
  work: () => Promise<T>,
): Promise<T> {
  let timer = setTimeout(function again() {
    tell(line())
    timer = setTimeout(again, NOTICE_DELAY_MS)
  }, FIRST_NOTICE_DELAY_MS)
  try {
    return await work()
  } finally {
    clearTimeout(timer)
  }
}

/** What to do, by the code of Postgres (SQLSTATE), or of the TLS of this process. */
const REFUSED_REMEDIES: ReadonlyMap<string, string> = new Map([
  ['28P01', 'Correct the user and the password.'],
  ['28000', 'Make that role, or let it log in (pg_hba.conf), or name another user.'],
  ['3D000', 'Make that database (CREATE DATABASE), or name one that is there.'],
  [
    '42501',
    'Let that role use it: GRANT it the role that serves the database, or CONNECT; or name another user.',
  ],
  ['53300', 'Postgres takes no more connections: raise max_connections, or lower the pools.'],
  ['DEPTH_ZERO_SELF_SIGNED_CERT', 'Name the CA of its certificate in NODE_EXTRA_CA_CERTS.'],
  ['SELF_SIGNED_CERT_IN_CHAIN', 'Name the CA of its certificate in NODE_EXTRA_CA_CERTS.'],
  ['UNABLE_TO_VERIFY_LEAF_SIGNATURE', 'Name the CA of its certificate in NODE_EXTRA_CA_CERTS.'],
  ['ERR_TLS_CERT_ALTNAME_INVALID', 'Name the host that its certificate is for.'],
])

function refusedRemedy(error: unknown): string {
  if (refusesStartUp(error))
    return 'It is a pooler (PgBouncer): take that parameter out of the URL, or name it in ignore_startup_parameters there. Its pool_mode must be session.'
  if (speaksNoTls(error)) return 'Turn its TLS on, or leave sslmode out of the URL.'
  const { code = '' } = error as Error & { code?: string }
  return REFUSED_REMEDIES.get(code) ?? 'Mend that there, or name another database.'
}

/** An answer of Postgres that waiting does not mend; it comes without a code. */
function speaksNoTls(error: unknown): boolean {
  return /does not support SSL/.test((error as Error).message)
}

/** `host:port/database`. */
function placeOf(url: string): string {
  // A socket's URL names no host beside its user.
  const { host, pathname } = new URL(url.replace('@/', '@localhost/'))
  return `${host}${pathname}`
}

/** A connection that is refused at several addresses has no message, but a code. */
function messageOf(error: unknown): string {
  const { message, code } = error as Error & { code?: string }
  return message || code || String(error)
}

const PING_MS_MAX = 1_000

/** Whether a query of this pool is answered within a second. Throws nothing. */
export async function answersNow(pool: { query(text: string): Promise<unknown> }): Promise<boolean> {
  const probe = pool.query('SELECT 1').then(
    () => true,
    () => false,
  )
  return (await waitAtMost(PING_MS_MAX, probe)) === true
}
