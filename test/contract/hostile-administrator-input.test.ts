/**
 * Whatever an organization's administrator sends to a member's authority, with a token that her organization
 * signed for it, the answer is one of the contract's; and so is whatever a tally is sent. Contract,
 * "Organization membership, on the member's authorization server", "Tally for a jointly held resource".
 */
import { randomBytes } from 'node:crypto'
import fc from 'fast-check'
import { beforeAll, describe, expect, test } from 'vitest'
import { ENDPOINTS } from '../../src/authority/endpoints.ts'
import type { Described } from '../../src/http/servers/endpoint.ts'
import { ENDPOINTS as TALLY_ENDPOINTS } from '../../src/tally/endpoints.ts'
import { s256 } from '../../src/wire/encoding.ts'
import { asOwner } from '../../src/wire/identifiers.ts'
import { signAccessesRequest } from '../../src/wire/joint/joint-accesses.ts'
import type { PrivateKey } from '../../src/wire/signatures/keys.ts'
import { signOrganizationAdmin } from '../../src/wire/organization/organization-admin.ts'
import {
  attempts,
  bytesOf,
  expectCoded,
  expectCodedElsewhere,
  HOSTILE_RUNS,
  knowing,
  targetOf,
  type Attempt,
  type Known,
} from '../support/hostile-requests.ts'
import { TALLY } from '../support/joint.ts'
import { startJointStand } from '../support/joint-stand.ts'
import { startMembershipStand } from '../support/membership.ts'
import { organizationKey } from '../support/organization-admin.ts'
import { startedOnce } from '../support/started.ts'
import { ACCOUNT } from '../support/tally.ts'
import { pendingAt, testAgent } from '../support/test-agent.ts'

const member = startedOnce(async () => {
  const stand = await startMembershipStand()
  await stand.joined()
  return stand
})
let key: PrivateKey
let membership: string
let known: Known

beforeAll(async () => {
  key = organizationKey(member)
  const { rows } = await member.authority.database.pool.query<{ join_id: string }>(
    'SELECT join_id FROM memberships',
  )
  membership = rows[0]!.join_id
  const agent = testAgent(member.authority)
  await agent.granted('portfolio_read')
  const stranger = testAgent(member.authority)
  await stranger.ask('portfolio_read')
  const { family } = (await pendingAt(member.authority)).find(({ handle }) => handle === stranger.handle)!
  known = { owner: 'alice', family, handle: agent.handle }
})

const sentTo = (
  base: string,
  operation: Described,
  { attempt, bearer }: { attempt: Attempt; bearer: string },
) => {
  const { body } = attempt
  const headers = {
    ...attempt.headers,
    ...(body === undefined ? {} : { 'content-type': body.type }),
    authorization: `Bearer ${bearer}`,
  }
  const method = operation.method.toUpperCase()
  return fetch(base + targetOf(operation, attempt), { method, headers, ...bytesOf(body) })
}

/** A token for exactly this request, about the owner that its path names. */
function administrating(operation: Described, attempt: Attempt): string {
  const { authority, issuer } = member
  const [owner] = attempt.names
  const { body } = bytesOf(attempt.body)
  const iat = Math.floor(Date.now() / 1_000)
  const [path] = targetOf(operation, attempt).split('?')
  return signOrganizationAdmin(
    {
      iss: issuer,
      aud: authority.issuer,
      sub: owner!.toWellFormed() as ReturnType<typeof asOwner>,
      membership,
      jti: randomBytes(12).toString('hex'),
      admin: 'ines',
      htm: operation.method.toUpperCase(),
      htu: authority.ownerUrl + path,
      ...(body === undefined ? {} : { body_s256: s256(body) }),
      iat,
      exp: iat + 60,
    },
    key,
  )
}

const ADMINISTERED = ENDPOINTS.owner.filter(
  ({ credential }) => credential?.names.includes('organization_admin') === true,
)

describe('an authority answers an administrator whatever he sends', () => {
  test.each(ADMINISTERED.map(one => [one.method, one.path, one] as const))(
    'at %s %s',
    async (_method, _path, operation) => {
      const statuses = new Set<number>()
      await fc.assert(
        fc.asyncProperty(attempts(operation), fc.boolean(), async (attempt, isKnown) => {
          const sent = isKnown ? knowing(operation, attempt, known) : attempt
          const bearer = administrating(operation, sent)
          const response = await sentTo(member.authority.ownerUrl, operation, { attempt: sent, bearer })
          if (isKnown) statuses.add(response.status)
          await expectCoded(response)
        }),
        { numRuns: HOSTILE_RUNS },
      )
      expect([...statuses]).not.toContain(401)
    },
  )

  test('at ten endpoints', () => expect(ADMINISTERED.length).toBeGreaterThan(8))
})

describe('a tally answers whatever it is sent', () => {
  const joint = startedOnce(() => startJointStand())
  let pat: string
  let token: string
  beforeAll(async () => {
    pat = await joint.tally.pat()
    token = (await joint.ask()).body.access_token as string
  })
  /** The server of a holder asks about her account. */
  const holding = (): string => {
    const [{ issuer, key: signer }] = joint.holders
    const iat = Math.floor(Date.now() / 1_000)
    const asked = { iss: issuer, aud: TALLY, holder: asOwner('bea'), account: asOwner(ACCOUNT), iat }
    return signAccessesRequest({ ...asked, exp: iat + 60 }, signer)
  }

  test.each(TALLY_ENDPOINTS.map(one => [one.method, one.path, one] as const))(
    'at %s %s',
    async (_method, _path, operation) => {
      const isHolders = operation.credential?.names.includes('holder') === true
      await fc.assert(
        fc.asyncProperty(attempts(operation), fc.boolean(), async (attempt, isKnown) => {
          const sent = isKnown
            ? knowing(operation, attempt, { account: ACCOUNT, owner: ACCOUNT, token })
            : attempt
          const bearer = isHolders ? holding() : pat
          const response = await sentTo(joint.tally.publicUrl, operation, { attempt: sent, bearer })
          if (isKnown && operation.credential !== undefined) expect(response.status).not.toBe(401)
          await expectCoded(response)
        }),
        { numRuns: HOSTILE_RUNS },
      )
    },
  )

  test('at any other path, with any method', () => expectCodedElsewhere(joint.tally.publicUrl))
})
