/**
 * GET /joint/accesses/{account}: the calls on a jointly held account, only for its holders. Contract: "Tally
 * for a jointly held resource"; docs/choices.md says what co-holders see.
 */
import { z } from 'zod'
import { endpoint, type Credential, type Endpoint } from '../http/servers/endpoint.ts'
import { NUMBERED_PAGE, pageOf } from '../http/servers/pages.ts'
import { listAccesses } from '../storage/tally/accesses.ts'
import { JOINT_ACCESSES } from '../wire/documents/joint-accesses.ts'
import { asOwner, type Owner } from '../wire/identifiers.ts'
import { accessesRequester, verifyAccessesRequest } from '../wire/joint/joint-accesses.ts'
import { NAME_PATTERN, TALLY_PATH } from '../wire/names.ts'
import { Refusal } from '../wire/refusal.ts'
import { keysOfHolder, unproven, type HolderProofContext } from './holders/proof.ts'

const UNKNOWN = 'No such account is counted for here.'
const { after: before, limit } = NUMBERED_PAGE.shape

/** A request that the server of a holder of the account in the path signed just now. */
const HOLDER: Credential<HolderProofContext, Owner> = {
  names: ['holder'],
  refusal: 'invalid_token',
  async admit(of, request, run) {
    const jwt = /^bearer +([A-Za-z0-9._-]+)$/i.exec(request.headers.authorization ?? '')?.[1]
    if (jwt === undefined) throw unproven('request')
    const { account } = request.params as { account?: string }
    return run(await provenAccount(of, jwt, asOwner(account ?? '')))
  },
}

async function provenAccount(of: HolderProofContext, jwt: string, account: Owner): Promise<Owner> {
  try {
    const { issuer, ...signer } = accessesRequester(jwt)
    const keys = await keysOfHolder(of, { issuer, account, ...signer }, 'request')
    const expected = { issuer, audience: of.issuer, now: of.now() }
    if (verifyAccessesRequest(jwt, keys, expected).account !== account) throw unproven('request')
    return account
  } catch (error) {
    if (error instanceof Refusal && error.code === 'invalid_request') throw unproven('request')
    throw error
  }
}

export const ACCESSES: Endpoint<HolderProofContext> = endpoint({
  method: 'get',
  path: `${TALLY_PATH.accesses}/{account}`,
  rows: { addedUnder: 'Tally for a jointly held resource' },
  summary: 'Calls of jointly held resources, the newest first; for its holders, signed by their servers',
  credential: HOLDER,
  parameters: {
    schema: z.strictObject({ account: z.string().regex(NAME_PATTERN).transform(asOwner) }),
    unknown: UNKNOWN,
  },
  query: z.strictObject({ before, limit }),
  answers: {
    200: {
      says: 'Calls of the last 30 days; `next` is the `before` of the following page.',
      schema: JOINT_ACCESSES,
      headers: { 'cache-control': 'no-store' },
    },
  },
  refuses: { 404: ['not_found'] },
  handle: async ({ database: { ofNobody: db } }: HolderProofContext, { caller: account, query, answer }) => {
    const rows = await listAccesses(db, account, { before: query.before, limit: query.limit + 1 })
    const { items, last } = pageOf(rows, query.limit)
    return answer(200, { accesses: items, next: last?.n ?? null })
  },
})
