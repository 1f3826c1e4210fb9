/**
 * Owns the network between one sidecar and the authorities of a history: it can be cut, and it can hold
 * everything up for a while, so that what is sent arrives late and in its order.
 */
import { connect, createServer, type AddressInfo, type Server, type Socket } from 'node:net'
import { setTimeout as delay } from 'node:timers/promises'
import type { Victim } from './processes.ts'

export interface Links {
  /** Where the sidecar finds each authority, in the order of the targets. */
  addresses: string[]
  victim: Victim
  close(): Promise<void>
}

/** How long a network that was cut is away: longer than a revoke takes, and shorter than a lease lasts. */
const CUT_MS = 1_000

/** A link to each of these authorities, which are disturbed together. */
export async function openLinks(name: string, targets: readonly string[]): Promise<Links> {
  const sockets = new Set<Socket>()
  let isCut = false
  let isHeld = false
  const forward = (from: Socket, to: Socket): void => {
    sockets.add(from)
    from.on('data', chunk => to.write(chunk))
    from.on('end', () => to.end())
    from.on('error', () => from.destroy())
    from.on('close', () => {
      sockets.delete(from)
      // What ended in order has still to be sent on.
      if (!from.readableEnded) to.destroy()
    })
    if (isHeld) from.pause()
  }
  const servers = await Promise.all(
    targets.map(target => {
      const { hostname, port } = new URL(target)
      return listening(incoming => {
        if (isCut) return void incoming.destroy()
        const outgoing = connect(Number(port), hostname)
        forward(incoming, outgoing)
        forward(outgoing, incoming)
      })
    }),
  )
  const cut = (): void => {
    isCut = true
    for (const socket of sockets) socket.destroy()
  }
  const cutForAWhile = async (): Promise<void> => {
    cut()
    await delay(CUT_MS)
  }
  return {
    addresses: servers.map(server => `http://127.0.0.1:${(server.address() as AddressInfo).port}`),
    victim: {
      name,
      kill: cutForAWhile,
      end: cutForAWhile,
      start: async () => void (isCut = false),
      hold: () => {
        isHeld = true
        for (const socket of sockets) socket.pause()
      },
      release: () => {
        isHeld = false
        for (const socket of sockets) socket.resume()
      },
    },
    close: async () => {
      cut()
      await Promise.all(servers.map(server => new Promise(resolve => server.close(resolve))))
    },
  }
}

function listening(onConnection: (socket: Socket) => void): Promise<Server> {
  return new Promise(resolve => {
    const server = createServer(onConnection)
    server.listen(0, '127.0.0.1', () => resolve(server))
  })
}
