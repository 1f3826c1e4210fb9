/**
 * Contract, "The organization's authority" (`/admin/...`) from the command line, against a real organization.
 */
import { randomBytes } from 'node:crypto'
import { writeFileSync } from 'node:fs'
import { describe, expect, it, vi } from 'vitest'
import { adminCommand } from '../support/admin-command.ts'
import { startMemberStand } from '../support/organization-members.ts'
import { charterOf, ORG_ISSUER } from '../support/organization.ts'
import { startedOnce } from '../support/started.ts'

const stand = startedOnce(() => startMemberStand())
const { admin, at } = adminCommand(() => ORG_ISSUER, stand)
async function answered(...args: string[]) {
  const { code, printed, said } = await admin('--json', ...args)
  expect([code, said]).toEqual([0, ''])
  return JSON.parse(printed)
}
const file = (content: unknown): string => {
  const path = at('charter.json')
  writeFileSync(path, JSON.stringify(content))
  return path
}

describe('usher admin charter', () => {
  it('shows what is in force; what it printed, changed, is published under the next number', async () => {
    const before = await answered('charter')
    const changed = { ...before, charter: { ...before.charter, name: 'Changed' } }
    const { code, printed } = await admin('charter', 'put', file(changed))
    expect([code, printed]).toEqual([0, `Version ${before.version + 1} is in force.\n`])
    expect((await answered('charter', 'show')).charter.name).toBe('Changed')
    expect((await answered('charter', 'show', '--version', String(before.version))).s256).toBe(before.s256)
    const listed = await answered('charter', 'versions')
    expect(listed.map(({ version }: { version: number }) => version)).toContain(before.version + 1)
  })

  it('made for an earlier version is refused, and the one in force stays', async () => {
    const before = await answered('charter')
    const { code, said } = await admin('charter', 'put', file(charterOf()), '--base-version', '0')
    expect([code, said]).toEqual([1, expect.stringMatching(/^conflict: Read the charter again/)])
    expect((await answered('charter')).version).toBe(before.version)
  })

  it('without the version that was changed is not sent', async () => {
    const { code, said } = await admin('charter', 'put', file(charterOf()))
    expect([code, said]).toEqual([
      2,
      'Say which version you changed: --base-version <number> (0 if there is none).\n',
    ])
  })
})

describe('usher admin groups', () => {
  it('makes a group, makes it the one of joiners, and deletes it again', async () => {
    const set = [
      'groups',
      'set',
      'crew',
      '--name',
      'Crew',
      '--grant',
      'acme/wiki',
      '--delegation',
      'any-agent',
    ]
    expect((await admin(...set)).printed).toMatch(/^Version \d+ is in force\.\n$/)
    expect((await answered('groups')).roles.crew).toEqual({
      name: 'Crew',
      grants: ['acme/wiki'],
      delegation: 'any-agent',
    })
    expect((await admin('groups', 'default', 'crew')).code).toBe(0)
    const refused = await admin('groups', 'remove', 'crew')
    expect([refused.code, refused.said]).toEqual([1, expect.stringMatching(/^conflict: Make another group/)])
    expect((await admin('groups', 'default', '--none')).code).toBe(0)
    expect((await admin('groups')).printed).toContain('nothing is shared with them')
    expect((await admin('groups', 'remove', 'crew')).code).toBe(0)
    expect((await answered('groups')).roles).not.toHaveProperty('crew')
  })

  it('needs one group, or none', async () => {
    for (const args of [['default'], ['default', 'staff', '--none']])
      expect(await admin('groups', ...args)).toEqual({
        code: 2,
        printed: '',
        said: 'Name one group, or give --none.\n',
      })
  })
})

describe('usher admin invite', () => {
  it('prints the code once, alone; the list has it without its code, until it is withdrawn', async () => {
    const invited = await admin('invite', 'alice', '--authority', stand.first.uri, '--note', 'Welcome')
    expect(invited).toMatchObject({
      code: 0,
      said: expect.stringMatching(
        /^For alice alone, once, until .*: usher owner organization preview <code>\n$/,
      ),
    })
    expect(invited.printed).toMatch(/^\S+\n$/)
    const [waiting] = await answered('invites')
    expect(waiting).toMatchObject({ owner: 'alice', as_uri: stand.first.uri, note: 'Welcome' })
    expect(JSON.stringify(waiting)).not.toContain(invited.printed.trim())
    expect((await admin('uninvite', waiting.code_id)).printed).toBe(`${waiting.code_id} is withdrawn.\n`)
    expect((await admin('invites')).printed).toBe('No invitation waits.\n')
  })

  it('of an authority that the organization does not list is refused', async () => {
    const { code, said } = await admin('invite', 'alice', '--authority', 'https://other.example')
    expect([code, said]).toEqual([1, expect.stringContaining('UMA_ORG_AUTHORITIES')])
  })

  it('by a code for many, each one ends the one before', async () => {
    const codes = [await admin('join-code'), await admin('join-code')].map(({ printed }) => printed)
    expect(new Set(codes).size).toBe(2)
  })
})

