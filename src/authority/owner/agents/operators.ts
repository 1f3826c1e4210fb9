/**
 * The operators behind connections: list, block, unblock, claim, disclaim. Contract: "Owner API" (operators).
 */
import { z } from 'zod'
import { endpoint, type Endpoint } from '../../../http/servers/endpoint.ts'
import {
  blockOperator,
  listOperators,
  unblockOperator,
} from '../../../storage/authority/connections/connections.ts'
import { claimOperator, disclaimOperator } from '../../../storage/authority/connections/operators.ts'
import { appendLedger, appendLedgerAll } from '../../../storage/authority/ledger/ledger.ts'
import { recordRevocation } from '../../../storage/authority/ledger/revocations.ts'
import type { Operator } from '../../../wire/owner/owner-api.ts'
import { refuse } from '../../../wire/refusal.ts'
import type { OwnerApi } from '../api.ts'
import { changeAs, OWNER, type OwnerCredential } from '../credentials/guard.ts'
import { ownerList } from '../lists.ts'
import { admittedOrigin, NAMED_ORIGIN } from '../servers/origins.ts'
import { deactivated, ENDED, newRevocationJti, recordEnded, runAndSign, SIGNED_REVOCATION } from './ended.ts'

/** How long a claim waits for the operator's directory. */
const DIRECTORY_MS_MAX = 3_000

const text = z.string()
const maybe = text.nullable()
const count = z.int().min(0)

const OPERATOR: z.ZodType<Operator> = z
  .object({
    origin: text,
    name: maybe,
    agents: count,
    active: count,
    blocked: z.boolean(),
    blocked_at: maybe,
    mine: z.boolean(),
  })
  .meta({ id: 'Operator' })
const STANDING = z
  .object({ origin: text, connections_revoked: count, ...ENDED, ...SIGNED_REVOCATION })
  .meta({ id: 'OperatorStanding' })
const CLAIMED = z.object({ origin: text, mine: z.literal(true), first_party: z.array(text) })
const DISCLAIMED = z.object({ origin: text, mine: z.literal(false) })

/** Declares an endpoint for an act on an operator. */
function onOperator<Answer>(declared: {
  path: string
  rows: Endpoint<OwnerApi>['rows']
  summary: string
  says: string
  schema: z.ZodType<Answer>
  act: (api: OwnerApi, credential: OwnerCredential, origin: string) => Promise<Answer>
}): Endpoint<OwnerApi> {
  const { path, rows, summary, says, schema, act } = declared
  return endpoint({
    method: 'post',
    path,
    rows,
    summary,
    credential: OWNER,
    body: { schema: NAMED_ORIGIN },
    answers: { 200: { says, schema } },
    refuses: { 404: ['not_found'] },
    handle: async (api: OwnerApi, { caller, body, answer }) =>
      answer(200, await act(api, caller, admittedOrigin(api, body.origin))),
  })
}

/** The endpoints for operators behind connections. */
export const OPERATORS: readonly Endpoint<OwnerApi>[] = [
  ownerList({
    path: '/owner/operators',
    rows: ['owner-operators'],
    summary: 'Operators behind connections and whether blocked',
    says: 'By origin.',
    item: OPERATOR,
    list: listOperators,
    key: 'origin',
    show: row => row,
  }),
  onOperator({
    path: '/owner/operators/block',
    rows: ['owner-operators-block'],
    summary: 'Ends every connection of one operator and refuses future requests',
    says: 'What ended with it.',
    schema: STANDING,
    act: (api, credential, origin) => runAndSign(api, credential.owner, () => block(api, credential, origin)),
  }),
  onOperator({
    path: '/owner/operators/unblock',
    rows: ['owner-operators-unblock'],
    summary: 'Restores the right to negotiate, not the access withdrawn',
    says: 'What ended with it.',
    schema: STANDING,
    act: unblock,
  }),
  onOperator({
    path: '/owner/operators/claim',
    rows: { addedUnder: 'Owner API' },
    summary: 'Marks an operator as her own',
    says: 'And which of its connected agents became first-party.',
    schema: CLAIMED,
    act: claim,
  }),
  onOperator({
    path: '/owner/operators/disclaim',
    rows: { addedUnder: 'Owner API' },
    summary: 'Takes that mark back',
    says: 'Taken back.',
    schema: DISCLAIMED,
    act: disclaim,
  }),
]

