/**
 * What lets a person in: contract, "The organization's authority" (join by invitation, by identity-provider
 * vouching or by shared code).
 */
import { randomBytes } from 'node:crypto'
import { beforeEach, describe, expect, it } from 'vitest'
import { createLogger } from '../../src/http/telemetry/log.ts'
import { startMemberStand } from '../support/organization-members.ts'
import { ORG_ISSUER, startTestOrganization, type TestOrganization } from '../support/organization.ts'
import { startRealm, type TestRealm } from '../support/realm.ts'
import { startedOnce } from '../support/started.ts'

const lines: { event?: string; owner?: string; reason?: string }[] = []
const write = (line: string): void => void lines.push(JSON.parse(line) as (typeof lines)[number])
const log = createLogger({ name: 'organization', level: 'info', write })
const stand = startedOnce(() => startMemberStand({ log }))
const realm = startedOnce(startRealm)

let owner: string
let join_id: string
beforeEach(async () => {
  owner = `o-${randomBytes(4).toString('hex')}`
  join_id = randomBytes(12).toString('hex')
  await vouch({ [owner]: `sub-of-${owner}` })
})

const vouch = (subjects: Record<string, string>) =>
  stand.publish({ identity_provider: { issuer: realm.issuer, subjects } })
const assertion = (changes: object = {}, how: Parameters<TestRealm['sign']>[1] = {}) => {
  const iat = Math.floor(Date.now() / 1_000)
  const jti = randomBytes(8).toString('hex')
  const claims = {
    iss: realm.issuer,
    sub: `sub-of-${owner}`,
    aud: ORG_ISSUER,
    iat,
    exp: iat + 300,
    jti,
    ...changes,
  }
  return realm.sign(claims, { ...how, header: { typ: 'oauth-id-jag+jwt', ...how.header } })
}
const person = () => ({ owner, as_uri: stand.first.uri })
const preview = (entry: object) => stand.post('preview', { ...person(), ...entry })
async function joining(word: string): Promise<Record<string, unknown>> {
  const { body } = await preview({ assertion: word })
  const { charter_version, binds_s256 } = body as { charter_version: number; binds_s256: string }
  return { ...person(), assertion: word, join_id, charter_version, binds_s256 }
}
const joined = async () => {
  const { body } = await stand.organization.admin({ target: '/admin/activity?limit=1000' })
  return (body.entries as { kind: string; owner?: string; data: object }[]).filter(
    entry => entry.kind === 'joined' && entry.owner === owner,
  )
}

