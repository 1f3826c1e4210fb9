/**
 * LISTEN on a connection of its own, kept open for as long as the process lives. A notification carries
 * only a name; what happened is read back, so one lost while reconnecting loses nothing.
 * Contract: "Events".
 */
import { Client, escapeIdentifier } from 'pg'

export interface Listener {
  close(): Promise<void>
}

export interface ListenOptions {
  url: string
  channel: string
  /** Called with the payload of each notification. */
  onNotify: (payload: string) => void
  /** Called after every (re)connect: whatever was missed meanwhile must be read now. */
  onConnect?: () => void
  onError?: (error: Error) => void
}

const RETRY_MS_MIN = 100
const RETRY_MS_MAX = 5_000

/**
 * Starts listening; resolves once the first LISTEN stands (rejects if that one fails). Afterwards a lost
 * connection is opened again, for ever, with growing pauses.
 */
export async function listen(options: ListenOptions): Promise<Listener> {
  let client: Client | undefined
  let timer: NodeJS.Timeout | undefined
  let closed = false
  let retryMs = RETRY_MS_MIN

  async function connect(): Promise<void> {
    const next = new Client({
      connectionString: options.url,
      application_name: 'usher-listen',
      keepAlive: true,
      connectionTimeoutMillis: RETRY_MS_MAX,
    })
    next.on('notification', message => options.onNotify(message.payload ?? ''))
    next.on('error', error => options.onError?.(error))
    next.on('end', () => {
      if (client === next) again()
    })
    await next.connect()
    await next.query(`LISTEN ${escapeIdentifier(options.channel)}`)
    client = next
    retryMs = RETRY_MS_MIN
    options.onConnect?.()
  }

  function again(): void {
    client = undefined
    if (closed) return
    timer = setTimeout(() => {
      connect().catch((error: Error) => {
        options.onError?.(error)
        retryMs = Math.min(retryMs * 2, RETRY_MS_MAX)
        again()
      })
    }, retryMs)
  }

  await connect()
  return {
    async close() {
      closed = true
      clearTimeout(timer)
      const last = client
      client = undefined
      await last?.end()
    },
  }
}
