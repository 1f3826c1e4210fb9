/**
 * An agent redeems an emergency window. Contract: "The organization's authority" (`/break-glass`).
 */
import { z } from 'zod'
import { endpoint, type Endpoint } from '../../http/servers/endpoint.ts'
import { refuseWhileOff } from '../../surface/clock.ts'
import { s256 } from '../../wire/encoding.ts'
import { ORGANIZATION_PATH, POP } from '../../wire/names.ts'
import type { Organization } from '../context.ts'
import { reportingRefusal } from '../security-log.ts'
import { AGENT_KEY } from './asker.ts'
import { redeem } from './redemption.ts'
import { admit, BREAK_GLASS_REQUEST } from './request.ts'

const GRANTED = z.strictObject({ access_token: z.string(), token_type: z.literal(POP), expires_in: z.int() })

export const BREAK_GLASS: readonly Endpoint<Organization>[] = [
  endpoint({
    method: 'post',
    path: ORGANIZATION_PATH.breakGlass,
    rows: ['org-break-glass'],
    summary: 'Redeems a voucher, or an invoker’s standing, for one call of one operation of a member',
    credential: AGENT_KEY,
    body: { schema: BREAK_GLASS_REQUEST },
    answers: {
      200: {
        says: 'The grant: single-use, bound to the key that signed, accepted by her authorization server.',
        schema: GRANTED,
        headers: { 'cache-control': 'no-store' },
      },
    },
    refuses: { 403: ['request_denied'], 404: ['not_found'], 429: ['temporarily_unavailable'] },
    handle: async (organization: Organization, { caller, body, request, answer }) => {
      refuseWhileOff(organization.clock)
      const { owner, resource_id } = body
      const attempt = { event: 'emergency_refused', source: request.ip, ids: { owner, resource_id } } as const
      const { token, expires_in } = await reportingRefusal(organization, attempt, async () => {
        const admitted = await admit(organization, body, caller.key)
        const bodyDigest = s256(request.rawBody ?? '')
        return redeem(organization, { ...caller, ...admitted, request: body, bodyDigest })
      })
      return answer(200, { access_token: token, token_type: POP, expires_in })
    },
  }),
]
