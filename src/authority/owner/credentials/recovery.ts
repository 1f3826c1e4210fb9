/**
 * A recovery that was started for her, and how any of her credentials stops it. Contract: "Authentication"
 * (owner at the owner API).
 */
import { z } from 'zod'
import { endpoint, type Endpoint } from '../../../http/servers/endpoint.ts'
import { appendEvent } from '../../../storage/authority/ledger/events.ts'
import { appendLedger } from '../../../storage/authority/ledger/ledger.ts'
import { cancelRecovery, readRecovery } from '../../../storage/authority/credentials/recoveries.ts'
import { refuse } from '../../../wire/refusal.ts'
import type { OwnerApi } from '../api.ts'
import { changeAs, OWNER } from './guard.ts'

const rows = { addedUnder: 'Authentication' } as const
const RECOVERY = z
  .strictObject({ started_at: z.string(), in_force_at: z.string(), expires_at: z.string() })
  .meta({ id: 'Recovery' })

/** What waits, and its end. */
export const RECOVERIES: readonly Endpoint<OwnerApi>[] = [
  endpoint({
    method: 'get',
    path: '/owner/recovery',
    rows,
    summary: 'Whether somebody is about to get a credential of hers by a recovery, and from when on',
    credential: OWNER,
    answers: {
      200: { says: 'Null if none waits.', schema: z.strictObject({ recovery: RECOVERY.nullable() }) },
    },
    handle: async ({ database }: OwnerApi, { caller, answer }) =>
      answer(200, { recovery: (await readRecovery(database.of(caller.owner), caller.owner)) ?? null }),
  }),
  endpoint({
    method: 'delete',
    path: '/owner/recovery',
    rows,
    summary: 'Ends a recovery before it is used: its code is good for nothing',
    credential: OWNER,
    answers: { 200: { says: 'Ended.', schema: z.strictObject({ cancelled: RECOVERY }) } },
    refuses: { 404: ['not_found'] },
    handle: async (api: OwnerApi, { caller, answer }) => {
      const { owner, actor } = caller
      const cancelled = await changeAs(api, caller, async tx => {
        const was = await cancelRecovery(tx, owner)
        if (was === undefined) refuse('not_found', 'No recovery waits: there is none, or it was used.')
        const data = { in_force_at: was.in_force_at, by: 'owner', actor }
        await appendLedger(tx, owner, { kind: 'recovery_cancelled', data })
        await appendEvent(tx, owner, 'recovery', { what: 'cancelled', ...data })
        return was
      })
      return answer(200, { cancelled })
    },
  }),
]
