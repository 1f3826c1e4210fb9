/**
 * The receipts of the owner's grants, as she reads them. Contract: "Grant answer (beat 4)", "Owner API".
 */
import { z } from 'zod'
import { endpoint, type Endpoint } from '../../http/servers/endpoint.ts'
import { NUMBERED_PAGE, plainText } from '../../http/servers/pages.ts'
import { readReceipts } from '../../storage/authority/ledger/receipts.ts'
import { FAMILY, HANDLE } from '../../wire/documents/names.ts'
import { asFamily } from '../../wire/identifiers.ts'
import type { ReceiptRecord } from '../../wire/owner/owner-api.ts'
import type { OwnerApi } from './api.ts'
import { OWNER } from './credentials/guard.ts'
import { numberedPage } from './lists.ts'

const text = z.string()
const count = z.int().min(0)
const RECEIPT: z.ZodType<ReceiptRecord> = z
  .object({
    seq: count,
    family: FAMILY,
    jti: text,
    handle: HANDLE,
    issued_at: text,
    receipt: text,
  })
  .meta({ id: 'Receipt' })

export const RECEIPTS: readonly Endpoint<OwnerApi>[] = [
  endpoint({
    method: 'get',
    path: '/owner/receipts',
    rows: { addedUnder: 'Owner API' },
    summary: 'What agents signed and what they were granted for it, counter-signed, oldest first',
    credential: OWNER,
    query: NUMBERED_PAGE.extend({ family: plainText(200).transform(asFamily).optional() }),
    answers: {
      200: {
        says: 'A page; `next` is the `after` of the following one. `jti` is of the grant.',
        schema: z.object({ receipts: z.array(RECEIPT), next: count.nullable() }),
      },
    },
    handle: async (api: OwnerApi, request) => {
      const { items, next } = await numberedPage(api, request, readReceipts)
      return request.answer(200, { receipts: items, next })
    },
  }),
]
