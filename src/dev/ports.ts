/**
 * Owns the choice of loopback ports for a local stack. Contract: "Parties": each listens for itself.
 */
import { connect, createServer, type AddressInfo, type Server } from 'node:net'

export interface StackPorts {
  /** Where agents call. */
  envoy: number
  authorities: [AuthorityPorts, ...AuthorityPorts[]]
  sidecars: { check: number; documents: number }[]
  tool: number
}

interface AuthorityPorts {
  agents: number
  owner: number
}

/**
 * The ports to take where nothing listens there yet, by what listens there; for the first replica of each.
 */
export type PreferredPorts = Partial<
  Record<'envoy' | 'authority' | 'owner' | 'check' | 'documents' | 'tool', number>
>

/** Ports for a whole stack: the preferred ones where they are free, else any. */
export async function choosePorts(wanted: {
  sidecars: number
  authorities: number
  preferred: PreferredPorts
}): Promise<StackPorts> {
  const { preferred, sidecars, authorities } = wanted
  const free = await freePorts(2 + 2 * sidecars + 2 * authorities)
  const choose = async (port: number | undefined): Promise<number> =>
    port !== undefined && !(await accepts(port)) ? port : free.pop()!
  const places = (count: number, names: [keyof PreferredPorts, keyof PreferredPorts]) =>
    Promise.all(
      Array.from({ length: count }, (_, index) =>
        Promise.all(names.map(name => choose(index === 0 ? preferred[name] : undefined))),
      ),
    )
  return {
    envoy: await choose(preferred.envoy),
    authorities: (await places(authorities, ['authority', 'owner'])).map(([agents, owner]) => ({
      agents: agents!,
      owner: owner!,
    })) as StackPorts['authorities'],
    sidecars: (await places(sidecars, ['check', 'documents'])).map(([check, documents]) => ({
      check: check!,
      documents: documents!,
    })),
    tool: await choose(preferred.tool),
  }
}

/** So many different loopback ports that were free a moment ago. */
export async function freePorts(count: number): Promise<[number, ...number[]]> {
  // All are held until the last is had, so that none is given twice.
  const probes = await Promise.all(Array.from({ length: count }, listenAnywhere))
  const ports = probes.map(probe => (probe.address() as AddressInfo).port)
  await Promise.all(probes.map(probe => new Promise(resolve => probe.close(resolve))))
  return ports as [number, ...number[]]
}

async function listenAnywhere(): Promise<Server> {
  const probe = createServer()
  return new Promise((resolve, reject) => {
    probe.once('error', reject)
    probe.listen(0, '127.0.0.1', () => resolve(probe))
  })
}

/** Whether something listens on a loopback port. */
export async function accepts(port: number): Promise<boolean> {
  return new Promise(resolve => {
    const socket = connect(port, '127.0.0.1')
    socket.once('connect', () => {
      socket.destroy()
      resolve(true)
    })
    socket.once('error', () => resolve(false))
  })
}
