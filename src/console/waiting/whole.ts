/**
 * Owns what is shown with a request: the agent's own words, read from the agreement that it signed, and only
 * if the record names that agreement and its key signed it; what she knows about the agent; and the last such
 * call that she approved. Contract: "Agreement" (reason, mission, operation), "Owner API"
 * (`/owner/pending/{family}`).
 */
import { operationOf } from '../../rules/agreement.ts'
import type { DecisionItem } from '../../wire/owner/decision-item.ts'
import { isJsonObject, type JsonObject } from '../../wire/json.ts'
import type { WholePendingItem } from '../../wire/owner/owner-api.ts'
import { ask, type Access } from '../access/api.ts'
import { selfSignedAgreement, signedAgreement } from '../jws.ts'
import { useLoaded } from '../access/session.ts'

/** A call that she approved; `at` is ISO 8601. */
export interface EarlierCall {
  at: string
  params: JsonObject
}

export interface Whole {
  /** Why it asks, in its own words; `forged`: the server gave words that this agent did not sign. */
  ownWords:
    | { reason: string | undefined; approver: string | undefined; client: string | undefined }
    | 'forged'
  connection: WholePendingItem['connection']
  /**
   * Null if she has not approved a call of this tool by this agent yet, or if it is no call; undefined if the
   * server gave one that this agent did not sign.
   */
  earlier: EarlierCall | null | undefined
}

/**
 * Undefined until it is there; a card does not wait for it. While nobody answers, `fault` says so, and it is
 * asked for again.
 */
export function useWhole(item: DecisionItem): { whole: Whole | undefined; fault: string | undefined } {
  const { data, fault } = useLoaded(access => wholeOf(access, item), /^(connection|reset)/)
  return { whole: data, fault }
}

async function wholeOf(access: Access, item: DecisionItem): Promise<Whole> {
  const path = `owner/pending/${encodeURIComponent(item.family)}`
  const read = await ask<WholePendingItem>(access, { path })
  return verifiedWhole(item, read).catch((): Whole => ({
    ownWords: 'forged',
    connection: null,
    earlier: undefined,
  }))
}

/** Fails where what was read is no such answer. */
async function verifiedWhole(item: DecisionItem, read: WholePendingItem): Promise<Whole> {
  const { agreement_jws, approved_before, connection } = read
  const earlier = approved_before && (await earlierOf(item, approved_before))
  const named = { agreement: item.agreement_s256, jkt: item.agent.jkt }
  const claims = await signedAgreement(agreement_jws, named)
  if (claims === undefined) return { ownWords: 'forged', connection, earlier }
  const { reason, mission, client_name } = claims
  const approver = isJsonObject(mission) ? mission['approver'] : undefined
  const ownWords = {
    reason: typeof reason === 'string' && reason !== '' ? reason : undefined,
    approver: typeof approver === 'string' ? approver : undefined,
    client: typeof client_name === 'string' && client_name !== '' ? client_name : undefined,
  }
  return { ownWords, connection, earlier }
}

/**
 * Read from what the agent signed then, and only if it did: an identified agent may have had another key. A
 * call of another tool is not comparable.
 */
async function earlierOf(
  { operation, agent }: DecisionItem,
  { approved_at, agreement_jws }: NonNullable<WholePendingItem['approved_before']>,
): Promise<Whole['earlier']> {
  const agreed = await selfSignedAgreement(agreement_jws)
  if (agreed === undefined || (agent.identity === 'pseudonymous' && agreed.jkt !== agent.jkt))
    return undefined
  const called = operationOf(agreed.claims)
  return called === undefined || called.tool !== operation?.tool
    ? null
    : { at: approved_at, params: called.params }
}
