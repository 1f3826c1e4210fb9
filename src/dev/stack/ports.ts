/**
 * Owns the choice of loopback ports for a local stack. Contract: "Parties": each listens for itself.
 */
import { connect, createServer } from 'node:net'

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
 * The ports to take if nothing listens there yet, by what listens there; for the first replica of each.
 */
export type PreferredPorts = Partial<
  Record<'envoy' | 'authority' | 'owner' | 'check' | 'documents' | 'tool', number>
>

/** Ports for a whole stack: the preferred ones if they are free, else any. */
export async function choosePorts(needs: {
  sidecars: number
  authorities: number
  preferred: PreferredPorts
}): Promise<StackPorts> {
  const { preferred, sidecars, authorities } = needs
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

/**
 * The ports are below those that systems give to outgoing connections (from 32768 on by default, elsewhere
 * from 49152): of those, any connection may take the one that was just found free.
 */
const LOWEST = 10_240
const COUNT = 32_768 - LOWEST
/** Far apart for processes that follow each other, as the workers of a test run do. */
let next = (process.pid * 7919) % COUNT

/**
 * This many different loopback ports that were free a moment ago. Each process searches its own range, so
 * that two processes do not get the same port before either listens there.
 */
export async function freePorts(count: number): Promise<[number, ...number[]]> {
  const ports: number[] = []
  for (let tried = 0; ports.length < count; tried++) {
    if (tried === COUNT) throw new Error(`No ${count} ports from ${LOWEST} on are free on 127.0.0.1.`)
    const port = LOWEST + next
    next = (next + 1) % COUNT
    if (await isFree(port)) ports.push(port)
  }
  return ports as [number, ...number[]]
}

function isFree(port: number): Promise<boolean> {
  const probe = createServer()
  return new Promise(resolve => {
    probe.once('error', () => resolve(false))
    probe.listen(port, '127.0.0.1', () => probe.close(() => resolve(true)))
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