describe('usher admin members and clearance', () => {
  it('moves a member, attests facts of her and withdraws them, and ends her membership', async () => {
    const joining = { owner: 'carol', join_id: randomBytes(12).toString('hex') }
    const { status } = await stand.post('join', await stand.joining(joining, await stand.invited('carol')))
    expect(status).toBe(200)
    const carol = async () =>
      (await answered('members')).find(({ owner }: { owner: string }) => owner === 'carol')

    expect((await admin('members', 'move', 'carol', 'guests')).code).toBe(0)
    expect((await admin('clearance', 'carol', 'level=secret', 'site=a=b')).code).toBe(0)
    expect(await carol()).toMatchObject({ role: 'guests', clearance: { level: 'secret', site: 'a=b' } })
    expect((await admin('members', 'move', 'carol', '--none')).code).toBe(0)
    expect((await admin('clearance', 'carol', '--withdraw')).code).toBe(0)
    expect(await carol()).toMatchObject({ role: null, clearance: {} })
    expect((await admin('members')).printed).toMatch(/^carol +none /m)

    expect((await admin('members', 'remove', 'carol')).printed).toBe('carol is a member no more.\n')
    expect(await carol()).toBeUndefined()
  })

  it('of somebody who is no member are refused', async () => {
    for (const args of [
      ['members', 'move', 'bea', 'staff'],
      ['members', 'remove', 'bea'],
      ['clearance', 'bea', 'level=secret'],
    ])
      expect(await admin(...args)).toMatchObject({ code: 1, said: expect.stringMatching(/^not_found: /) })
  })

  it.each([
    [['clearance', 'bea'], 'Give the facts, each as name=value, or --withdraw.\n'],
    [['clearance', 'bea', 'level=1', '--withdraw'], 'Give the facts, each as name=value, or --withdraw.\n'],
    [['clearance', 'bea', 'secret'], 'Give each fact as name=value, not secret.\n'],
    [['clearance', 'bea', 'level=1', 'level=2'], 'Give each fact once.\n'],
  ])('%j is refused before anything is sent', async (args, said) => {
    expect(await admin(...args)).toEqual({ code: 2, printed: '', said })
  })
})

describe('usher admin break-glass', () => {
  it('prints the voucher alone, and says whom it reaches; of nobody it opens nothing', async () => {
    const { version } = await answered('charter')
    const break_glass = {
      enabled: true,
      resources: ['acme/vault'],
      max_expires_in: 300,
      require_reason: true,
    }
    const charter = file({ version, charter: charterOf({ break_glass }) })
    expect((await admin('charter', 'put', charter)).code).toBe(0)
    const joining = { owner: 'dora', join_id: randomBytes(12).toString('hex') }
    await stand.post('join', await stand.joining(joining, await stand.invited('dora')))

    const opened = await admin('break-glass', 'dora', '--reason', 'The vault burns', '--window', '60')
    expect(opened).toEqual({
      code: 0,
      printed: expect.stringMatching(/^bgv_\S+\n$/),
      said: 'For one call at dora, within 60 s. She is notified now, and of its use.\n',
    })
    const brief = await admin('break-glass', 'dora', '--reason', 'The vault burns')
    expect(brief.said).toContain(', within 300 s.')
    const nobody = await admin('break-glass', 'nobody', '--reason', 'The vault burns')
    expect(nobody).toMatchObject({ code: 1, printed: '', said: expect.stringMatching(/^not_found: /) })
    expect((await admin('break-glass', 'dora')).code).toBe(2)
  })

  it('opened what `windows` lists, until `close-window` closes it', async () => {
    const windows = await answered('windows')
    expect(windows.map(({ owner }: { owner: string }) => owner)).toEqual(['dora', 'dora'])
    for (const { window_id } of windows) {
      expect((await admin('windows')).printed).toContain(window_id)
      expect(await admin('close-window', window_id)).toEqual({
        code: 0,
        printed: `${window_id} is closed.\n`,
        said: '',
      })
    }
    expect((await admin('windows')).printed).toBe('No window is open.\n')
    const again = await admin('close-window', windows[0].window_id)
    expect(again).toMatchObject({ code: 1, said: expect.stringMatching(/^not_found: /) })
  })
})

describe('usher admin', () => {
  it('shows what was done, by whom', async () => {
    const entries = await answered('activity', '--limit', '3')
    expect(entries).toHaveLength(3)
    const rest = await answered('activity', '--after', String(entries[2].seq))
    expect(rest.map(({ seq }: { seq: number }) => seq)).not.toContain(entries[2].seq)
    expect(rest.some(({ admin: by }: { admin: string }) => by === 'ines')).toBe(true)
  })

  it('is nobody with a key that the organization does not know', async () => {
    vi.stubEnv('UMA_ADMIN_KEY', at('other.json'))
    const made = await admin('key')
    expect(made.said).toMatch(/Anybody who holds that file administers as you\.\n$/)
    expect(JSON.parse(made.printed)).not.toHaveProperty('d')
    const { code, said } = await admin('members')
    expect([code, said]).toEqual([1, expect.stringMatching(/^invalid_credential: /)])
  })

  it('says what to name where the organization is not named', async () => {
    vi.stubEnv('UMA_ADMIN_ISSUER', '')
    expect(await admin('members')).toEqual({
      code: 2,
      printed: '',
      said: 'Name the organization: --issuer <url> or UMA_ADMIN_ISSUER.\n',
    })
  })
})
