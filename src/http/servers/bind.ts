/**
 * Owns how a plain Node server listens at one of our addresses. Contract: "Owner's authorization server:
 * public" (every listener is configured by one line).
 */
import type { AddressInfo, Server } from 'node:net'
import { formatListenAddress, type ListenAddress } from './listen-address.ts'
import { removeStaleSocket } from './unix-socket.ts'

/**
 * Listens, and returns the address as text, with the port that was really given. Rejects if the address
 * cannot be bound.
 */
export async function bind(server: Server, address: ListenAddress): Promise<string> {
  if ('path' in address) await removeStaleSocket(address.path)
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject)
    server.listen(address, () => {
      server.off('error', reject)
      resolve()
    })
  })
  if ('path' in address) return formatListenAddress(address)
  return formatListenAddress({ host: address.host, port: (server.address() as AddressInfo).port })
}
