/**
 * What an organization attests about its members: contract, "Policy vocabulary and tiers" (a clearance is
 * attested by a third party, and the grant carries only a digest of what was checked).
 */
import { readFileSync } from 'node:fs'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { signClearance, type ClearanceClaims } from '../../src/wire/organization/clearance.ts'
import { s256 } from '../../src/wire/encoding.ts'
import { generatePrivateJwk, importPrivateJwk, type PrivateJwk } from '../../src/wire/signatures/keys.ts'
import { row } from '../support/contract-row.ts'
import { startDoorStand } from '../support/door-stand.ts'
import { dueAtOnce, lastAnsweredEarlier } from '../support/due.ts'
import { askAdmin } from '../support/organization-admin.ts'
import { startedOnce } from '../support/started.ts'
import {
  decide,
  denyAll,
  pendingAt,
  protectionCall,
  testAgent,
  type ToolName,
} from '../support/test-agent.ts'
import { until } from '../support/until.ts'

const CLEARANCE = '/member/clearance'
const DECISION = '/decision'
const UNMET = [403, 'request_denied', 'clearance_unmet']

const stand = startedOnce(async () => {
  const started = await startDoorStand()
  await started.joined()
  return started
})

interface Known {
  org_epoch: number
  version: number
}
const known = async (): Promise<Known> => {
  const { rows } = await stand.authority.database.pool.query<Known>(
    `SELECT org_epoch, (view->>'charter_version')::int AS version FROM memberships WHERE owner = 'alice'`,
  )
  return rows[0]!
}
/** Attests it, and waits until her server was told. */
const attest = async (clearance: object) => {
  const before = await known()
  const target = `/admin/members/${stand.alice.owner}/clearance`
  await lastAnsweredEarlier(stand.authority.database)
  const { body } = await stand.organization.admin({ method: 'PUT', target, json: { clearance } })
  await until(async () => {
    const { org_epoch, version } = await known()
    return version >= body.version && (body.version === before.version || org_epoch > before.org_epoch)
  })
  stand.door.asked.length = 0
}
/** As by a notice that was sent to another replica. */
const overtaken = () =>
  stand.authority.database.pool.query('UPDATE memberships SET org_epoch = org_epoch + 1')
const edit = (tier: string, json: object) =>
  stand.authority.call(stand.alice, { method: 'PUT', target: `/owner/policies/${tier}`, json })
const introspected = async (token: string) =>
  (await protectionCall(stand.authority, '/introspect', { token })).body as Record<string, unknown>
const first = async (tool: ToolName) => {
  const agent = testAgent(stand.authority)
  const { status, body } = await agent.present(await agent.ticket(tool))
  return [status, body.error, body.reason]
}
const asked = () => [stand.door.count(CLEARANCE), stand.door.count(DECISION)]

/** An attestation as the organization would sign it now, changed; by another key if one is given. */
const attestation = (changes: Partial<ClearanceClaims> = {}, jwk?: PrivateJwk): string => {
  const file = readFileSync(stand.organization.environment['UMA_ORG_KEYS_FILE']!, 'utf8')
  const key = importPrivateJwk(jwk ?? (JSON.parse(file) as { keys: PrivateJwk[] }).keys[0]!)
  const iat = Math.floor(Date.now() / 1000)
  const { issuer: iss, alice, authority } = stand
  const times = { iat, exp: iat + 300, jti: 'clr_of-this-test' }
  const said = {
    iss,
    sub: alice.owner,
    aud: authority.issuer,
    org: 'acme',
    ...times,
    clearance: { level: 'high' },
  }
  return signClearance({ ...said, ...changes }, key)
}
const attestedInstead = (clearance: unknown) => {
  stand.door.instead(CLEARANCE, () => ({ status: 200, body: { clearance, expires_in: 300 } }))
  stand.door.instead(DECISION, ({ status, body }) => ({ status, body: { ...(body as object), clearance } }))
}

beforeEach(async () => {
  await attest({ level: 'high' })
})
afterEach(async () => {
  stand.door.reset()
  await overtaken()
  await denyAll(stand.authority)
  await edit('statements', { clearance: {} })
  await edit('reading', { clearance: {} })
})

