/**
 * Origins that the owner has banned: none of their resource servers may register with her. Contract:
 * "Resource server registration".
 */
import { z } from 'zod'
import { endpoint, type Endpoint } from '../../../http/servers/endpoint.ts'
import {
  banOrigin,
  listBannedOrigins,
  unbanOrigin,
} from '../../../storage/authority/connections/banned-origins.ts'
import { appendLedger } from '../../../storage/authority/ledger/ledger.ts'
import { pendingAt } from '../../../storage/authority/registry/registrations.ts'
import type { Banned, BannedOrigin } from '../../../wire/owner/owner-api.ts'
import { refuse } from '../../../wire/refusal.ts'
import { LEASES_AWAITED, runAndAwaitLeases } from '../../protection/lease-wait.ts'
import { withdrawLapsed } from '../../registry/lapsed-registrations.ts'
import type { OwnerApi } from '../api.ts'
import { changeAs, OWNER, type OwnerCredential } from '../credentials/guard.ts'
import { ownerList } from '../lists.ts'
import { CLIENT_ID } from '../../../wire/documents/names.ts'
import { admittedOrigin, NAMED_ORIGIN } from './origins.ts'
import { writeDecision } from './resource-servers.ts'

const origin = z.string()
const BANNED_ORIGIN: z.ZodType<BannedOrigin> = z
  .object({ origin, banned_at: z.string() })
  .meta({ id: 'BannedOrigin' })
const BANNED: z.ZodType<Banned> = z
  .object({
    origin,
    banned: z.literal(true),
    withdrawn: z.array(CLIENT_ID),
    ...LEASES_AWAITED,
  })
  .meta({ id: 'Banned' })
const UNBANNED = z.object({ origin, banned: z.literal(false) })

/** The bans, a new one, and the end of one. */
export const BANNED_ORIGINS: readonly Endpoint<OwnerApi>[] = [
  ownerList({
    path: '/owner/resource-servers/banned',
    rows: { addedUnder: 'Owner API' },
    summary: 'Origins whose resource servers may not register',
    says: 'By origin.',
    item: BANNED_ORIGIN,
    list: listBannedOrigins,
    key: 'origin',
    show: row => ({ origin: row.origin, banned_at: row.banned_at }),
  }),
  endpoint({
    method: 'post',
    path: '/owner/resource-servers/ban',
    rows: { addedUnder: 'Owner API' },
    summary: 'Bans an origin: its resource servers may not register any more',
    credential: OWNER,
    body: { schema: NAMED_ORIGIN },
    answers: { 200: { says: 'Banned; and which that waited there are withdrawn with it.', schema: BANNED } },
    handle: async (api: OwnerApi, { caller, body, answer }) =>
      answer(200, await runAndAwaitLeases(() => ban(api, caller, admittedOrigin(api, body.origin)))),
  }),
  endpoint({
    method: 'post',
    path: '/owner/resource-servers/unban',
    rows: { addedUnder: 'Owner API' },
    summary: 'Lets the resource servers of an origin register again',
    credential: OWNER,
    body: { schema: NAMED_ORIGIN },
    answers: { 200: { says: 'Servers that waited there before must register again.', schema: UNBANNED } },
    refuses: { 404: ['not_found'] },
    handle: async (api: OwnerApi, { caller, body, answer }) =>
      answer(200, await unban(api, caller, admittedOrigin(api, body.origin))),
  }),
]

/**
 * Servers that wait at the origin are withdrawn with it; servers that she has approved there stay as they
 * are. An origin may be banned before anybody asks.
 */
function ban(api: OwnerApi, credential: OwnerCredential, banned: string): Promise<Banned> {
  const { owner, actor } = credential
  return changeAs(api, credential, async tx => {
    await withdrawLapsed(tx, owner)
    if (await banOrigin(tx, owner, banned))
      await appendLedger(tx, owner, { kind: 'origin_banned', data: { origin: banned, by: 'owner', actor } })
    const withdrawn = await pendingAt(tx, owner, banned)
    for (const client_id of withdrawn)
      await writeDecision(tx, credential, { client_id, to: 'revoked', origin: banned })
    return { origin: banned, banned: true, withdrawn }
  })
}

/** Refuses 404 if she has not banned it. */
function unban(
  api: OwnerApi,
  credential: OwnerCredential,
  banned: string,
): Promise<z.output<typeof UNBANNED>> {
  const { owner, actor } = credential
  return changeAs(api, credential, async tx => {
    if (!(await unbanOrigin(tx, owner, banned))) refuse('not_found', 'You have not banned this origin.')
    await appendLedger(tx, owner, { kind: 'origin_unbanned', data: { origin: banned, by: 'owner', actor } })
    return { origin: banned, banned: false }
  })
}
