/**
 * Owns which connections may stay at a listener for HTTP/2: they are passed on when they have begun to speak
 * HTTP/2, and closed if they do not, or if there are too many. Contract: "Limits". It knows no party, and
 * does not read what a connection carries.
 */
import { createServer, type Server, type Socket } from 'node:net'
import { createServer as createTlsServer } from 'node:tls'
import { bind } from './bind.ts'
import { requireUsable, type Certificates } from './certificates.ts'
import { admits, type ClientNames } from './client-names.ts'
import { CONNECTION_BOUNDS } from './connection-bounds.ts'
import type { ListenAddress } from './listen-address.ts'

/** PEM: the server's certificate and key, and the authority of its clients. */
export interface MutualTls {
  cert: Buffer
  key: Buffer
  ca: Buffer
}

export interface Http2ListenerOptions {
  address: ListenAddress
  /** If given, a client must show a certificate that `ca` signed. Renewed files apply to new connections. */
  tls?: Certificates<MutualTls> | undefined
  /** With `tls`: the names of which the certificate must have one; any certificate of `ca` when left out. */
  clients?: ClientNames | undefined
  /** Called with each connection that began with the preface, which the next reader still gets. */
  onConnection: (socket: Socket) => void
  /** How long the preface may take, including the handshake, in milliseconds; 10,000 if left out. */
  prefaceMs?: number | undefined
  /** How many connections there may be at a time; one more is closed at once. 4,096 if left out. */
  connectionsMax?: number | undefined
}

export interface Http2Listener {
  /** The address listened on, with the port that was given. */
  address: string
  /** Takes no new connection, and closes those that have not begun. */
  close: () => void
}

/** RFC 9113 §3.4: what every client sends first, before it has received anything. */
const PREFACE = Buffer.from('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n', 'latin1')
const PREFACE_MS = 10_000

/** Starts listening. Rejects when the address cannot be bound or the certificates cannot be used. */
export async function startHttp2Listener(options: Http2ListenerOptions): Promise<Http2Listener> {
  const { tls, clients, onConnection, prefaceMs = PREFACE_MS } = options
  // The handshake has half of the time, because afterwards nothing says when the connection was made.
  const eachMs = tls === undefined ? prefaceMs : prefaceMs / 2
  const beginning = new Set<Socket>()
  const greet = (socket: Socket): void => {
    beginning.add(socket)
    awaitPreface(socket, eachMs, begun => {
      beginning.delete(socket)
      if (begun) onConnection(socket)
    })
  }
  const greetKnown = (socket: Socket): void => {
    if (clients === undefined || admits(socket, clients)) greet(socket)
  }
  const server = tls === undefined ? createServer(greet) : mutualServer(tls, eachMs, greetKnown)
  server.maxConnections = options.connectionsMax ?? CONNECTION_BOUNDS.connectionsMax
  const address = await bind(server, options.address)
  return {
    address,
    close: () => {
      server.close()
      for (const socket of beginning) socket.destroy()
    },
  }
}

function mutualServer(
  certificates: Certificates<MutualTls>,
  handshakeTimeout: number,
  greet: (socket: Socket) => void,
): Server {
  requireUsable(certificates.current())
  const tlsOptions = { requestCert: true, rejectUnauthorized: true, ALPNProtocols: ['h2'], handshakeTimeout }
  const server = createTlsServer({ ...certificates.current(), ...tlsOptions }, greet)
  // Node reports a handshake that failed or timed out, but leaves the connection open.
  server.on('tlsClientError', (_error, socket: Socket) => socket.destroy())
  certificates.onReload(renewed => server.setSecureContext(renewed))
  return server
}

/**
 * Reads no more than comes with the preface, and puts it back. A connection that begins otherwise is closed
 * at once, as is one that does not begin in time.
 */
function awaitPreface(socket: Socket, withinMs: number, done: (begun: boolean) => void): void {
  let preface = Buffer.alloc(0)
  const cut = setTimeout(() => socket.destroy(), withinMs).unref()
  const end = (begun: boolean): void => {
    clearTimeout(cut)
    socket.off('readable', onReadable).off('close', onClose)
    done(begun)
  }
  const onClose = (): void => end(false)
  const onReadable = (): void => {
    const bytes = socket.read() as Buffer | null
    if (bytes !== null) preface = Buffer.concat([preface, bytes])
    const length = Math.min(preface.length, PREFACE.length)
    if (!preface.subarray(0, length).equals(PREFACE.subarray(0, length))) socket.destroy()
    else if (length === PREFACE.length) {
      socket.unshift(preface)
      end(true)
    } else if (socket.readableEnded) socket.destroy()
  }
  // Without a listener an error of a connection would end the process.
  socket.on('error', () => socket.destroy())
  socket.on('readable', onReadable).on('close', onClose)
}
