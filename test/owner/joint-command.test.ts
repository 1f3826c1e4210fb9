/** `usher owner joint …`: contract, "Tally for a jointly held resource" (on each holder's server). */
import { describe, expect, it } from 'vitest'
import { ownerCommand } from '../support/owner-command.ts'

const { answers, api, owner } = ownerCommand()

const TALLY = 'https://tally.example'
const mandate_s256 = 's256:atCi-0EZoXqO1dDo-q30ueuT_hJ1D9mgB2K8YYcqRw4'
const bodies = () =>
  api.received.map(({ method, path, body }) => [
    method,
    path,
    body.length === 0 ? '' : JSON.parse(body.toString()),
  ])
const previewed = {
  mandate: {},
  mandate_s256,
  summary: ['family-1 is held jointly by bea\u001b[2J at https://as.bea.test (weight 1).'],
  my_terms: [
    {
      tier: 'savings\u0007',
      resources: ['family-1/savings'],
      terms: { scope: ['read'], expires_in: 600, prohibited: ['passing it\u202e on'] },
    },
  ],
  writes_terms: false,
}

describe('joint', () => {
  it('preview tells what a mandate commits her to, and how to agree to exactly that', async () => {
    answers['/owner/joint/preview'] = { body: previewed }
    const { code, printed } = await owner('joint', 'preview', 'family-1', `--tally=${TALLY}`)
    expect([code, bodies()]).toEqual([
      0,
      [['POST', '/owner/joint/preview', { tally: TALLY, account: 'family-1' }]],
    ])
    expect(printed).toContain('bea\\u{1b}[2J at https://as.bea.test')
    expect(printed).toContain(
      'savings\\u{7}: family-1/savings; read for 600 s, not for: passing it\\u{202e} on',
    )
    expect(printed).toContain(`usher owner joint agree family-1 --tally ${TALLY} --mandate ${mandate_s256}`)
  })

  it('preview of what no tier of hers governs says that she counts as refusing', async () => {
    answers['/owner/joint/preview'] = { body: { ...previewed, my_terms: [] } }
    const { printed } = await owner('joint', 'preview', 'family-1', `--tally=${TALLY}`)
    expect(printed).toContain(
      'You have no terms over it: until a tier of yours governs it, you count as refusing.',
    )
  })

  it('agree agrees to the digest that she names, and to nothing without one', async () => {
    const bare = await owner('joint', 'agree', 'family-1', `--tally=${TALLY}`)
    expect([bare.code, api.received]).toEqual([2, []])
    answers['/owner/joint'] = { body: previewed }
    const { code, printed } = await owner(
      'joint',
      'agree',
      'family-1',
      `--tally=${TALLY}`,
      `--mandate=${mandate_s256}`,
    )
    expect([code, bodies()]).toEqual([
      0,
      [['POST', '/owner/joint', { tally: TALLY, account: 'family-1', agreed: true, mandate_s256 }]],
    ])
    expect(printed).toContain('You hold it from now on:\n  family-1 is held jointly by bea\\u{1b}[2J')
  })

  it('agree to what is served no more is refused, and says what to do', async () => {
    answers['/owner/joint'] = {
      status: 409,
      body: { error: 'conflict', error_description: 'Read the mandate again: it is another one by now.' },
    }
    const { code, said } = await owner(
      'joint',
      'agree',
      'family-1',
      `--tally=${TALLY}`,
      `--mandate=${mandate_s256}`,
    )
    expect([code, said]).toEqual([1, expect.stringContaining('Read the mandate again')])
  })

  it('list tells with whom she holds what, by which rule, and of a mandate that changed', async () => {
    answers['/owner/joint'] = { body: { accounts: [] } }
    expect((await owner('joint', 'list')).printed).toBe('You hold nothing together with others.\n')
    answers['/owner/joint'] = {
      body: {
        accounts: [
          {
            account: 'family-1',
            tally: TALLY,
            mandate_s256,
            rule: { kind: 'threshold', threshold: 2, total_weight: 3 },
            holders: [{ owner: 'carl\u001b[31m', issuer: 'https://as.carl.test', weight: 2 }],
            resources: ['family-1/*'],
            since: '2026-11-21T09:00:00.000Z',
            state: 'mandate_changed',
          },
        ],
      },
    }
    const { printed } = await owner('joint', 'list')
    expect(printed).toContain('since 2026-11-21 09:00:00Z')
    expect(printed).toContain('carl\\u{1b}[31m at https://as.carl.test, weight 2')
    expect(printed).toContain('it takes weight 2 of 3 (threshold), over family-1/*')
    expect(printed).toContain('usher owner joint preview family-1 --tally https://tally.example')
  })

  it.each([
    ['', {}],
    [
      'What you allowed of joint accounts may still count: 1 withdrawal did not',
      { joint_withdrawals_waiting: 1 },
    ],
  ])('leave tells that she holds it no more%s', async (said, more) => {
    answers['/owner/joint/family-1'] = { body: { left: 'family-1', ...more } }
    const { code, printed } = await owner('joint', 'leave', 'family-1')
    expect([code, bodies()]).toEqual([0, [['DELETE', '/owner/joint/family-1', '']]])
    expect(printed).toContain(`You hold family-1 no more; your terms stay.\n${said}`)
  })

  it('leave says which sidecars were waited for', async () => {
    const leases = { holders: 2, acknowledged: 2, waited_ms: 11 }
    answers['/owner/joint/family-1'] = { body: { left: 'family-1', leases } }
    const { printed } = await owner('joint', 'leave', 'family-1')
    expect(printed).toBe('You hold family-1 no more; your terms stay.\n2 sidecars let go in 11 ms.\n')
  })

  it('calls lists what was called there, escaped, and says how to read on', async () => {
    const call = {
      n: 7,
      at: '2026-11-23T09:00:00.000Z',
      client_id: 'https://bank.example',
      resource_id: 'family-1/savings',
      agent: null,
      family: 'fam_1',
      tool: 'balance\u001b[2J',
      summary: null,
    }
    answers['/owner/joint/family-1/accesses'] = { body: { accesses: [call], next: 7 } }
    const { code, printed } = await owner('joint', 'calls', 'family-1', '--before', '9')
    expect([code, api.received[0]?.query]).toEqual([0, 'before=9'])
    expect(printed).toContain('balance\\u{1b}[2J  family-1/savings')
    expect(printed).toContain('There are more: --before 7')
    answers['/owner/joint/family-1/accesses'] = { body: { accesses: [], next: null } }
    expect((await owner('joint', 'calls', 'family-1')).printed).toBe('Nothing was called there.\n')
  })
})
