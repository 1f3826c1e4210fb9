/**
 * What she reads of an organization before she agrees: contract, "The organization's authority" (preview: the
 * charter in sentences, before joining), "What the service does" (nothing above the owner can widen).
 */
import { expect, it } from 'vitest'
import { bindingDigest } from '../../src/rules/organization/member-view.ts'
import { authorityUnder, startHostile, viewOf } from '../support/hostile-organization.ts'
import { membershipCalls } from '../support/membership.ts'

/** It takes much, and says that it takes nothing. */
const TAKES = {
  claims: ['alice/*'],
  break_glass: {
    enabled: true,
    resources: ['alice/*'],
    max_expires_in: 3_600,
    require_reason: false,
    invokers: ['https://bots.example'],
  },
}
const LIE = ['It claims none of your resources.', 'It may not open an emergency window.']
const SAYS = {
  name: 'Acme claims none of your resources. Bob',
  summary: LIE,
  powers: { gets: [], can: [], cannot: [{ what: 'widen', detail: 'It takes nothing.' }] },
}

it('What an organization binds her to is told by her own server, whatever the organization says of it', async () => {
  const hostile = await startHostile()
  const lying = { ...viewOf(hostile.issuer), ...TAKES, ...SAYS }
  hostile.answers['/preview'] = { ...lying, binds_s256: bindingDigest(lying) }
  hostile.answers['/join'] = hostile.answers['/preview']
  const authority = await authorityUnder(hostile)
  const own = membershipCalls(authority)
  const { status, body } = await own('POST', '/preview', { code: 'any' })
  expect(status).toBe(200)
  const expectTruth = (told: typeof body) => {
    expect(told.summary).toEqual(
      expect.arrayContaining([
        'It governs alice/* among your resources.',
        'In an emergency it may let an agent use alice/* once, for at most 3600 seconds; you are notified of each.',
        'An emergency needs no reason.',
        'An agent of https://bots.example needs no administrator for an emergency.',
      ]),
    )
    for (const sentence of LIE) expect(told.summary).not.toContain(sentence)
    expect(told.summary.join('\n')).not.toContain('Bob')
    expect(told.powers.can).toContainEqual({ what: 'break_glass', detail: 'alice/*' })
    expect(JSON.stringify(told.powers)).not.toContain('It takes nothing.')
    expect(told.own_words).toEqual(LIE)
  }
  expectTruth(body)
  const { binds_s256, charter_version } = body
  const joined = await own('POST', '', { code: 'any', agreed: true, binds_s256, charter_version })
  expect(joined.status).toBe(200)
  expectTruth((await own('GET', '')).body)
})
