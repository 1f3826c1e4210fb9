/**
 * Owns an agent's own words about a request, as a person reads them at her terminal: from bytes that the key
 * of the request signed, apart from the facts, and marked as its claim. Contract: "Agreement (claim_token,
 * beat 3)" (reason, mission), "Owner API" (`/owner/pending/{family}`).
 */
import { ApiError } from '../client/api-error.ts'
import { record } from '../terminal/printable.ts'
import type { DecisionItem } from '../wire/decision-item.ts'
import { isJsonObject, type Json } from '../wire/json.ts'
import { verifyKnownAgreement } from '../wire/known-agreement.ts'
import { Refusal } from '../wire/refusal.ts'
import type { OwnerClient } from './client.ts'

/** `forged`: the authority gave words that this agent did not sign; `unread`: it gave none. */
export type OwnWords =
  | { reason: string | undefined; approver: string | undefined; client: string | undefined }
  | 'forged'
  | 'unread'

/** Reads them from the agreement that the item names; `unread` if the authority does not answer with one. */
export async function readOwnWords(
  client: Pick<OwnerClient, 'pendingRequest'>,
  item: DecisionItem | undefined,
): Promise<OwnWords> {
  if (item === undefined) return 'unread'
  const compact = await agreementOf(client, item)
  if (compact === undefined) return 'unread'
  try {
    const named = { agreement: item.agreement_s256, jkt: item.agent.jkt }
    const { reason, mission, client_name } = verifyKnownAgreement(compact, named)
    return {
      reason: textOf(reason),
      approver: isJsonObject(mission) ? textOf(mission['approver']) : undefined,
      client: textOf(client_name),
    }
  } catch (error) {
    if (!(error instanceof Refusal)) throw error
    return 'forged'
  }
}

/** They are printed below the facts, under a line that says whose they are; or a line in their place. */
export function ownWordsText(words: OwnWords): string {
  if (words === 'unread')
    return 'The agreement of the agent could not be read: its own words are not shown.\n'
  if (words === 'forged')
    return 'The authority gave other words than this agent signed. They are not shown: tell who runs the authority.\n'
  const { reason, approver, client } = words
  if (reason === undefined && approver === undefined && client === undefined)
    return 'The agent says nothing in its own words.\n'
  const said = record({ 'calls itself': client, 'says why': reason, 'mission approved by': approver }, '  ')
  return `In the agent's own words, which nobody has checked:\n${said}`
}

async function agreementOf(
  client: Pick<OwnerClient, 'pendingRequest'>,
  { family }: DecisionItem,
): Promise<string | undefined> {
  try {
    const { agreement_jws } = await client.pendingRequest(family)
    return typeof agreement_jws === 'string' ? agreement_jws : undefined
  } catch (error) {
    if (!(error instanceof ApiError)) throw error
    return undefined
  }
}

function textOf(value: Json | undefined): string | undefined {
  return typeof value === 'string' && value !== '' ? value : undefined
}
