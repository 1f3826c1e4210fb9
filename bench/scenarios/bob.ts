/**
 * Owns bob: the owner who is measured while another one is busy. His enforcement point asks at a fixed rate,
 * in turn about a standing grant and to spend one for a single use, and each call is timed from when it was
 * due.
 */
import { thumbprintHandle } from '../../src/wire/agents/handles.ts'
import { asOwner } from '../../src/wire/identifiers.ts'
import type { PrivateKey } from '../../src/wire/signatures/keys.ts'
import * as seed from '../../test/support/seed.ts'
import { percentile } from '../figures.ts'
import type { System } from '../system.ts'
import type { WorldOfOwner } from '../world.ts'
import { openAuthority } from './negotiation.ts'
import { paced } from './paced.ts'
import { openProtection } from './protection-door.ts'

/**
 * Far below what the authority can do, so that the waiting for her is measured, not the waiting for the CPU.
 */
export const BOB_CALLS_PER_SECOND = 100

/** What bob saw for some seconds. */
export interface BobSaw {
  p50_ms: number
  p99_ms: number
  errors: number
}

export interface Bob {
  /** Calls for so long, and ends when all is answered. An answer that is wrong, or none, is an error. */
  call(seconds: number): Promise<BobSaw>
  close(): Promise<void>
}

/** What a resource server of an owner that `test/support/seed.ts` made must know. */
export function worldOfSeeded({ world: { issuer } }: System, name: string): WorldOfOwner {
  return {
    issuer,
    owner: asOwner(name),
    clientId: seed.CLIENT_ID,
    clientSecret: seed.CLIENT_SECRET,
  }
}

/**
 * Makes him on a system that runs, with a standing grant of this agent, and as many for a single use as he
 * spends in so many seconds in all. `connections`: more than he can have calls unanswered.
 */
export async function openBob(
  system: System,
  { agent, seconds, connections }: { agent: PrivateKey; seconds: number; connections: number },
): Promise<Bob> {
  const { db, pool } = system.database
  const name = await seed.seedOwner(db)
  await seed.seedConnection(db, name, thumbprintHandle(agent))
  const world = worldOfSeeded(system, name)
  const negotiating = await openAuthority(world, { inFlight: 1, connections: 1 }, 'notes')
  const standing = await negotiating.negotiate(agent)
  await negotiating.close()
  await pool.query(
    `INSERT INTO grants (owner, rpt_sha256, jti, family, handle, generation, client_id, aud, resource_id,
       tier_id, tier_epoch, hold, single_use, claims, expires_at)
     SELECT owner, sha256(('${unspent('')}' || n)::bytea), 'rpt_bob_' || n, 'fam_bob_' || n, handle, generation,
       client_id, aud, resource_id, tier_id, tier_epoch, hold, true, claims, now() + interval '1 hour'
     FROM generate_series(1, $2::int) n, (SELECT * FROM grants WHERE owner = $1 LIMIT 1) g`,
    [name, (BOB_CALLS_PER_SECOND / 2) * seconds],
  )
  const door = await openProtection(world, { connections })
  let nextUnspent = 1
  const one = async (n: number): Promise<void> => {
    const done =
      n % 2 === 0
        ? (await door.introspect(standing))['active']
        : (await door.consume(unspent(nextUnspent++)))['consumed']
    if (done !== true) throw new Error('bob was answered wrongly')
  }
  return {
    call: async seconds => {
      const times: number[] = []
      let errors = 0
      await paced(BOB_CALLS_PER_SECOND, seconds, async (n, dueAt) => {
        await one(n).catch(() => errors++)
        times.push(performance.now() - dueAt)
      })
      const sorted = times.toSorted((a, b) => a - b)
      return { p50_ms: percentile(sorted, 0.5), p99_ms: percentile(sorted, 0.99), errors }
    },
    close: () => door.close(),
  }
}

const unspent = (n: number | string): string => `unspent-grant-of-bob-${n}`
