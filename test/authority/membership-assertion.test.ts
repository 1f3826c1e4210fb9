/**
 * Joining by the word of the organization's identity provider, through the member's own authority: contract,
 * "Organization membership, on the member's authorization server" and "The organization's authority" (join by
 * identity provider). The provider is a real one.
 */
import { randomBytes } from 'node:crypto'
import { afterEach, describe, expect, it } from 'vitest'
import { authorityUnder, startHostile } from '../support/hostile-organization.ts'
import { startMembershipStand, type MembershipStand } from '../support/membership.ts'
import { startRealm } from '../support/realm.ts'
import { startedOnce } from '../support/started.ts'
import { until } from '../support/until.ts'

const SUBJECT = 'alice@acme.example'
const realm = startedOnce(startRealm)

const stand = startedOnce(() => startMembershipStand())
const own: MembershipStand['own'] = (...sent) => stand.own(...sent)
const vouch = (subjects: Record<string, string> = { alice: SUBJECT }) =>
  stand.publish({ identity_provider: { issuer: realm.issuer, subjects } })
const assertion = (changes: object = {}, typ = 'oauth-id-jag+jwt'): Promise<string> => {
  const iat = Math.floor(Date.now() / 1_000)
  const jti = randomBytes(8).toString('hex')
  const claims = { iss: realm.issuer, sub: SUBJECT, aud: stand.issuer, iat, exp: iat + 300, jti }
  return realm.sign({ ...claims, ...changes }, { header: { typ } })
}
const agreeing = async (word: string) => {
  const { body } = await own('POST', '/preview', { assertion: word })
  const { charter_version, binds_s256 } = body
  return { assertion: word, agreed: true, charter_version, binds_s256 }
}
const activity = async (kind: string) => {
  const { body } = await stand.organization.admin({ target: '/admin/activity?limit=1000' })
  return (body.entries as { kind: string; data: Record<string, unknown> }[]).filter(one => one.kind === kind)
}
afterEach(async () => {
  await own('DELETE')
  await until(async () => {
    const { body } = await stand.organization.admin({ target: '/admin/members' })
    return (body as unknown[]).length === 0
  })
})

describe('An identity assertion', () => {
  it('is taken in place of a code: previewed without effect, and joined by once', async () => {
    await vouch()
    const word = await assertion()
    const asked = await agreeing(word)
    expect((await own('GET')).body.enrolled).toBe(false)
    const { status, body } = await own('POST', '', asked)
    expect([status, body.enrolled, body.issuer]).toEqual([200, true, stand.issuer])
    expect((await activity('joined')).at(-1)).toMatchObject({ data: { by: 'assertion' } })
    // Neither side keeps it.
    const ledger = await stand.authority.call(stand.alice, { target: '/owner/ledger' })
    expect(ledger.text).toContain('org_joined')
    expect(ledger.text).not.toContain(word)
    await own('DELETE')
    const again = await own('POST', '', asked)
    expect([again.status, again.body.error, again.body.reason]).toEqual([
      403,
      'request_denied',
      'invalid_assertion',
    ])
    expect((await own('GET')).body.enrolled).toBe(false)
    // The intent of the refused join is closed: a good one is not in its way.
    expect((await own('POST', '', await agreeing(await assertion()))).status).toBe(200)
  })

  it.each<[string, () => Promise<string>]>([
    ['of somebody else', () => assertion({ sub: 'bob@acme.example' })],
    ['of another provider', () => assertion({ iss: 'https://idp.example' })],
    ['that has expired', () => assertion({ exp: Math.floor(Date.now() / 1_000) - 1 })],
    ['that another signed', async () => `${(await assertion()).slice(0, -20)}${'A'.repeat(20)}`],
  ])('%s is refused with a word and a sentence', async (_what, make) => {
    await vouch()
    const { status, body } = await own('POST', '/preview', { assertion: await make() })
    expect([status, body.error, body.reason]).toEqual([403, 'request_denied', 'invalid_assertion'])
    expect(body.error_description).toContain('does not vouch for you')
  })

  it('of somebody else joins nobody', async () => {
    await vouch()
    const asked = await agreeing(await assertion())
    const word = await assertion({ sub: 'bob@acme.example' })
    const { status, body } = await own('POST', '', { ...asked, assertion: word })
    expect([status, body.reason]).toEqual([403, 'invalid_assertion'])
    expect((await own('GET')).body.enrolled).toBe(false)
  })

  it('of an owner whom the charter does not know is refused', async () => {
    await vouch({ bob: SUBJECT })
    const { status, body } = await own('POST', '/preview', { assertion: await assertion() })
    expect([status, body.reason]).toEqual([403, 'invalid_assertion'])
  })

  it('comes in place of a code, and not beside one', async () => {
    const word = await assertion()
    const both = { assertion: word, code: 'x' }
    expect((await own('POST', '/preview', both)).status).toBe(400)
    expect((await own('POST', '/preview', {})).status).toBe(400)
    const agreed = { ...both, agreed: true, charter_version: 1, binds_s256: 's256:x' }
    expect((await own('POST', '', agreed)).status).toBe(400)
  })

  it('whose provider cannot be asked is no denial', async () => {
    const away = await startRealm()
    await stand.publish({ identity_provider: { issuer: away.issuer, subjects: { alice: SUBJECT } } })
    const word = await away.sign(
      { ...away.claims(SUBJECT), aud: stand.issuer },
      { header: { typ: 'oauth-id-jag+jwt' } },
    )
    await away.goAway()
    const { status, body, headers } = await own('POST', '/preview', { assertion: word })
    expect([status, body.error, headers.get('retry-after')]).toEqual([503, 'temporarily_unavailable', '5'])
    await away.comeBack()
    await away.close()
  })

  it('for another audience is not shown to the organization, which could present it there', async () => {
    const hostile = await startHostile()
    const authority = await authorityUnder(hostile)
    const post = (below: string, json: object) =>
      authority.call(authority.alice, { method: 'POST', target: `/owner/organization${below}`, json })
    const elsewhere = ['https://wiki.example', [hostile.issuer, 'https://wiki.example']]
    const words = await Promise.all(elsewhere.map(aud => assertion({ aud })))
    const agreed = { agreed: true, charter_version: 1, binds_s256: 's256:x' }
    for (const word of [...words, await assertion({ aud: hostile.issuer }, 'at+jwt'), 'x.y.z', 'x']) {
      const previewed = await post('/preview', { assertion: word })
      expect([previewed.status, previewed.body.reason]).toEqual([403, 'invalid_assertion'])
    }
    const joined = await post('', { assertion: words[0], ...agreed })
    expect([joined.status, joined.body.reason]).toEqual([403, 'invalid_assertion'])
    expect(hostile.asked).toEqual([])
    expect((await post('/preview', { assertion: await assertion({ aud: hostile.issuer }) })).status).toBe(200)
    expect(hostile.asked).toContain('/preview')
  })

  it('is slowed down like a code if it is guessed: 429 with Retry-After', async () => {
    const hostile = await startHostile()
    const authority = await authorityUnder(hostile)
    const target = '/owner/organization/preview'
    const json = { assertion: 'x.y.z' }
    const replies = []
    do replies.push(await authority.call(authority.alice, { method: 'POST', target, json }))
    while (replies.at(-1)!.status === 403 && replies.length < 50)
    expect(replies.at(-1)!.status).toBe(429)
    expect(Number(replies.at(-1)!.headers.get('retry-after'))).toBeGreaterThan(0)
  })
})
