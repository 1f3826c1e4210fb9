/**
 * Owns an agent's own words about a request, as a person reads them at her terminal: from bytes that the key
 * of the request signed, apart from the facts, and marked as its claim. Contract: "Agreement (claim_token,
 * beat 3)" (reason, mission), "Owner API" (`/owner/pending/{family}`).
 */
import { ApiError } from '../../client/api-error.ts'
import { readAll } from '../../client/exchange.ts'
import { record } from '../../terminal/printable.ts'
import type { DecisionItem } from '../../wire/owner/decision-item.ts'
import { isJsonObject, type Json } from '../../wire/json.ts'
import { parseJws } from '../../wire/signatures/jws.ts'
import { verifyKnownAgreement } from '../../wire/negotiation/known-agreement.ts'
import { RECEIPT_BYTES_MAX } from '../../wire/negotiation/receipt.ts'
import { Refusal } from '../../wire/refusal.ts'
import type { OwnerClient } from '../client.ts'

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

/** What programs call themselves, by the family of a request or by the handle of an agent. */
export type ClaimedNames = ReadonlyMap<string, string>

export const NO_CLAIMED_NAMES: ClaimedNames = new Map()

/** So many requests of a list are read whole; somebody who has more of them looks at one. */
const READ_WHOLE_MAX = 20
/** So many agreements of an agent are looked at for the last one that was granted. */
const PROMISES_READ_MAX = 3

/** The names that agents signed with the oldest of these requests; a name that cannot be read is left out. */
export async function claimedNamesOf(
  client: Pick<OwnerClient, 'pendingRequest'>,
  items: readonly { item?: DecisionItem | undefined }[],
): Promise<ClaimedNames> {
  const read = items.slice(0, READ_WHOLE_MAX).map(async ({ item }) => {
    const words = await readOwnWords(client, item)
    if (item === undefined || typeof words === 'string' || words.client === undefined) return []
    return [[item.family, words.client] as const]
  })
  return new Map((await Promise.all(read)).flat())
}

/**
 * What the programs behind these agents called themselves when they last agreed to terms, by handle. It is
 * read from the receipt of that agreement; a name that cannot be read is left out.
 */
export async function claimedNamesOfAgents(
  client: Pick<OwnerClient, 'ledger' | 'receipts'>,
  agents: readonly { handle: string }[],
): Promise<ClaimedNames> {
  const read = agents.slice(0, READ_WHOLE_MAX).map(async ({ handle }) => {
    const name = await lastClaimedName(client, handle)
    return name === undefined ? [] : [[handle, name] as const]
  })
  return new Map((await Promise.all(read)).flat())
}

async function lastClaimedName(
  client: Pick<OwnerClient, 'ledger' | 'receipts'>,
  handle: string,
): Promise<string | undefined> {
  try {
    const query = { handle, kind: 'promised', first: 'newest', limit: PROMISES_READ_MAX } as const
    for (const { family } of await readAll(client.ledger(query))) {
      // Nothing was granted yet for an agreement that waits.
      const [receipt] = family === undefined ? [] : await readAll(client.receipts({ family, limit: 1 }))
      if (receipt?.handle === handle) return clientIn(receipt.receipt)
    }
    return undefined
  } catch (error) {
    if (!(error instanceof Refusal || error instanceof ApiError)) throw error
    return undefined
  }
}

/** The name in the agreement that a receipt embeds, once the key that the receipt names has signed it. */
function clientIn(receipt: string): string | undefined {
  const { agreement, agreement_jws, cnf } = parseJws(receipt, RECEIPT_BYTES_MAX).payload
  const [hash, compact] = [textOf(agreement), textOf(agreement_jws)]
  const jkt = isJsonObject(cnf) ? textOf(cnf['jkt']) : undefined
  if (hash === undefined || compact === undefined || jkt === undefined) return undefined
  return textOf(verifyKnownAgreement(compact, { agreement: hash, jkt })['client_name'])
}

/** They are printed below the facts, under a line that says whose they are; or a line in their place. */
export function ownWordsText(words: OwnWords): string {
  if (words === 'unread')
    return 'The agreement of the agent could not be read: its own words are not shown.\n'
  if (words === 'forged')
    return 'The authority gave other words than this agent signed. They are not shown. Tell whoever runs your authority.\n'
  const { reason, approver, client } = words
  if (reason === undefined && approver === undefined && client === undefined)
    return 'The agent says nothing in its own words.\n'
  const ownRecord = record(
    { 'calls itself': client, 'says why': reason, 'mission approved by': approver },
    '  ',
  )
  return `In the agent's own words, which nobody has checked:\n${ownRecord}`
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
