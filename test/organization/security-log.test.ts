/**
 * Contract, "The organization's authority" and "Health": an operator is told of each security event by one
 * line and one count. The line names people and things by their ids, and contains no secret.
 */
import { describe, expect, it } from 'vitest'
import { createLogger } from '../../src/http/telemetry/log.ts'
import { inTransaction } from '../../src/storage/core/database.ts'
import {
  appendActivity,
  onActivity,
  type AppendedActivity,
  type NewActivity,
} from '../../src/storage/organization/activity.ts'
import { asOwner } from '../../src/wire/identifiers.ts'
import { parseJws } from '../../src/wire/signatures/jws.ts'
import { until } from '../support/until.ts'
import {
  agent,
  answers,
  ask,
  clause,
  inDatabase,
  open,
  redeem,
  stand,
  startEmergencies,
  stranger,
  voucher,
} from './emergencies.ts'

interface Line {
  msg: string
  event: string
  [member: string]: unknown
}

const texts: string[] = []
startEmergencies(
  {},
  createLogger({ name: 'organization', level: 'info', write: line => void texts.push(line) }),
)

const lines = () => texts.map(text => JSON.parse(text) as Line).filter(({ msg }) => msg === 'security')
const counts = async (): Promise<Record<string, number>> => {
  const text = await (await fetch(`${stand.organization.metricsUrl}/metrics`)).text()
  const found = text.matchAll(/^usher_security_events_total\{event="(\w+)"\} (\d+)$/gm)
  return Object.fromEntries([...found].map(([, event, n]) => [event, Number(n)]))
}

/** Text that must not be in any line of the log. */
const secrets = ['the server room burns', 'fire', 'a note for her', 'cleared for everything', 'a-wrong-']
let kim: string
let code_id: string
const JOIN = { owner: 'kim', join_id: 'join-of-kim-0000000' }

type Call = Parameters<typeof stand.organization.admin>[0]
const admin = async (call: Call) => {
  const { status, body, text } = await stand.organization.admin(call)
  expect([Math.floor(status / 100), text]).toEqual([2, text])
  return body
}
const version = async () => (await admin({ target: '/admin/charter' })).version as number
const invite = async (owner: string) => {
  const json = { owner, as_uri: stand.first.uri, note: 'a note for her' }
  const body = await admin({ method: 'POST', target: '/admin/invites', json })
  // What follows its id is the secret of a code.
  secrets.push((body.code as string).replace(body.code_id as string, ''))
  return body as { code: string; code_id: string }
}

/** What a line says besides its event and position, and the other events of the act. */
interface Expected {
  ids: object
  first?: string[]
  /** Those that it has afterwards. */
  last?: string[]
}

/** Events that are no entry of the activity: they change nothing. */
const UNWRITTEN = ['decision_refused', 'entry_refused', 'emergency_refused'] as const

