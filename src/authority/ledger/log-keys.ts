/**
 * GET /ledger/jwks: the keys by which checkpoints of owners' ledgers are verified. docs/choices.md,
 * "Checkpoints of the ledger".
 */
import { z } from 'zod'
import { ANY_ORIGIN } from '../../http/servers/any-origin.ts'
import { endpoint, type Endpoint } from '../../http/servers/endpoint.ts'
import { AUTHORITY_PATH } from '../../wire/names.ts'
import { publicJwk } from '../../wire/signatures/keys.ts'
import type { LedgerLog } from '../context.ts'

export const LOG_KEYS: Endpoint<LedgerLog> = endpoint({
  method: 'get',
  path: AUTHORITY_PATH.ledgerJwks,
  rows: { addedUnder: 'Checkpoints of the ledger' },
  summary: 'Keys that sign checkpoints of ledgers',
  answers: {
    200: {
      says: 'A JWK set: the first key signs, and the others signed before.',
      schema: z.object({ keys: z.array(z.looseObject({})) }),
      headers: { 'cache-control': 'public, max-age=300', ...ANY_ORIGIN },
    },
  },
  handle: async ({ logKeys }: LedgerLog, { answer }) =>
    answer(200, { keys: logKeys.map(key => ({ ...publicJwk(key) })) }),
})