/**
 * Blocks an operator, even one that is not known yet: its agents are refused from now on, and their access
 * ends.
 */
function block(
  api: OwnerApi,
  credential: OwnerCredential,
  origin: string,
): Promise<z.output<typeof STANDING>> {
  const { owner, actor } = credential
  return changeAs(api, credential, async tx => {
    const ended = await blockOperator(tx, owner, origin, actor)
    const isSigned = api.checkpoints !== undefined
    const signedBlock = ended.newly && isSigned ? newRevocationJti() : undefined
    if (signedBlock !== undefined) {
      const entry = standingEntry(credential, 'blocked', origin)
      await recordRevocation(tx, owner, { jti: signedBlock, ended: ended.handles, entry })
    } else if (ended.newly) await appendLedger(tx, owner, standingEntry(credential, 'blocked', origin))
    const how = { endedBy: 'block' as const, operator: origin, actor }
    const signedEnd = await recordEnded(tx, owner, ended, { ...how, isSigned: isSigned && !ended.newly })
    const revocation_jti = signedBlock ?? signedEnd
    return {
      origin,
      connections_revoked: ended.handles.length,
      ...deactivated(ended),
      ...(revocation_jti && { revocation_jti }),
    }
  })
}

/** Restores the right to negotiate and nothing else. 404 if the owner has no such operator. */
function unblock(
  api: OwnerApi,
  credential: OwnerCredential,
  origin: string,
): Promise<z.output<typeof STANDING>> {
  const { owner } = credential
  return changeAs(api, credential, async tx => {
    const wasBlocked =
      (await unblockOperator(tx, owner, origin)) ??
      refuse('not_found', 'You have no operator with this origin.')
    if (wasBlocked) await appendLedger(tx, owner, standingEntry(credential, 'unblocked', origin))
    return { origin, connections_revoked: 0, rpts_deactivated: 0 }
  })
}

/** The entry of her ledger that says how an operator stands with her from now on. */
function standingEntry<Kind extends 'blocked' | 'unblocked'>(
  { actor }: OwnerCredential,
  kind: Kind,
  operator: string,
): { kind: Kind; data: Record<string, unknown> } {
  return { kind, data: { operator, by: 'owner', actor } }
}

/**
 * Marks an operator as the owner's own. Its connected agents become first-party only if its directory lists
 * their keys now. The directory is read before the transaction; if it cannot be fetched, it attests none.
 */
async function claim(
  api: OwnerApi,
  credential: OwnerCredential,
  origin: string,
): Promise<z.output<typeof CLAIMED>> {
  const { owner, actor } = credential
  const patience = { deadline: Date.now() + DIRECTORY_MS_MAX, favoured: true }
  const published = await api.operators.published(origin, patience)
  return changeAs(api, credential, async tx => {
    const first_party = await claimOperator(tx, owner, origin, [...(published ?? [])])
    const data = { operator: origin, first_party, by: 'owner', actor }
    await appendLedgerAll(tx, owner, [{ kind: 'claimed', data }])
    return { origin, mine: true, first_party }
  })
}

/** Takes the mark back, and with it the standing it gave. 404 if the owner has no such operator. */
function disclaim(
  api: OwnerApi,
  credential: OwnerCredential,
  origin: string,
): Promise<z.output<typeof DISCLAIMED>> {
  const { owner, actor } = credential
  return changeAs(api, credential, async tx => {
    if (!(await disclaimOperator(tx, owner, origin)))
      refuse('not_found', 'You have no operator with this origin.')
    await appendLedgerAll(tx, owner, [{ kind: 'disclaimed', data: { operator: origin, by: 'owner', actor } }])
    return { origin, mine: false }
  })
}