describe('A clearance that a tier asks for', () => {
  it('is met on her own resource by what her organization attests, asked for once and kept', async () => {
    await edit('statements', { clearance: { level: ['high'] } })
    const { rpt } = await testAgent(stand.authority).granted('statement_read')
    expect(asked()).toEqual([1, 0])
    const { path } = stand.door.asked.find(one => one.path.startsWith(CLEARANCE))!
    const query = new URL(path, stand.issuer).searchParams
    expect([...query]).toEqual([['audience', stand.authority.issuer]])
    const { active, clearance } = await introspected(rpt)
    expect([active, typeof clearance]).toEqual([true, 'string'])
    const claims = JSON.parse(Buffer.from(rpt.split('.')[1]!, 'base64url').toString())
    expect(claims.clearance).toBe(clearance)
    await testAgent(stand.authority).granted('statement_read')
    expect(asked()).toEqual([1, 0])
  })

  // In the grant only the digest, and the attestation itself in her ledger alone.
  row('clearance-digest', async () => {
    await edit('statements', { clearance: { level: ['high'] } })
    const agent = testAgent(stand.authority)
    await agent.granted('statement_read')
    const { rpt } = await agent.granted('statement_read')
    const { body } = await stand.authority.call(stand.alice, { target: '/owner/ledger?limit=1000' })
    const { jti, clearance } = JSON.parse(Buffer.from(rpt.split('.')[1]!, 'base64url').toString())
    expect(jti).toBeDefined()
    const kept = (body.entries as { kind: string; clearance?: string; what?: string }[]).filter(
      entry => typeof entry.clearance === 'string',
    )
    expect(kept.map(({ kind, what }) => [kind, what])).toEqual(
      expect.arrayContaining([
        ['promised', undefined],
        ['org_acted', 'clearance_checked'],
      ]),
    )
    for (const entry of kept.slice(-2)) expect(s256(entry.clearance!)).toBe(clearance)
    expect(Buffer.from(rpt.split('.')[1]!, 'base64url').toString()).not.toContain(kept.at(-1)!.clearance)
  })

  it('is unmet if nothing is attested, or another value: before any terms', async () => {
    await edit('statements', { clearance: { level: ['high'] } })
    await attest({})
    expect(await first('statement_read')).toEqual(UNMET)
    await attest({ level: 'low' })
    expect(await first('statement_read')).toEqual(UNMET)
  })

  it('comes with the decision where an organization governs: an agreement costs one request, a poll none', async () => {
    await edit('reading', { clearance: { level: ['high'] } })
    const agent = testAgent(stand.authority)
    const offer = await agent.offer('portfolio_read')
    expect(asked()).toEqual([1, 0])
    const { body } = await agent.agree(offer)
    expect([body.error, ...asked()]).toEqual(['request_submitted', 1, 1])
    const poll = await agent.present(body.ticket)
    expect(asked()).toEqual([1, 1])
    await decide(stand.authority, agent.handle, 'approved')
    const granted = await agent.present(poll.body.ticket)
    expect([granted.status, ...asked()]).toEqual([200, 1, 2])
    expect((await introspected(granted.body.access_token)).clearance).toMatch(/.{20}/)
  })

  it('makes a stranger of an agent that an administrator alone let in, like every resource of her own', async () => {
    const agent = testAgent(stand.authority)
    const { body } = await agent.ask('portfolio_read')
    const { family } = (await pendingAt(stand.authority)).find(({ handle }) => handle === agent.handle)!
    const json = { decision: 'approved' }
    expect((await askAdmin(stand, { target: `/pending/${family}/decision`, json })).status).toBe(200)
    expect((await agent.present(body.ticket)).status).toBe(200)

    await edit('statements', { clearance: { level: ['high'] } })
    const held = await agent.ask('statement_read')
    expect(held.body.error).toBe('request_submitted')
    const [item] = (await pendingAt(stand.authority)).filter(({ handle }) => handle === agent.handle)
    expect(item).toMatchObject({ kind: 'connection', resource_id: 'alice/statements' })
    await decide(stand.authority, agent.handle, 'approved')
    const granted = await agent.present(held.body.ticket)
    expect(granted.status).toBe(200)
    expect((await introspected(granted.body.access_token)).clearance).toMatch(/^s256:/)
  })

  it('is read again at collection: withdrawn meanwhile, what she approved is not granted', async () => {
    await edit('statements', { clearance: { level: ['high'] } })
    const agent = testAgent(stand.authority)
    const { body } = await agent.ask('statement_read')
    await decide(stand.authority, agent.handle, 'approved')
    await attest({})
    const polled = await agent.present(body.ticket)
    expect([polled.status, polled.body.error, polled.body.reason]).toEqual(UNMET)
  })

  it('cannot be met by an owner without an organization, and nobody is asked', async () => {
    await stand.own('DELETE')
    stand.door.asked.length = 0
    await edit('statements', { clearance: { level: ['high'] } })
    expect(await first('statement_read')).toEqual(UNMET)
    expect(asked()).toEqual([0, 0])
    await edit('statements', { clearance: {} })
    await stand.joined()
  })
})

