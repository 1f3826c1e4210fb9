/**
 * `usher owner organization …`: contract, "Organization membership, on the member's authorization server".
 */
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { ownerCommand } from '../support/owner-command.ts'

const { answers, api, directory, owner } = ownerCommand()

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
    const own_words = ['Agents must give a reason.\u001b[2J']
    const governed_resources = ['alice/mail']
    answers['/owner/organization/preview'] = { body: { ...view, changes, own_words, governed_resources } }
    const { code, printed } = await owner('organization', 'preview', 'inv_1.x')
    expect(code).toBe(0)
    expect(printed).toContain(
      '  It shares alice/mail with you.\nIn its own words, which nobody has checked:\n',
    )
    expect(printed).toContain('  Agents must give a reason.\\u{1b}[2J\nIt would govern: alice/mail.\n')
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

  const EXAMPLE = 'https://org.example'
  /** Prints `assertion.for.` and the audience that it was told. */
  const program = (): string => {
    const script = join(directory(), 'assert.mjs')
    writeFileSync(
      script,
      `let text = ''
       for await (const chunk of process.stdin) text += chunk
       console.log('assertion.for.' + JSON.parse(text).audience)`,
    )
    return `'${process.execPath}' '${script}'`
  }
  const sentBodies = () => api.received.map(({ body }) => JSON.parse(body.toString()) as object)

  it('preview and join take an assertion that a program of hers prints, in place of a code', async () => {
    const entry = [`--organization=${EXAMPLE}`, `--identity-command=${program()}`]
    answers['/owner/organization/preview'] = { body: { ...view, changes: [] } }
    const { printed } = await owner('organization', 'preview', ...entry)
    expect(printed).toContain(
      `organization join --organization ${EXAMPLE} --identity-command '${program().replaceAll("'", `'\\''`)}' --charter 3 --binds s256:abc`,
    )
    answers['/owner/organization'] = {
      body: { enrolled: false, available: [], invitation: null, unreachable: [] },
    }
    const joined = await owner('organization', 'join', ...entry, '--charter=3', '--binds=s256:abc')
    expect(joined.code).toBe(0)
    const assertion = `assertion.for.${EXAMPLE}`
    expect(sentBodies()).toEqual([
      { issuer: EXAMPLE, assertion },
      { agreed: true, charter_version: 3, binds_s256: 's256:abc', issuer: EXAMPLE, assertion },
    ])
  })

  it.each([
    ['neither a code nor a program', []],
    ['both', ['inv_1.x', `--organization=${EXAMPLE}`, '--identity-command=exit 3']],
    // The organization that a server would name is not told who she is.
    ['a program and no organization', ['--identity-command=exit 3']],
  ])('join with %s is wrong usage, and nothing is run or sent', async (_what, given) => {
    const { code } = await owner('organization', 'join', ...given, '--charter=3', '--binds=x')
    expect([code, api.received.length]).toEqual([2, 0])
  })

  it.each([
    ['ends with a status', 'exit 3', 'ended with status 3'],
    ['prints nothing', 'true', 'ended and printed nothing'],
  ])('join by a program that %s is refused, and nothing is sent', async (_what, command, how) => {
    const { code, said } = await owner(
      'organization',
      'join',
      `--organization=${EXAMPLE}`,
      `--identity-command=${command}`,
      '--charter=3',
      '--binds=x',
    )
    expect([code, said]).toEqual([
      1,
      expect.stringContaining(`identity_unusable: The identity command ${how}`),
    ])
    expect(api.received).toEqual([])
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

  it.each([
    ['join', ['inv_1.x']],
    ['agree', []],
  ])('%s says which sidecars were waited for', async (command, entry) => {
    const leases = { holders: 2, acknowledged: 2, waited_ms: 14 }
    const standing = { enrolled: false, available: [], invitation: null, unreachable: [] }
    answers['/owner/organization'] = { body: { ...standing, leases } }
    const { printed } = await owner('organization', command, ...entry, '--charter=3', '--binds=s256:abc')
    expect(printed).toContain('2 sidecars let go in 14 ms.\n')
  })

  it('leave says which sidecars were waited for', async () => {
    const leases = { holders: 1, acknowledged: 0, waited_ms: 2_003, silent: ['tools'] }
    answers['/owner/organization'] = { body: { left: true, leases } }
    const { printed } = await owner('organization', 'leave')
    expect(printed).toContain('You have left.\n')
    expect(printed).toContain('1 sidecar of tools did not answer and can use nothing any more after 2003 ms.')
  })
})
