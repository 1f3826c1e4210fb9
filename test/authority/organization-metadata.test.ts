/**
 * What an authority says about organizations, and what it requires, if it lists some and if it lists none:
 * contract, "Authorization server metadata members", "need_info answer (beat 2)" (format id-jag).
 */
import { describe, expect, it } from 'vitest'
import { signJws } from '../../src/wire/signatures/jws.ts'
import { ID_JAG, TYP } from '../../src/wire/names.ts'
import { startTestAuthority } from '../support/authority.ts'
import { startScriptedAuthority } from '../support/scripted-authority.ts'
import { startedOnce } from '../support/started.ts'
import { testAgent } from '../support/test-agent.ts'

/** An organization and an identity provider, which count what they are asked. */
const away = startedOnce(startScriptedAuthority)
const ANYWHERE = { UMA_DEV_LOOPBACK: 'true', UMA_AS_OWNER_URL: 'https://owner.example' }
const starting = (environment: Record<string, string>) =>
  startTestAuthority({ environment: { ...ANYWHERE, ...environment } })
const plain = startedOnce(() => starting({}))
const metadataOf = async ({ request }: Pick<typeof plain, 'request'>) =>
  (await request('GET', '/.well-known/agents-configuration')).body as Record<string, unknown>

describe('An authority that lists no organization', () => {
  it('announces nothing of organizations, whatever identity issuers it lists, and asks neither anything', async () => {
    const listing = await starting({ UMA_AS_IDENTITY_ISSUERS: away.issuer })
    const metadata = await metadataOf(listing)
    const before = await metadataOf(plain)
    expect(metadata).toEqual(before)
    expect(Object.keys(before).filter(name => /org_|identity/.test(name))).toEqual([])
    expect(JSON.stringify(before)).not.toContain(ID_JAG)

    await testAgent(listing).granted('portfolio_read')
    const notice = await listing.request('POST', '/org/notice', {
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ notice: signJws({ typ: TYP.notice, payload: { iss: away.issuer } }, away.key) }),
    })
    expect(notice.status).toBe(401)
    const own = await listing.call(listing.alice, { target: '/owner/organization' })
    expect(own.body).toMatchObject({ enrolled: false, available: [], invitation: null })
    expect(away.received).toEqual([])
    await listing.close()
  })
})

describe('An authority that lists an organization', () => {
  it('announces where it is told and administered, and that it takes identities, and nothing else', async () => {
    const listing = await starting({ UMA_AS_ORGANIZATIONS: away.issuer })
    const { org_notice_endpoint, org_admin_endpoint, ...rest } = await metadataOf(listing)
    const before = await metadataOf(plain)
    expect(org_notice_endpoint).toBe(`${listing.issuer}/org/notice`)
    expect(new URL(org_admin_endpoint as string).pathname).toBe('/org/admin')
    const formats = [...(before['claim_token_formats_supported'] as string[]), ID_JAG]
    expect(rest).toEqual({ ...before, claim_token_formats_supported: formats })
    // An owner who is no member costs it nothing.
    await testAgent(listing).granted('portfolio_read')
    expect(away.received).toEqual([])
    await listing.close()
  })
})