describe('A clearance that is withdrawn or changed', () => {
  it.each([{}, { level: 'secret' }])(
    'ends the grants that carry it, and no other of her own: %j',
    async clearance => {
      await edit('statements', { clearance: { level: ['high', 'secret'] } })
      await edit('reading', { clearance: { level: ['high', 'secret'] } })
      const own = await testAgent(stand.authority).granted('statement_read')
      const governed = await testAgent(stand.authority).granted('portfolio_read')
      await edit('statements', { clearance: {} })
      const without = await testAgent(stand.authority).granted('statement_read')
      await attest(clearance)
      for (const { rpt } of [own, governed])
        expect(await introspected(rpt)).toMatchObject({ active: false, reason: 'organization_revoked' })
      expect((await introspected(without.rpt)).active).toBe(true)
    },
  )

  it('ends them by her later view, too, if its notice is lost', async () => {
    await edit('statements', { clearance: { level: ['high'] } })
    const own = await testAgent(stand.authority).granted('statement_read')
    const { org_epoch } = await known()
    await lastAnsweredEarlier(stand.authority.database)
    await stand.publish({ name: 'Another name' })
    await until(async () => (await known()).org_epoch > org_epoch)
    expect(await introspected(own.rpt)).toMatchObject({ active: false, reason: 'organization_revoked' })
  })

  it('ends them by a view that says nothing else, and she is told of that one', async () => {
    const version = async () => (await known()).version
    const published = async () => {
      const before = await version()
      await stand.publish({})
      await until(async () => {
        await dueAtOnce(stand.authority.database, 'view')
        return (await version()) > before
      })
    }
    await published()
    await edit('statements', { clearance: { level: ['high'] } })
    const own = await testAgent(stand.authority).granted('statement_read')
    await published()
    expect(await introspected(own.rpt)).toMatchObject({ active: false, reason: 'organization_revoked' })
    const target = '/owner/ledger?kind=org_acted'
    const told = (await stand.authority.call(stand.alice, { target })).body.entries.at(-1)
    expect([told.what, told.charter_version]).toEqual(['charter_changed', await version()])
  })

  it('is not remembered: what another replica was told of counts here, too', async () => {
    await edit('statements', { clearance: { level: ['high'] } })
    await first('statement_read')
    await first('statement_read')
    expect(asked()).toEqual([1, 0])
    await overtaken()
    await first('statement_read')
    expect(asked()).toEqual([2, 0])
  })
})

describe('An attestation', () => {
  const past = Math.floor(Date.now() / 1000) - 400
  const BAD: [string, () => unknown][] = [
    ['for another authority', () => attestation({ aud: 'https://elsewhere.example' })],
    ['of another owner', () => attestation({ sub: 'bob' as ClearanceClaims['sub'] })],
    ['by another organization', () => attestation({ iss: 'https://elsewhere.example' })],
    ['with a key that it does not publish', () => attestation({}, generatePrivateJwk())],
    ['that has expired', () => attestation({ iat: past, exp: past + 300 })],
    ['for longer than a clearance lasts', () => attestation({ exp: past + 4_000 })],
    ['of facts that are no texts', () => attestation({ clearance: { level: ['high'] } as never })],
    ['of another value', () => attestation({ clearance: { level: 'low' } })],
    ['that is no JWT', () => 'high'],
  ]

  it.each(BAD)('meets nothing: %s', async (_, said) => {
    await edit('statements', { clearance: { level: ['high'] } })
    await edit('reading', { clearance: { level: ['high'] } })
    const agent = testAgent(stand.authority)
    const offer = await agent.offer('portfolio_read')
    attestedInstead(said())
    const { status, body } = await agent.agree(offer)
    expect([status, body.error, body.reason]).toEqual(UNMET)
    expect(await first('statement_read')).toEqual(UNMET)
  })

  it('is kept until 30 seconds before its end', async () => {
    await edit('statements', { clearance: { level: ['high'] } })
    const iat = Math.floor(Date.now() / 1000)
    attestedInstead(attestation({ exp: iat + 25 }))
    await first('statement_read')
    await first('statement_read')
    expect(asked()).toEqual([2, 0])
  })

  it('that cannot be had is an outage: 503 with the same ticket, and her other resources as before', async () => {
    await edit('statements', { clearance: { level: ['high'] } })
    stand.door.instead(CLEARANCE, () => ({ status: 500, body: {} }))
    const agent = testAgent(stand.authority)
    const ticket = await agent.ticket('statement_read')
    const out = await agent.present(ticket)
    expect([out.status, out.body.error, out.body.ticket]).toEqual([503, 'temporarily_unavailable', ticket])
    stand.door.reset()
    expect((await agent.present(out.body.ticket)).body.error).toBe('need_info')
  })
})

describe('What a tier and a ceiling ask for', () => {
  it('must be met together: an attested value that one of them accepts alone meets neither', async () => {
    await edit('reading', { clearance: { level: ['high', 'low'] } })
    const envelope = { max_expires_in: 900, require_clearance: { level: ['high', 'secret'] } }
    await lastAnsweredEarlier(stand.authority.database)
    await stand.publish({ envelope })
    await until(async () => {
      const { body } = await stand.own('GET')
      return Object.keys(body.require_clearance as object).length > 0
    })
    await attest({ level: 'low' })
    expect(await first('portfolio_read')).toEqual(UNMET)
    await attest({ level: 'secret' })
    expect(await first('portfolio_read')).toEqual(UNMET)
    await attest({ level: 'high' })
    expect(await first('portfolio_read')).toEqual([403, 'need_info', undefined])
  })
})
