/**
 * POST /joint/withdrawal: a holder takes back what she allowed. Contract: "Tally for a jointly held
 * resource"; docs/choices.md says how far it reaches.
 */
import { z } from 'zod'
import { endpoint, type Endpoint } from '../http/servers/endpoint.ts'
import { withdraw } from '../storage/tally/withdrawals.ts'
import { asOwner } from '../wire/identifiers.ts'
import { parseJws } from '../wire/signatures/jws.ts'
import { idMember } from '../wire/json-members.ts'
import { aliasIn, TALLY_ALIAS, TALLY_PATH } from '../wire/names.ts'
import { Refusal, refuse } from '../wire/refusal.ts'
import { namedSigner, verifyWithdrawal, type Withdrawal } from '../wire/joint/verdict.ts'
import { keysOfHolder, unproven, type HolderProofContext } from './holders/proof.ts'

export const WITHDRAWAL: Endpoint<HolderProofContext> = endpoint({
  method: 'post',
  path: TALLY_PATH.withdrawal,
  rows: { addedUnder: 'Tally for a jointly held resource' },
  summary: 'A holder takes back her yes; signed by her authorization server',
  body: { schema: z.object({ withdrawal: z.string().min(1).max(65_536) }) },
  answers: {
    200: {
      says: 'How many negotiations she is withdrawn from by this.',
      schema: z.object({ withdrawn: z.int().min(0) }),
      headers: { 'cache-control': 'no-store' },
    },
  },
  refuses: { 401: ['invalid_token'], 404: ['not_found'], 409: ['conflict'] },
  handle: async (of: HolderProofContext, { body: { withdrawal: compact }, answer }) => {
    const withdrawal = await verified(of, compact)
    const { iss: issuer, holder, account, jti, exp } = withdrawal
    const negotiations = 'all' in withdrawal ? ('all' as const) : withdrawal.negotiations
    const extent = { account, holder, issuer, jti, exp, negotiations }
    const withdrawn = await withdraw(of.database.ofNobody, extent)
    if (withdrawn === undefined) refuse('conflict', 'This withdrawal was received before.')
    return answer(200, { withdrawn })
  },
})

/**
 * 404 for an unknown account; 401 for a caller that is no holder of it, or did not sign; 503 without her
 * keys.
 */
async function verified(of: HolderProofContext, compact: string): Promise<Withdrawal> {
  const jws = parseJws(compact)
  const signer = namedSigner(jws)
  const { issuer } = signer
  const account = asOwner(idMember(jws.payload, 'account'))
  const keys = await keysOfHolder(of, { ...signer, account }, 'withdrawal')
  try {
    const typAlias = aliasIn(of.aliases, TALLY_ALIAS.verdictWithdrawalTyp)
    return verifyWithdrawal(compact, keys, { issuer, audience: of.issuer, now: of.now(), typAlias })
  } catch (error) {
    if (error instanceof Refusal && /negotiations|jti/.test(error.detail ?? '')) throw error
    throw unproven('withdrawal')
  }
}
