/**
 * Owns the way from a cluster to what listens on this machine's loopback, where neither pods nor endpoints of
 * a Service reach. contract, "Parties".
 */
import { connect, createServer, type Server } from 'node:net'

/** Of the node: what is there is beside the cluster, as tools often are. */
export const NODE = '10.211.0.1'

/** Passes on what comes to a port of the node, any free one when left out, to that port of loopback. */
export async function openRelay(to: number, port = 0): Promise<Server> {
  const relay = createServer(incoming => {
    const outgoing = connect(to, '127.0.0.1')
    incoming.on('error', () => outgoing.destroy()).on('close', () => outgoing.destroy())
    outgoing.on('error', () => incoming.destroy()).on('close', () => incoming.destroy())
    incoming.pipe(outgoing).pipe(incoming)
  })
  await new Promise<void>((resolve, reject) => {
    relay.once('error', reject)
    relay.listen(port, NODE, resolve)
  })
  return relay
}
