/**
 * Other names for what an organization receives, which are accepted only if its operator lists them
 * (`UMA_ORG_ALIASES`). Contract: "The organization's authority".
 */
import { readFileSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import { parseJws, signJws } from '../../src/wire/signatures/jws.ts'
import { importPrivateJwk, type PrivateJwk } from '../../src/wire/signatures/keys.ts'
import { ORGANIZATION_ALIAS, TYP } from '../../src/wire/names.ts'
import { startMemberStand, type MemberStand } from '../support/organization-members.ts'
import { startedOnce } from '../support/started.ts'
import { accepts, redeem, refusal, stand, startEmergencies, voucher } from './emergencies.ts'

const { membershipTyp, breakGlassAcceptedTyp, discovery } = ORGANIZATION_ALIAS
startEmergencies({ UMA_ORG_ALIASES: `${membershipTyp},${breakGlassAcceptedTyp}` })
const plain = startedOnce(() => startMemberStand())
const other = startedOnce(() => startMemberStand({ environment: { UMA_ORG_ALIASES: discovery } }))

/** What the envelope of a new member answers to her own token, signed anew under this `typ`. */
async function membershipUnder(typ: string, at: MemberStand): Promise<number> {
  const { payload } = parseJws(await at.joined(`cleo-${Math.random()}`))
  const file = readFileSync(at.organization.environment['UMA_ORG_KEYS_FILE']!, 'utf8')
  const key = importPrivateJwk((JSON.parse(file) as { keys: PrivateJwk[] }).keys[0]!)
  return (await at.asMember(signJws({ typ, payload }, key), { target: '/member/envelope' })).status
}

describe('A membership token', () => {
  it('is taken under another name where that is listed, and under the contract’s always', async () => {
    for (const typ of [TYP.membership, membershipTyp]) expect(await membershipUnder(typ, stand)).toBe(200)
    for (const at of [plain, other])
      expect([await membershipUnder(TYP.membership, at), await membershipUnder(membershipTyp, at)]).toEqual([
        200, 401,
      ])
  })

  it('is nothing of another kind, whatever is listed', async () => {
    for (const typ of [breakGlassAcceptedTyp, TYP.breakGlassAccepted, TYP.clearance])
      expect(await membershipUnder(typ, stand)).toBe(401)
  })
})

describe("The yes of a member's authorization server to an emergency", () => {
  const redeemed = async (typ: string) => {
    accepts({}, typ)
    return refusal(await redeem({ voucher: await voucher() }))[0]
  }

  it('is taken under another name where that is listed, and under the contract’s always', async () => {
    expect([await redeemed(TYP.breakGlassAccepted), await redeemed(breakGlassAcceptedTyp)]).toEqual([
      200, 200,
    ])
  })

  it('is nothing of another kind, whatever is listed', async () => {
    expect(await redeemed(membershipTyp)).toBe(503)
  })
})