/** Does one thing for each event, in this order. */
const ACTS: Record<NewActivity['kind'] | (typeof UNWRITTEN)[number], () => Promise<Expected>> = {
  charter_published: async () => {
    await stand.publish({ name: 'Acme anew', break_glass: clause() })
    return { ids: { admin: 'ines', charter_version: await version() } }
  },
  role_changed: async () => {
    const json = { name: 'By night', grants: [], delegation: 'none', base_version: await version() }
    await admin({ method: 'PUT', target: '/admin/roles/night', json })
    return { ids: { admin: 'ines', role: 'night', charter_version: await version() } }
  },
  default_role_changed: async () => {
    const json = { role: 'guests', base_version: await version() }
    await admin({ method: 'POST', target: '/admin/roles/default', json })
    return { ids: { admin: 'ines', role: 'guests', charter_version: await version() } }
  },
  role_deleted: async () => {
    const headers = { 'if-match': `"${await version()}"` }
    await admin({ method: 'DELETE', target: '/admin/roles/night', headers })
    return { ids: { admin: 'ines', role: 'night', charter_version: await version() } }
  },
  invited: async () => {
    code_id = (await invite('kim')).code_id
    return { ids: { admin: 'ines', owner: 'kim', as_uri: stand.first.uri, code_id } }
  },
  invitation_withdrawn: async () => {
    await admin({ method: 'DELETE', target: `/admin/invites/${code_id}` })
    return { ids: { admin: 'ines', owner: 'kim', as_uri: stand.first.uri, code_id } }
  },
  declined: async () => {
    const { code, code_id: declined } = await invite('kim')
    const as_uri = stand.first.uri
    expect((await stand.post('decline', { owner: 'kim', as_uri, code })).status).toBe(200)
    return { ids: { owner: 'kim', as_uri, code_id: declined }, first: ['invited'] }
  },
  join_code_rotated: async () => {
    const { code } = await admin({ method: 'POST', target: '/admin/join-code/rotate' })
    secrets.push(code as string)
    return { ids: { admin: 'ines' } }
  },
  joined: async () => {
    const { code } = await invite('kim')
    const { status, body } = await stand.post('join', await stand.joining(JOIN, code))
    expect(status).toBe(200)
    kim = body.membership_token as string
    secrets.push(kim)
    const ids = { owner: 'kim', as_uri: stand.first.uri, by: 'invitation', charter_version: await version() }
    return { ids, first: ['invited'] }
  },
  member_moved: async () => {
    await admin({ method: 'POST', target: '/admin/members/kim/role', json: { role: 'staff' } })
    return { ids: { admin: 'ines', owner: 'kim', role: 'staff', charter_version: await version() } }
  },
  clearance_attested: async () => {
    const json = { clearance: { screening: 'cleared for everything' } }
    await admin({ method: 'PUT', target: '/admin/members/kim/clearance', json })
    return { ids: { admin: 'ines', owner: 'kim', charter_version: await version() } }
  },
  agreed: async () => {
    const charter_version = await version()
    const counted = { resources_governed: 1, tiers_governed: 1, clamped_fields: [], within: true }
    const json = { charter_version, agreed_version: charter_version, ...counted }
    const call = { method: 'POST', target: '/member/compliance', json } as const
    expect((await stand.asMember(kim, call)).status).toBe(200)
    return { ids: { owner: 'kim', charter_version } }
  },
  decision_refused: async () => {
    const json = {
      resource_id: 'acme/calendar',
      scopes: ['read'],
      expires_in: 600,
      reason_absent: false,
      mission_absent: true,
      assurance: { binding: 1, provenance: 0, accountability: 0 },
      standing: { connected: true, first_party: false, introduced: false },
    }
    const { body } = await stand.asMember(kim, { method: 'POST', target: '/decision', json })
    expect(body.effect).toBe('refuse')
    return { ids: { owner: 'kim', resource_id: 'acme/calendar', because: ['not_shared'] } }
  },
  member_acted_on: async () => {
    stand.first.metadata['org_admin_endpoint'] = `${stand.first.uri}/org/admin`
    await admin({
      method: 'POST',
      target: '/admin/members/amy/operators/block',
      json: { origin: 'https://operator.example' },
    })
    const ids = { admin: 'ines', owner: 'amy', act: 'block', origin: 'https://operator.example' }
    return { ids: { ...ids, jti: expect.stringMatching(/^oat_/) } }
  },
  member_answered: async () => {
    const json = { handle: 'jkt:agent' }
    await admin({ method: 'POST', target: '/admin/members/amy/connections/revoke', json })
    const ids = { admin: 'ines', owner: 'amy', status: 200, jti: expect.stringMatching(/^oat_/) }
    return { ids, first: ['member_acted_on'] }
  },
  break_glass_opened: async () => {
    const { status, body } = await open()
    expect(status).toBe(201)
    secrets.push(body.voucher as string)
    const window_id = expect.stringMatching(/^bgw_[0-9a-f]{24}$/)
    return { ids: { admin: 'ines', owner: 'amy', window_id } }
  },
  break_glass_closed: async () => {
    await open()
    const { body: windows } = await stand.organization.admin({ target: '/admin/break-glass' })
    const { window_id } = (windows as unknown as { window_id: string }[])[0]!
    await admin({ method: 'DELETE', target: `/admin/break-glass/${window_id}` })
    return { ids: { admin: 'ines', owner: 'amy', window_id }, first: ['break_glass_opened'] }
  },
  entry_refused: async () => {
    const as_uri = stand.first.uri
    const wrong = await stand.post('decline', { owner: 'kim', as_uri, code: 'a-wrong-code' })
    expect(wrong.status).toBe(403)
    return { ids: { owner: 'kim', as_uri, reason: 'invalid_code' } }
  },
  emergency_refused: async () => {
    expect((await redeem({ voucher: 'a-wrong-voucher' })).status).toBe(403)
    return { ids: { owner: 'amy', resource_id: 'acme/vault', reason: 'invalid_voucher' } }
  },
  break_glass_redeemed: async () => {
    const jti = await redeemed()
    const ids = { owner: 'amy', jti, resource_id: 'acme/vault', authorised_by: 'ines' }
    return { ids, first: ['break_glass_opened'] }
  },
  break_glass_used: async () => {
    const jti = await redeemed()
    expect((await ask('/consume', secrets.at(-1)!)).body.consumed).toBe(true)
    return { ids: { owner: 'amy', jti }, first: ['break_glass_opened', 'break_glass_redeemed'] }
  },
  break_glass_voided: async () => {
    answers({ status: 403 })
    expect((await redeem({ voucher: await voucher() })).status).toBe(403)
    const ids = { owner: 'amy', jti: expect.stringMatching(/^rpt_/) }
    return { ids, first: ['break_glass_opened'], last: ['emergency_refused'] }
  },
  left: async () => {
    const as_uri = stand.first.uri
    expect((await stand.post('leave', { ...JOIN, as_uri })).status).toBe(200)
    return { ids: { owner: 'kim', as_uri } }
  },
  member_removed: async () => {
    await admin({ method: 'DELETE', target: '/admin/members/ben' })
    return { ids: { admin: 'ines', owner: 'ben', as_uri: stand.first.uri } }
  },
}

