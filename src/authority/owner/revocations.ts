/**
 * Signed revocations as the owner reads them. docs/choices.md, "Revocations that prove themselves".
 * Contract: "Owner API".
 */
import { z } from 'zod'
import { plainText } from '../../http/servers/pages.ts'
import { endpoint, type Endpoint } from '../../http/servers/endpoint.ts'
import { refuse } from '../../wire/refusal.ts'
import type { SignedRevocation } from '../../wire/owner/owner-api.ts'
import { readSigned } from '../ledger/revocations.ts'
import type { OwnerApi } from './api.ts'
import { OWNER } from './credentials/guard.ts'

const REVOCATION: z.ZodType<SignedRevocation> = z
  .object({ revocation_jti: z.string(), revocation: z.string().nullable() })
  .meta({ id: 'SignedRevocation' })

/** Served if there are keys of the log. */
export const REVOCATION_ENDPOINT: Endpoint<OwnerApi> = endpoint({
  method: 'get',
  path: '/owner/revocations/{jti}',
  rows: { addedUnder: 'Checkpoints of the ledger' },
  summary: 'The signed revocation of one of her acts',
  credential: OWNER,
  query: z.strictObject({}),
  parameters: {
    schema: z.strictObject({ jti: plainText(200) }),
    unknown: 'You have no revocation of this id.',
  },
  refuses: { 404: ['not_found'] },
  answers: {
    200: {
      says: 'The JWT (`ext-revocation+jwt`), or null until it is signed: ask again then.',
      schema: REVOCATION,
    },
  },
  handle: async (api: OwnerApi, { caller: { owner }, parameters: { jti }, answer }) => {
    const { jwt } =
      (await readSigned(api, owner, jti)) ?? refuse('not_found', 'You have no revocation of this id.')
    return answer(200, { revocation_jti: jti, revocation: jwt })
  },
})
