/** Owns a TCP link to a server that a test can cut and mend: what a failover looks like to its clients. */
import { connect, createServer, type AddressInfo, type Socket } from 'node:net'

export interface SeverableLink {
  /** The URL of the server, reached through this link. */
  url: string
  /** Breaks every connection, and lets no new one through. */
  cut(): void
  /** Lets nothing more through on the open connections, and breaks none: what a frozen server looks like. */
  freeze(): void
  /**
   * Accepts new connections, and never sends anything on them, like a server whose machine still accepts
   * connections for it.
   */
  silence(): void
  mend(): void
  /** New connections go to this server from now on. */
  leadTo(target: string): void
  close(): Promise<void>
}

/** A link to the server of a `postgres://` URL. */
export async function severableLink(target: string): Promise<SeverableLink> {
  let { hostname, port } = new URL(target)
  const sockets = new Set<Socket>()
  let severed = false
  let silent = false
  const track = (socket: Socket): Socket => {
    sockets.add(socket)
    return socket.on('error', () => socket.destroy()).on('close', () => sockets.delete(socket))
  }
  const server = createServer(incoming => {
    track(incoming)
    if (severed) return void incoming.destroy()
    if (silent) return
    const outgoing = track(connect(Number(port), hostname))
    incoming.pipe(outgoing).pipe(incoming)
    incoming.on('close', () => outgoing.destroy())
    outgoing.on('close', () => incoming.destroy())
  })
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  const freeze = (): void => {
    for (const socket of sockets) socket.unpipe().pause()
  }
  const url = new URL(target)
  url.hostname = '127.0.0.1'
  url.port = String((server.address() as AddressInfo).port)
  const cut = (): void => {
    severed = true
    for (const socket of sockets) socket.destroy()
  }
  return {
    url: url.href,
    cut,
    freeze,
    silence: () => (silent = true),
    mend: () => (severed = silent = false),
    leadTo: other => ({ hostname, port } = new URL(other)),
    close: async () => {
      cut()
      await new Promise(resolve => server.close(resolve))
    },
  }
}
