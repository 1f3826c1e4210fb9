/**
 * `usher owner organization …`: contract, "Organization membership, on the member's authorization server".
 */
import { describe, expect, it } from 'vitest'
import { ownerCommand } from '../support/owner-command.ts'

const { answers, api, owner } = ownerCommand()

const view = {
  name: 'Acme\u001b[2J',
  issuer: 'https://org.example',
  charter_name: 'At work',
  charter_version: 3,
  binds_s256: 's256:abc',
  summary: ['It shares alice/mail with you.'],
}

describe('organization', () => {
  it('preview tells what a code commits her to, and how to agree to exactly that', async () => {
    const changes = [
      { tier: 'reading', tier_name: 'Reading', text: 'Grants last at most 900 seconds, not 3600.' },
    ]
    answers['/owner/organization/preview'] = { body: { ...view, changes } }
    const { code, printed } = await owner('organization', 'preview', 'inv_1.x')
    expect(code).toBe(0)
    expect(printed).toContain('Reading: Grants last at most 900 seconds, not 3600.')
    expect(printed).toContain('organization join inv_1.x --charter 3 --binds s256:abc')
    expect(printed).toContain('Acme\\u{1b}[2J')
  })

  it('join agrees to the version and the digest that she names, and to nothing without them', async () => {
    expect((await owner('organization', 'join', 'inv_1.x')).code).not.toBe(0)
    answers['/owner/organization'] = {
      body: { enrolled: false, available: [], invitation: null, unreachable: [] },
    }
    const { code } = await owner(
      'organization',
      'join',
      'inv_1.x',
      '--charter=3',
      '--binds=s256:abc',
      '--administrators-may=revoke,block',
    )
    expect(code).toBe(0)
    expect(JSON.parse(api.received.at(-1)!.body.toString())).toEqual({
      agreed: true,
      charter_version: 3,
      binds_s256: 's256:abc',
      code: 'inv_1.x',
      administrators_may: ['revoke', 'block'],
    })
  })

  it('show tells of a later version that waits, decline and leave that it is done', async () => {
    answers['/owner/organization'] = {
      body: {
        ...view,
        enrolled: true,
        joined: '2026-11-21T09:00:00.000Z',
        waiting: { version: 3, changes: ['It would govern alice/trades, too.'] },
        stale: true,
        governed_resources: ['alice/mail'],
        administrators_may: [],
      },
    }
    const { printed } = await owner('organization', 'show')
    expect(printed).toContain('It would govern alice/trades, too.')
    expect(printed).toContain('organization agree --charter 3 --binds s256:abc')
    expect(printed).toContain('It has not been heard for ten minutes')
    answers['/owner/organization/decline'] = { body: { declined: true } }
    expect((await owner('organization', 'decline')).printed).toBe('Declined.\n')
    answers['/owner/organization'] = { body: { left: true } }
    expect((await owner('organization', 'leave')).printed).toBe('You have left.\n')
  })
})
