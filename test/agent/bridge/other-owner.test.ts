/**
 * contract, "Connection" (a pseudonymous handle is a key, so two owners cannot link it) and "Challenge (beat
 * 1)": the bridge takes the key of the owner whom the challenge names, and a resource writes the challenge.
 * The authority and the resource are scripted.
 */
import { describe, expect, it } from 'vitest'
import { buildRemediation } from '../../../src/wire/negotiation/challenge.ts'
import { asOwner } from '../../../src/wire/identifiers.ts'
import { DEFAULT_SPEC_NS } from '../../../src/wire/names.ts'
import type { TermsTemplate } from '../../../src/wire/negotiation/terms.ts'
import { filesIn } from '../../support/bridge.ts'
import { TOOL, useScriptedBridge } from '../../support/scripted-bridge.ts'

const stand = useScriptedBridge()

/** The resource says that it is this owner's, and the authority knows better, or the same. */
function claimed(owner: string, terms: Partial<TermsTemplate> = {}): void {
  const { twists, issuer, resource } = stand.peers
  stand.terms(false)
  twists.template = plain => ({ ...plain, ...terms })
  twists.challenge = plain => {
    const call = { specNs: DEFAULT_SPEC_NS, tool: TOOL, resourceUrl: resource, scopes: ['read'] }
    const { ticket } = plain
    const said = buildRemediation({ ...call, owner: asOwner(owner), ticket, as_uri: issuer })
    return { ...plain, authorization_remediation: said }
  }
}
const called = async () => {
  const { call } = await stand.start({
    kind: '2.x 2026-07-28',
    capabilities: { elicitation: { form: {} } },
    args: ['--hold', '5'],
  })
  return call(TOOL, { qty: 1 })
}
const kept = async (kind: string) =>
  (await filesIn(stand.folder)).filter(({ path }) => path.includes(`/${kind}/`))

describe("A challenge that names another owner than the authority's", () => {
  it.each<[string, string, Partial<TermsTemplate>]>([
    ['another name', 'bob', {}],
    ['a name that hers begins with', 'ali', {}],
    ['no name', '', {}],
    ['a namespace of nobody', 'records', { resource_id: 'accounts/portfolio' }],
  ])('is refused before anything is signed or anybody asked: %s', async (_what, owner, terms) => {
    claimed(owner, terms)
    expect(await called()).toMatchObject({ isError: true, reason: 'terms_untrusted' })
    expect(stand.peers.agreements).toEqual([])
    expect(stand.client.elicited).toEqual([])
    expect(stand.sent).toEqual([])
  })

  it.each<[string, Partial<TermsTemplate>]>([
    ['a resource whose id names nobody', { resource_id: 'portfolio' }],
    ['a resource in a namespace of hers', { resource_id: 'records/portfolio' }],
  ])('is none with %s', async (_what, terms) => {
    claimed('alice', terms)
    expect((await called()).isError).toBe(false)
    expect(await kept('resources')).toHaveLength(1)
  })

  it('is refused by the grant at the latest, which is neither kept nor used', async () => {
    claimed('records', { resource_id: 'records/portfolio' })
    expect(await called()).toMatchObject({ isError: true, reason: 'grant_untrusted' })
    expect(stand.sent).toEqual([])
    expect(await kept('resources')).toEqual([])
    expect(await kept('grants')).toEqual([])
  })
})
