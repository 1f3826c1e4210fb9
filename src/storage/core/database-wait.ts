/**
 * Waits for the database at the start of a process, and says so. Contract: "What the service does": nothing
 * is served before it can be judged.
 */
import { setTimeout as delay } from 'node:timers/promises'
import { waitAtMost } from '../../limits/patience.ts'
import { isLoopbackHost } from '../../wire/loopback.ts'
import { openConnection } from './connection.ts'
import { isOfCertificate, isOutage } from './database.ts'
import { assertKeepsSessions, refusesStartUp } from './pooler.ts'
import { Unusable } from './session.ts'

export interface WaitOptions {
  url: string
  /** How long to keep trying; 0: once. */
  seconds: number
  /**
   * Called after a second, and then every 5 seconds, with what is waited for; and once if others on the way
   * may read or change what is sent.
   */
  tell: (line: string) => void
}

/** Whoever starts it by hand wonders sooner than whoever reads a log. */
const FIRST_NOTICE_DELAY_MS = 1_000
const NOTICE_DELAY_MS = 5_000
const PAUSE_MS = 500
/** How long one look waits for an answer: at first a second, and twice as long each time, up to 5. */
const ANSWER_MS = { first: 1_000, most: 5_000 }

/**
 * Resolves once a primary answers, with what `tlsWeakness` says of the connection. @throws Error naming
 * DATABASE_URL and its place, never the URL, which holds a password: if none did in time, and at once if one
 * refused for a reason that waiting does not repair (a wrong password, a certificate that is not taken, a
 * database that does not exist, a setting that we cannot work under, a pooler that keeps no session).
 */
export async function awaitDatabase({ url, seconds, tell }: WaitOptions): Promise<string | undefined> {
  const place = placeOf(url)
  const until = performance.now() + seconds * 1_000
  let problem = 'no answer yet'
  const weakness = await withProgress(
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
  if (weakness !== undefined)
    tell(
      `the connection to the database at ${place} (DATABASE_URL) ${weakness}: end its URL with ?sslmode=verify-full`,
    )
  return weakness
}

/** Opens sessions as we need them, and closes them again. @returns what `tlsWeakness` says of them. */
async function look(url: string, connectMs: number): Promise<string | undefined> {
  const open = () => openConnection({ url, name: 'usher-start', connectMs, statementMs: connectMs })
  const opened = [await open()]
  try {
    await assertKeepsSessions(opened[0]!.client, async () => {
      const another = await open()
      opened.push(another)
      return another.client
    })
    return tlsWeakness(opened[0]!.client)
  } finally {
    await Promise.all(opened.map(connection => connection.close()))
  }
}

/**
 * What a connection that leaves this machine lacks of TLS, to be put after "the connection"; undefined if
 * nothing. @internal @param ssl as the driver has it: false, true or the options of TLS.
 */
export function tlsWeakness({ host, ssl }: { host: string; ssl: unknown }): string | undefined {
  if (host.startsWith('/') || host === 'localhost' || isLoopbackHost(host)) return undefined
  if (ssl === false) return 'is not encrypted'
  const checksNothing =
    typeof ssl === 'object' && ssl !== null && 'rejectUnauthorized' in ssl && ssl.rejectUnauthorized === false
  return checksNothing ? 'is encrypted, but its certificate is not checked' : undefined
}

/** Whether waiting may mend it. */
function mayPass(error: unknown): boolean {
  if (error instanceof Unusable || isOfCertificate(error) || isOfFile(error)) return false
  return isOutage(error) && !speaksNoTls(error) && !refusesStartUp(error)
}

function refusedFor(error: unknown, place: string): Error {
  const problem = messageOf(error)
  const verb = isOfCertificate(error) || isOfFile(error) ? 'cannot be used' : 'refuses us'
  const sentence =
    error instanceof Unusable ? `cannot be used: ${problem}.` : `${verb}: ${problem}. ${refusedRemedy(error)}`
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

/** A file that the URL names takes the place of all other CAs. */
const UNKNOWN_CA =
  'Name the CA of its certificate in NODE_EXTRA_CA_CERTS, or, if the URL has sslrootcert, in that file.'

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
  ['DEPTH_ZERO_SELF_SIGNED_CERT', UNKNOWN_CA],
  ['SELF_SIGNED_CERT_IN_CHAIN', UNKNOWN_CA],
  ['UNABLE_TO_VERIFY_LEAF_SIGNATURE', UNKNOWN_CA],
  ['UNABLE_TO_GET_ISSUER_CERT', UNKNOWN_CA],
  ['UNABLE_TO_GET_ISSUER_CERT_LOCALLY', UNKNOWN_CA],
  // A CA that got another key, and kept its name.
  ['CERT_SIGNATURE_FAILURE', UNKNOWN_CA],
  ['CERT_HAS_EXPIRED', 'Renew the certificate of Postgres.'],
  ['CERT_NOT_YET_VALID', 'Correct the clock of this machine, or wait until that certificate is valid.'],
  ['ERR_TLS_CERT_ALTNAME_INVALID', 'Name the host that its certificate is for.'],
])

function refusedRemedy(error: unknown): string {
  if (refusesStartUp(error))
    return 'It is a pooler (PgBouncer): take that parameter out of the URL, or name it in ignore_startup_parameters there. Its pool_mode must be session.'
  if (speaksNoTls(error))
    return 'Turn its TLS on, or, if the network is yours alone, leave sslmode out of the URL.'
  if (isOfFile(error))
    return 'Correct sslrootcert, sslcert or sslkey of the URL, or let the user of this process read that file.'
  const { code = '' } = error as Error & { code?: string }
  return REFUSED_REMEDIES.get(code) ?? 'Mend that there, or name another database.'
}

/** The driver reads the files that the URL names at each connection. */
function isOfFile(error: unknown): boolean {
  const { code = '', syscall } = error as NodeJS.ErrnoException
  return syscall === 'open' || code === 'EISDIR' || code.startsWith('ERR_OSSL_')
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
