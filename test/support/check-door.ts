/**
 * Owns the ext_authz door as tests meet it: the real gRPC server, a real client, and a `decide` that the test
 * gives.
 */
import { afterAll, beforeAll, beforeEach } from 'vitest'
import type { Allowed, Call, Outcome } from '../../src/enforcement/call.ts'
import { startCheckServer, type CheckServer } from '../../src/enforcement/doors/grpc/check-server.ts'
import { createHealth } from '../../src/enforcement/telemetry/health.ts'
import { connect, type CheckClient } from './check-client.ts'

export const BODY_BYTES_MAX = 2_000

/** The barest allow. */
export const ALLOW: Allowed = { kind: 'allow', headers: {}, remove: [], metadata: {} }

export interface CheckDoorStand {
  client: CheckClient
  /** What is decided; allows unless the test says otherwise. */
  decide: (call: Call) => Promise<Outcome>
  /** The calls that were judged in this test, and the faults reported. */
  calls: Call[]
  faults: unknown[]
  /** The codes of denials that were not judged. */
  unjudged: (string | undefined)[]
}

/** A door for all tests of a suite; what it is told begins anew with each. */
export function standCheckDoor(): CheckDoorStand {
  let server: CheckServer
  const stand: CheckDoorStand = {
    client: undefined as unknown as CheckClient,
    decide: allow,
    calls: [],
    faults: [],
    unjudged: [],
  }
  beforeAll(async () => {
    server = await startCheckServer({
      address: '127.0.0.1:0',
      health: createHealth(),
      bodyBytesMax: BODY_BYTES_MAX,
      deadlineMarginMs: 100,
      onUnjudged: denied => stand.unjudged.push(denied.metadata['reason']),
      report: fault => stand.faults.push(fault),
      decide: async call => {
        stand.calls.push(call)
        return stand.decide(call)
      },
    })
    stand.client = connect(server.address)
  })
  beforeEach(() => {
    Object.assign(stand, { decide: allow, calls: [], faults: [], unjudged: [] })
  })
  afterAll(async () => {
    stand.client.close()
    await server.stop(100)
  })
  return stand
}

async function allow(): Promise<Outcome> {
  return ALLOW
}