/** Redeems a fresh voucher; its token is the last of the secrets. @returns the grant's id. */
async function redeemed(): Promise<string> {
  const good = await voucher()
  const { status, body } = await redeem({ voucher: good })
  expect(status).toBe(200)
  const token = body.access_token as string
  secrets.push(good, token)
  return parseJws(token).payload['jti'] as string
}

const REFUSED: [whose: string, route: string, ask: () => Promise<{ status: number }>][] = [
  [
    'an administrator’s',
    'GET /admin/charter',
    () => stand.organization.admin({ target: '/admin/charter', sign: { key: stranger } }),
  ],
  ['a member’s', 'GET /member/envelope', () => stand.asMember('not.a.token', { target: '/member/envelope' })],
  [
    'that of a member’s server',
    'POST /member/preview',
    () =>
      stand.signedBy(
        { ...stand.first, key: stranger },
        {
          method: 'POST',
          target: '/member/preview',
          json: { owner: 'kim', as_uri: stand.first.uri, code: 'any' },
        },
      ),
  ],
  ['an enforcement point’s', 'POST /introspect', () => ask('/introspect', 'x.y.z', 'a credential of nobody')],
  ['an agent’s', 'POST /break-glass', () => redeem({ voucher: 'any' }, {}, stranger)],
]

describe('A security event of an organization', () => {
  it('is also the first charter, which its provisioning file brings', () => {
    expect(lines()[0]).toMatchObject({ event: 'charter_published', by: 'provisioning', charter_version: 1 })
  })

  it.each(REFUSED)('is a refused credential: %s, at %s', async (_whose, at, refused) => {
    const before = { lines: lines().length, counts: await counts() }
    expect((await refused()).status).toBe(401)
    const [method, route] = at.split(' ')
    await until(() => lines().length > before.lines)
    expect(lines().slice(before.lines)).toEqual([
      {
        level: 'warn',
        time: expect.any(String),
        name: 'organization',
        event: 'credential_refused',
        method,
        route,
        msg: 'security',
      },
    ])
    const { credential_refused = 0 } = before.counts
    expect((await counts())['credential_refused']).toBe(credential_refused + 1)
  })

  it.each(Object.entries(ACTS))(
    '%s is one line, with ids alone, and one more of its counter',
    async (event, act) => {
      const before = { lines: lines().length, counts: await counts() }
      const { ids, first = [], last = [] } = await act()
      // The answer to an administrator's act is an event of its own, whoever caused it.
      const answered = event === 'member_acted_on' ? ['member_answered'] : []
      const events = [...first, event, ...answered, ...last]
      const told = lines().slice(before.lines)
      expect(told.map(one => one.event)).toEqual(events)
      expect(told.find(one => one.event === event)).toEqual({
        level: 'info',
        time: expect.any(String),
        name: 'organization',
        event,
        ...((UNWRITTEN as readonly string[]).includes(event) ? {} : { seq: expect.any(Number) }),
        ...ids,
        msg: 'security',
      })
      const counted = { ...before.counts }
      for (const one of events) counted[one] = (counted[one] ?? 0) + 1
      expect(await counts()).toEqual(counted)
    },
  )

  it('has no secret in any line, nor has any other line of the log', () => {
    expect(secrets.length).toBeGreaterThan(12)
    for (const secret of secrets) {
      expect(secret).toMatch(/..../)
      expect(texts.join('')).not.toContain(secret)
    }
    expect(texts.join('')).not.toContain(agent.thumbprint)
  })

  it('is reported after its commit, once however often it was tried, and never if it was taken back', async () => {
    await inDatabase(async db => {
      const reported: AppendedActivity[] = []
      onActivity(db, entry => void reported.push(entry))
      const owner = asOwner('zoe')
      const joined = { kind: 'joined', owner, data: {} } as const
      let attempts = 0
      await inTransaction(db, async tx => {
        await appendActivity(tx, joined)
        expect(reported).toEqual([])
        if (++attempts === 1) throw Object.assign(new Error('a deadlock'), { code: '40P01' })
      })
      expect(attempts).toBe(2)
      expect(reported).toEqual([{ ...joined, seq: expect.any(Number) }])
      const refused = inTransaction(db, async tx => {
        await appendActivity(tx, { kind: 'left', owner, data: {} })
        throw new Error('refused after all')
      })
      await expect(refused).rejects.toThrow('refused after all')
      expect(reported).toHaveLength(1)
    })
  })
})
