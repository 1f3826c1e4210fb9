/**
 * Owns the HTTP door for its tests: on a socket, with a core that only records what it was asked.
 */
import { onTestFinished } from 'vitest'
import type { Call } from '../../src/enforcement/call.ts'
import { createHealth, type Health } from '../../src/enforcement/telemetry/health.ts'
import {
  startHttpCheckServer,
  type HttpCheckServerOptions,
} from '../../src/enforcement/doors/http/check-server.ts'
import { ALLOW } from './check-door.ts'
import { httpCheckClient, type HttpCheckClient } from './http-check-client.ts'

export const BODY_BYTES_MAX = 1_000

/** The door, who asks at it, and what it told. */
export interface Stand {
  client: HttpCheckClient
  calls: Call[]
  unjudged: (string | undefined)[]
  faults: unknown[]
  health: Health
  address: string
  /** Stops the door; it is stopped anyway once the test is finished. */
  stop: () => Promise<void>
}

/**
 * A door on a socket until the test is finished, behind it a decision that lets everything through unless the
 * options say otherwise.
 */
export async function stand(options: Partial<HttpCheckServerOptions> = {}): Promise<Stand> {
  const [calls, unjudged, faults]: [Call[], (string | undefined)[], unknown[]] = [[], [], []]
  const health = createHealth()
  health.set(true)
  const { decide = async () => ALLOW, ...rest } = options
  const server = await startHttpCheckServer({
    address: { host: '127.0.0.1', port: 0 },
    health,
    gateway: {},
    outageStatus: 503,
    bodyBytesMax: BODY_BYTES_MAX,
    deadlineMs: 2_000,
    deadlineMarginMs: 100,
    onUnjudged: denied => unjudged.push(denied.metadata['reason']),
    report: fault => faults.push(fault),
    decide: async call => {
      calls.push(call)
      return decide(call)
    },
    ...rest,
  })
  const client = httpCheckClient(server.address)
  onTestFinished(async () => {
    client.close()
    await server.stop(100)
  })
  return { client, calls, unjudged, faults, health, address: server.address, stop: () => server.stop(100) }
}