describe('An assertion of the identity provider', () => {
  it.each(['RS256', 'PS256', 'ES256', 'EdDSA'] as const)(
    'lets in whom the charter knows by its subject: %s',
    async alg => {
      const asked = await joining(await assertion({}, { alg }))
      const { status, body } = await stand.post('join', asked)
      expect([status, typeof body.membership_token]).toEqual([200, 'string'])
      expect(await joined()).toMatchObject([{ data: { by: 'assertion' } }])
    },
  )

  it('is good once: presented again it lets in nobody, and the same join answers the same', async () => {
    const word = await assertion()
    const asked = await joining(word)
    const first = await stand.post('join', asked)
    expect((await stand.post('join', asked)).body).toEqual(first.body)
    await stand.post('leave', { ...person(), join_id })
    const again = await stand.post('join', { ...asked, join_id: `${join_id}-2` })
    expect([again.status, again.body.reason]).toEqual([403, 'invalid_assertion'])
    // Somebody may have got hold of it, so an operator reads of it.
    expect(lines.filter(line => line.event === 'entry_refused' && line.owner === owner)).toMatchObject([
      { as_uri: stand.first.uri, reason: 'invalid_assertion' },
    ])
  })

  it('by which two owners would join at once lets in one of them', async () => {
    const owners = [owner, `${owner}-2`]
    const subject = 'sub-of-both'
    await vouch(Object.fromEntries(owners.map(one => [one, subject])))
    const word = await assertion({ sub: subject })
    const all = await Promise.all(
      owners.map(async one => ({ ...(await joining(word)), owner: one, join_id: `${join_id}-${one}` })),
    )
    const statuses = await Promise.all(
      Array.from({ length: 16 }, async (_, i) => (await stand.post('join', all[i % 2]!)).status),
    )
    // 503: a caller that waited too long on a busy machine is told to retry.
    const settled = statuses.filter(status => status !== 503)
    expect(new Set(settled)).toEqual(new Set([200, 403]))
    const members = (await stand.organization.admin({ target: '/admin/members?limit=1000' })).body as {
      owner: string
    }[]
    expect(members.filter(member => owners.includes(member.owner))).toHaveLength(1)
  })

  it.each<[string, () => Promise<string>]>([
    ['of somebody else', () => assertion({ sub: 'sub-x' })],
    ['to another', () => assertion({ aud: stand.first.uri })],
    ['that has expired', () => assertion({ exp: Math.floor(Date.now() / 1_000) - 1 })],
    ['of another kind', () => assertion({}, { header: { typ: 'at+jwt' } })],
    ['of another provider', () => assertion({ iss: 'https://idp.example' })],
    ['that another signed', async () => `${(await assertion()).slice(0, -20)}${'A'.repeat(20)}`],
    ['that is none', () => Promise.resolve('x.y.z')],
  ])('%s lets in nobody', async (_what, make) => {
    const fresh = await startTestOrganization({ beside: stand.organization })
    const json = { ...person(), assertion: await make() }
    const refused = await stand.signedBy(
      stand.first,
      { method: 'POST', target: '/member/preview', json },
      fresh,
    )
    expect([refused.status, refused.body.error, refused.body.reason]).toEqual([
      403,
      'request_denied',
      'invalid_assertion',
    ])
    await fresh.close()
  })

  it('lets in nobody whom the charter does not know, or knows no more when she joins', async () => {
    const word = await assertion()
    const asked = await joining(word)
    await vouch({ somebody: `sub-of-${owner}` })
    expect((await stand.post('join', asked)).body.reason).toBe('invalid_assertion')
    expect((await preview({ assertion: word })).body.reason).toBe('invalid_assertion')
    await stand.publish({})
    expect((await preview({ assertion: word })).body.reason).toBe('invalid_assertion')
  })

  it('is no denial if the provider’s keys cannot be had', async () => {
    const away = await startRealm()
    await stand.publish({ identity_provider: { issuer: away.issuer, subjects: { [owner]: 'sub' } } })
    const word = await away.sign(
      { ...away.claims('sub'), aud: ORG_ISSUER },
      { header: { typ: 'oauth-id-jag+jwt' } },
    )
    await away.goAway()
    const { status, headers, text } = await preview({ assertion: word })
    expect([status, headers.get('retry-after')]).toEqual([503, '5'])
    expect(text).not.toContain('127.0.0.1')
    await away.comeBack()
    await away.close()
  })

  it('comes in place of a code, and not beside one', async () => {
    const word = await assertion()
    expect((await preview({ assertion: word, code: 'x' })).status).toBe(400)
    expect((await preview({})).status).toBe(400)
  })
})

describe('Guessing', () => {
  /** Each replica has its own count of a source; that of a code is everybody's. */
  const wrong = async (at: TestOrganization, code: string) =>
    stand.signedBy(
      stand.first,
      { method: 'POST', target: '/member/preview', json: { ...person(), code } },
      at,
    )
  const replica = () => startTestOrganization({ beside: stand.organization })

  it('is stopped after 10 wrong codes of a source in a minute, with 429 for a good one too', async () => {
    const at = await replica()
    const good = await stand.invited(owner)
    for (let i = 0; i < 10; i++) expect((await wrong(at, `guess-${i}-${owner}`)).status).toBe(403)
    const stopped = await wrong(at, good)
    expect([stopped.status, stopped.body.error]).toEqual([429, 'temporarily_unavailable'])
    expect(Number(stopped.headers.get('retry-after'))).toBeGreaterThan(0)
    await at.close()
  })

  it('is stopped after 20 wrong codes in place of one in an hour, from however many sources', async () => {
    const good = await stand.invited(owner)
    const guess = `${good.slice(0, -2)}${good.endsWith('AA') ? 'BB' : 'AA'}`
    const replicas = [await replica(), await replica(), await replica()]
    for (const at of replicas.slice(0, 2))
      for (let i = 0; i < 10; i++) expect((await wrong(at, guess)).status).toBe(403)
    const stopped = await wrong(replicas[2]!, good)
    expect([stopped.status, stopped.headers.get('retry-after')]).toEqual([429, '3600'])
    // Of another code nothing was guessed.
    expect((await wrong(replicas[2]!, await stand.invited(owner))).status).toBe(200)
    for (const at of replicas) await at.close()
  })
})
