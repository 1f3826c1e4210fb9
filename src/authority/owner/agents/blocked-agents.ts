/**
 * Blocking one agent, and taking that back. What a block ends, ends in one transaction, which touches no
 * grant. Contract: "Connection" (states), "Owner API" (connections); an addition (docs/choices.md).
 */
import { z } from 'zod'
import { endpoint, type Endpoint } from '../../../http/servers/endpoint.ts'
import { plainText } from '../../../http/servers/pages.ts'
import { blockAgent, unblockAgent } from '../../../storage/authority/connections/blocked-agents.ts'
import { appendEvent } from '../../../storage/authority/ledger/events.ts'
import { appendLedger } from '../../../storage/authority/ledger/ledger.ts'
import type { Tx } from '../../../storage/authority/database.ts'
import { asHandle, type Handle } from '../../../wire/identifiers.ts'
import type { Blocked } from '../../../wire/owner/owner-api.ts'
import { refuse } from '../../../wire/refusal.ts'
import { runAndTellTallies } from '../../joint/withdrawals.ts'
import type { OwnerApi } from '../api.ts'
import { deactivated, ENDED, recordEnded } from './ended.ts'
import { changeAs, OWNER, type OwnerCredential } from '../credentials/guard.ts'
import { HANDLE } from '../../../wire/documents/names.ts'

const BLOCKED: z.ZodType<Blocked> = z
  .object({ handle: HANDLE, blocked: z.boolean(), connections_revoked: z.int().min(0), ...ENDED })
  .meta({ id: 'BlockedAgent' })

const UNKNOWN = 'You know no agent with this handle, and none waits for you.'

/** Declares an endpoint for an act on an agent. */
function onAgent(declared: {
  verb: string
  summary: string
  says: string
  act: (api: OwnerApi, credential: OwnerCredential, handle: Handle) => Promise<Blocked>
}): Endpoint<OwnerApi> {
  const { verb, summary, says, act } = declared
  return endpoint({
    method: 'post',
    path: `/owner/connections/${verb}`,
    rows: { addedUnder: 'Owner API' },
    summary,
    credential: OWNER,
    body: { schema: z.strictObject({ handle: plainText(2_048).transform(asHandle) }) },
    answers: { 200: { says, schema: BLOCKED } },
    refuses: { 404: ['not_found'] },
    handle: async (api: OwnerApi, { caller, body, answer }) =>
      answer(200, await act(api, caller, body.handle)),
  })
}

/** The endpoints: block, unblock. */
export const BLOCKED_AGENTS: readonly Endpoint<OwnerApi>[] = [
  onAgent({
    verb: 'block',
    summary: 'Revokes an agent, by handle and by key, and refuses what it asks from now on',
    says: 'What ended with it.',
    act: (api, credential, handle) =>
      runAndTellTallies(api, credential.owner, () => block(api, credential, handle)),
  }),
  onAgent({
    verb: 'unblock',
    summary: 'Lets the agent ask again; access that was ended stays ended',
    says: 'It may ask again.',
    act: unblock,
  }),
]

/** When this has answered, no grant of the agent is live. Refuses 404 if she knows no such agent. */
function block(api: OwnerApi, credential: OwnerCredential, handle: Handle): Promise<Blocked> {
  const { owner, actor } = credential
  return changeAs(api, credential, async tx => {
    const ended = (await blockAgent(tx, owner, handle, actor)) ?? refuse('not_found', UNKNOWN)
    if (ended.newly) await record(tx, credential, 'blocked', handle)
    await recordEnded(tx, owner, ended, { endedBy: 'block', actor })
    return { handle, blocked: true, connections_revoked: ended.handles.length, ...deactivated(ended) }
  })
}

function unblock(api: OwnerApi, credential: OwnerCredential, handle: Handle): Promise<Blocked> {
  return changeAs(api, credential, async tx => {
    const wasBlocked = (await unblockAgent(tx, credential.owner, handle)) ?? refuse('not_found', UNKNOWN)
    if (wasBlocked) await record(tx, credential, 'unblocked', handle)
    return { handle, blocked: false, connections_revoked: 0, rpts_deactivated: 0 }
  })
}

/** Tells her ledger and her other portals how an agent stands with her from now on. */
async function record(
  tx: Tx,
  { owner, actor }: OwnerCredential,
  kind: 'blocked' | 'unblocked',
  handle: Handle,
): Promise<void> {
  const by = { by: 'owner', actor }
  await appendLedger(tx, owner, { kind, handle, data: by })
  await appendEvent(tx, owner, `connection_${kind}`, { handle, ...by })
}
