/**
 * Owns what a request is compared with: the last call of the same tool that she approved. Contract: "Owner
 * API" (pending, ledger, receipts); an addition of ours (docs/choices.md).
 */
import { operationOf } from '../../../rules/agreement.ts'
import type { Db } from '../../../storage/authority/database.ts'
import { readLedger, type LedgerEntryRow } from '../../../storage/authority/ledger/ledger.ts'
import { receiptsOfFamilies } from '../../../storage/authority/ledger/receipts.ts'
import type { DecisionItem } from '../../../wire/owner/decision-item.ts'
import { decodeBase64url } from '../../../wire/encoding.ts'
import { parseJsonObject, type JsonObject } from '../../../wire/json.ts'
import type { ApprovedBefore } from '../../../wire/owner/owner-api.ts'

/** How many approvals of one agent are read at once; for most people, a page covers years. */
const APPROVALS_PER_READ = 100

/**
 * The last grant for a call of the same tool, at the same resource, by the same agent, that rests on her own
 * approval, as far back as her ledger goes; null if there is none. The ledger says what she approved. The
 * receipt holds the agreement that names the call, in the agent's own signed bytes.
 */
export async function approvedBefore(db: Db, item: DecisionItem): Promise<ApprovedBefore | null> {
  const { owner, agent, operation, resource_id } = item
  if (operation === undefined) return null
  let before: number | undefined
  for (;;) {
    const page = { handle: agent.handle, kind: 'approved', after: 0, before, first: 'newest' } as const
    const entries = await readLedger(db, owner, { ...page, limit: APPROVALS_PER_READ })
    const hers = entries.filter(entry => isHersAt(entry, resource_id))
    const receipts = await receiptsOfFamilies(
      db,
      owner,
      hers.map(({ family }) => family!),
    )
    for (const { family, ts } of hers) {
      const agreement_jws = agreementIn(receipts.get(family!))
      if (agreement_jws === undefined) continue
      if (operationOf(payloadOf(agreement_jws))?.tool === operation.tool)
        return { family: family!, approved_at: ts, agreement_jws }
    }
    if (entries.length < APPROVALS_PER_READ) return null
    before = entries.at(-1)!.seq
  }
}

function isHersAt({ family, data }: LedgerEntryRow, resource_id: string): boolean {
  const { by, resource_id: at } = data as { by?: string; resource_id?: string }
  return family !== null && by === 'owner' && at === resource_id
}

/** An approval that was never collected has no receipt. */
function agreementIn(receipt: string | undefined): string | undefined {
  const agreement = receipt === undefined ? undefined : payloadOf(receipt)['agreement_jws']
  return typeof agreement === 'string' ? agreement : undefined
}

/** Reads a document that this authority verified, or signed, when it was stored. */
function payloadOf(compact: string): JsonObject {
  return parseJsonObject(decodeBase64url(compact.split('.')[1] ?? ''))
}
