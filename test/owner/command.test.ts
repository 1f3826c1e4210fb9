/** `usher owner`: tables for a person, JSON for a script, exit codes (contract, "Owner API"). */
import { stat } from 'node:fs/promises'
import { join } from 'node:path'
import { describe, expect, it, vi } from 'vitest'
import { importPublicJwk } from '../../src/wire/signatures/keys.ts'
import { parsePinnedKeys } from '../../src/wire/signatures/pinned-keys.ts'
import { ownerCommand, OWNER_ISSUER } from '../support/owner-command.ts'
import type { Reply } from '../support/scripted-http.ts'

const { answers, api, directory, owner, ownerAt } = ownerCommand()

const trade = {
  family: 'fam_7',
  kind: 'operation',
  tier: 'trading',
  tier_name: 'Trading',
  resource_id: 'alice/trades',
  purpose: 'Rebalance',
  operation: { tool: 'place_trade', params: { symbol: 'VTI', note: '\u001b[2K\u202e' } },
  reason: 'because\n\u001b]0;x\u0007',
  mission: null,
  prohibited: ['leverage'],
  enforced: { scope: true },
  expires_in: 300,
  identity: {
    kind: 'pseudonymous',
    operator: 'https://op.example',
    client_id: 'https://op.example/a\u001b',
    signature_agent: null,
  },
  handle: 'jkt:abc',
  assurance: { binding: 1, provenance: 0, accountability: 0 },
  assurance_notes: ['the key alone vouches for it'],
  because: ['the tier asks each time'],
  requested_at: '2026-11-21T09:00:00.000Z',
}

describe('pending', () => {
  it('is a table of what waits', async () => {
    answers['/owner/pending'] = { body: [trade] }
    const { code, printed } = await owner('pending')
    expect(code).toBe(0)
    const wants = 'place_trade {"symbol":"VTI","note":"\\u001b[2K\\u{202e}"}'
    expect(printed.split('\n')).toEqual([
      `FAMILY  KIND       RESOURCE      ${'WANTS'.padEnd(wants.length)}  AGENT    SINCE`,
      `fam_7   operation  alice/trades  ${wants}  jkt:abc  2026-11-21 09:00:00Z`,
      '',
    ])
  })

  it.each([
    [['reading', 'statements\u001b'], 'without asking you again: reading, statements\\u{1b}'],
    [[], 'nothing now: every tier of yours asks you about each operation'],
  ])('says of a first contact what approving it opens: %j', async (opens, told) => {
    answers['/owner/pending'] = { body: [{ ...trade, kind: 'connection', opens }] }
    const { printed } = await owner('pending', 'fam_7')
    expect(printed).toMatch(/^approving opens +\S/m)
    expect(printed).toContain(told)
  })

  it.each([
    [{ kind: 'threshold', threshold: 2, total_weight: 3 }, 'the approval of 2 of them'],
    [{ kind: 'all', threshold: 3, total_weight: 3 }, 'the approval of all of them'],
    [{ kind: 'any', threshold: 1, total_weight: 3 }, 'the approval of any one of them'],
    [{ kind: 'threshold', threshold: 3, total_weight: 5 }, 'approvals that weigh 3 of 5'],
  ])('says of what she holds with others who is asked and how many it takes: %j', async (rule, takes) => {
    const holders = ['alice', 'bea', 'carl'].map((one, at) => {
      const weight = at === 0 ? rule.total_weight - 2 : 1
      return { owner: one, issuer: 'https://as.example', weight }
    })
    const item = { ...trade, kind: 'joint', account: 'family-1', rule, holders, opens: [] }
    answers['/owner/pending'] = { body: [item] }
    const { printed } = await owner('pending', 'fam_7')
    expect(printed).toMatch(/^kind +joint \(something that you hold with others\)$/m)
    expect(printed).toMatch(/^account +family-1$/m)
    const weight = rule.total_weight === 3 ? '' : ', weight 3'
    expect(printed).toContain(`alice at https://as.example${weight}, bea at https://as.example`)
    expect(printed).toMatch(new RegExp(`^it takes +${takes}$`, 'm'))
    expect(printed).toMatch(/^approving opens +nothing beside what is held jointly in family-1$/m)
    expect((await owner('pending')).printed).toContain('joint (family-1)')
  })

  it('shows one request as it is listed if there is no record, escaped, and no word that nobody verified', async () => {
    answers['/owner/pending'] = { body: [trade] }
    const { printed } = await owner('pending', 'fam_7')
    expect(printed).toContain('The authority gives no record of this request: it lists what follows')
    expect(printed).toContain('operation    place_trade {"symbol":"VTI","note":"\\u001b[2K\\u{202e}"}\n')
    expect(printed).toContain('vouched for  by nobody\n')
    expect(printed).toContain('identity     pseudonymous\noperator     https://op.example\n')
    expect(printed).toContain('its own words are not shown')
    expect(printed).not.toContain('because\\u{a}')
    expect(printed).toContain('usher owner approve fam_7\nusher owner deny fam_7\n')
    // oxlint-disable-next-line no-control-regex -- looking for them is the purpose
    expect(printed).not.toMatch(/[\u001b\u0007\u202e]/)
  })

  it('says in plain words what is enforced, and which prohibitions are only promised', async () => {
    const prohibited = ['leverage\u001b', 'withdraw', 'cancel_trade', 'newer']
    const enforced = {
      scope: ['trade'],
      expires_in: 300,
      single_use: true,
      operation_bound: true,
      prohibited: [
        { prohibition: 'leverage\u001b', by: 'promise' },
        { prohibition: 'withdraw', by: 'scope' },
        { prohibition: 'cancel_trade', by: 'operation' },
        { prohibition: 'newer', by: 'magic' },
      ],
    }
    answers['/owner/pending'] = { body: [{ ...trade, prohibited, enforced }] }
    const { printed } = await owner('pending', 'fam_7')
    expect(printed).toContain(
      'prohibited   leverage\\u{1b} (only promised), withdraw (enforced: no grant under these terms has that scope), ' +
        'cancel_trade (enforced: this grant is for one other call), newer\n' +
        'enforced     scope trade; at most 300 s; once; exactly this operation\n',
    )
    // From an authority that says less, or more than is known here.
    answers['/owner/pending'] = { body: [trade] }
    expect((await owner('pending', 'fam_7')).printed).toContain(
      'prohibited   leverage\nenforced     {"scope":true}\n',
    )
  })

  it('fits the terminal, says that it was shortened, and is whole with --wide', async () => {
    answers['/owner/pending'] = { body: [trade] }
    const narrow = await ownerAt(80, 'pending')
    expect(Math.max(...narrow.printed.split('\n').map(line => line.length))).toBe(80)
    expect(narrow.printed).toContain('place_tra')
    expect(narrow.said).toMatch(/^Shortened to fit; --wide shows everything/)
    const whole = await owner('pending')
    expect(await ownerAt(80, 'pending', '--wide')).toEqual(whole)
    expect((await ownerAt(200, 'pending')).printed).toContain(
      'place_trade {"symbol":"VTI","note":"\\u001b[2K\\u{202e}"}',
    )
    expect((await ownerAt(80, 'pending', '--json')).said).toBe('')
  })

  it('says nothing of shortening where records stand in place of a table that has no room', async () => {
    answers['/owner/pending'] = { body: [trade] }
    const records = await ownerAt(30, 'pending')
    expect(records.printed).toContain('fam_7')
    expect(records.said).not.toContain('Shortened')
  })

  it('is JSON for a script', async () => {
    answers['/owner/pending'] = { body: [trade] }
    expect(JSON.parse((await owner('--json', 'pending')).printed)).toEqual([trade])
    expect(JSON.parse((await owner('pending', 'fam_7', '--json')).printed)).toEqual(trade)
  })

  it('says so when nothing waits, or not what was named', async () => {
    answers['/owner/pending'] = { body: [] }
    expect(await owner('pending')).toMatchObject({ code: 0, printed: 'Nothing waits for you.\n' })
    expect(await owner('pending', 'fam_1')).toMatchObject({ code: 1, printed: '' })
  })
})

describe('a decision', () => {
  it.each([
    ['approve', 'approved'],
    ['deny', 'denied'],
  ])('%s is sent and told', async (command, decision) => {
    answers['/owner/pending/fam_7/decision'] = { body: { family: 'fam_7', decision, by: 'owner' } }
    const told = { code: 0, printed: `fam_7 ${decision}.\n`, said: '' }
    expect(await owner(command, 'fam_7', ...(command === 'approve' ? ['--yes'] : []))).toEqual(told)
    expect(JSON.parse(api.received[0]!.body.toString())).toEqual({ decision })
  })

  it('that comes too late ends with 1 and the reason', async () => {
    answers['/owner/pending/fam_7/decision'] = {
      status: 409,
      body: { error: 'conflict', error_description: 'This no longer waits for you.' },
    }
    expect(await owner('approve', '--yes', 'fam_7')).toEqual({
      code: 1,
      printed: '',
      said: 'conflict: This no longer waits for you.\n',
    })
  })
})

describe('a refusal', () => {
  it('is JSON on standard error for a script that asked for JSON, and still acts on no terminal', async () => {
    const error_description = 'This no longer waits: \u001b[2K\u202e.'
    answers['/owner/pending/fam_7/decision'] = { status: 409, body: { error: 'conflict', error_description } }
    const { code, printed, said } = await owner('--json', 'approve', '--yes', 'fam_7')
    expect({ code, printed }).toEqual({ code: 1, printed: '' })
    expect(JSON.parse(said)).toEqual({ error: 'conflict', error_description })
    // oxlint-disable-next-line no-control-regex -- looking for them is the purpose
    expect(said).not.toMatch(/[\u001b\u202e]/)
  })
})

describe('a list', () => {
  const terms = { template_id: 't', purpose: 'Look', scope: ['read'], expires_in: 60, prohibited: [] }
  const tier = { id: 'reading', name: 'Reading', resources: ['alice/portfolio'], ask_me: false, terms }
  const rule = { when: ['standing.age_above:90d', 'standing.never_revoked'], then: 'auto' }
  it.each([
    [
      ['connections'],
      '/owner/connections',
      [{ handle: 'jkt:a', status: 'active', reach: null, tiers_approved: ['reading'] }],
      'jkt:a   active  -      all tiers, later ones too  reading',
    ],
    // An agent that an administrator let in is a stranger to everything else of hers.
    [
      ['connections'],
      '/owner/connections',
      [{ handle: 'jkt:a', status: 'active', reach: 'organization', tiers_approved: ['reading'] }],
      'jkt:a   active  -      only what your organization governs  reading',
    ],
    [
      ['connections'],
      '/owner/connections',
      [{ handle: 'jkt:a', status: 'active', reach: 'joint:family\u001b[2J', tiers_approved: [] }],
      'only what is held jointly in family\\u{1b}[2J',
    ],
    [['connections'], '/owner/connections', [], 'No agent has a connection with you.'],
    [
      ['policies'],
      '/owner/policies',
      { tiers: [{ ...tier, rules: [rule] }] },
      'auto when standing.age_above:90d and standing.never_revoked',
    ],
    [['policies'], '/owner/policies', { tiers: [] }, 'You have no tiers: everything is denied.'],
    [
      ['resources'],
      '/owner/resources',
      [{ _id: 'alice/account', resource_scopes: ['close'], tier: null }],
      'undescribed  none: denied',
    ],
    [['resources'], '/owner/resources', [], 'No resource server has registered anything of yours.'],
    [
      ['ledger', '--kind', 'touched', '--limit', '5'],
      '/owner/ledger',
      {
        entries: [
          {
            seq: 4,
            ts: '2026-11-21T09:00:00Z',
            kind: 'touched',
            family: 'fam_7',
            tool: 'x\u001b',
            facts: { a: 1 },
          },
        ],
        next: null,
      },
      '4    2026-11-21 09:00:00Z  touched  fam_7   -       tool=x\\u{1b}',
    ],
    [['ledger'], '/owner/ledger', { entries: [], next: null }, 'Nothing is recorded.'],
  ])('%j is a table', async (args, path, body, line) => {
    answers[path] = { body }
    const { code, printed } = await owner(...args)
    expect(code).toBe(0)
    expect(printed).toContain(line)
    const json = JSON.parse((await owner(...args, '--json')).printed) as object
    expect(JSON.stringify(body)).toContain(JSON.stringify(json).slice(1, -1))
  })
})

describe('watch', () => {
  const events =
    'id: 1\nevent: pending\ndata: {"family":"fam_7","kind":"connection","handle":"jkt:a","resource_id":"alice/portfolio","purpose":"Look"}\n\n' +
    'id: 2\nevent: decided\ndata: {"family":"fam_7","decision":"approved","by":"owner"}\n\n' +
    'id: 3\nevent: connection_revoked\ndata: {"handle":"jkt:a","by":"owner"}\n\n' +
    'id: 4\nevent: reset\ndata: {}\n\nid: 5\nevent: from_the_future\ndata: {"x":"\\u001b"}\n\n' +
    'id: 6\nevent: connection_labelled\ndata: {"handle":"jkt:a","label":"Mine","by":"owner"}\n\n' +
    'id: 7\nevent: connection_labelled\ndata: {"handle":"jkt:a","label":null,"by":"owner"}\n\n'
  const stream = (): Reply => ({ headers: { 'content-type': 'text/event-stream' }, body: events })

  it('prints what happens until it is told that nothing more comes', async () => {
    let opened = 0
    api.script('/owner/events', () => (opened++ === 0 ? stream() : { status: 204 }))
    const { code, printed, said } = await owner('watch')
    expect(code).toBe(0)
    expect(said).toContain('Watching.\n')
    expect(printed).toBe(
      'pending  fam_7  jkt:a asks (connection) for alice/portfolio: Look\n' +
        'decided  fam_7  approved by owner\n' +
        'revoked  jkt:a by owner\n' +
        'reset  Events were missed: look at pending, connections and ledger afresh.\n' +
        'from_the_future  {"x":"\\u001b"}\n' +
        'label    jkt:a is called Mine\n' +
        'label    jkt:a has no label any more\n',
    )
    opened = 0
    const lines = (await owner('watch', '--json', '--after', '0')).printed.trim().split('\n')
    expect(lines.map(line => (JSON.parse(line) as { id: string }).id)).toEqual([
      '1',
      '2',
      '3',
      '4',
      '5',
      '6',
      '7',
    ])
    expect(api.to('/owner/events').map(one => one.headers['last-event-id'])).toEqual([
      undefined,
      '7',
      '0',
      '7',
    ])
  })

  it('first shows what waits already, to a person who sees its events from now on', async () => {
    answers['/owner/pending'] = { body: [trade] }
    let opened = 0
    api.script('/owner/events', () => (opened++ === 0 ? stream() : { status: 204 }))
    const [heading, item, event] = (await owner('watch')).printed.split('\n')
    expect(heading).toMatch(/^FAMILY/)
    expect(item).toMatch(/^fam_7 +operation/)
    expect(event).toMatch(/^pending +fam_7/)
    for (const args of [['--json'], ['--after', '0']]) {
      opened = 0
      expect((await owner('watch', ...args)).printed).not.toContain('FAMILY')
    }
  })

  it('ends with Ctrl-C', async () => {
    api.script('/owner/events', () => ({
      write: response => {
        response.writeHead(200, { 'content-type': 'text/event-stream' }).write(': here\n\n')
        setImmediate(() => process.emit('SIGINT'))
      },
    }))
    expect(await owner('watch')).toMatchObject({ code: 0, printed: '' })
  })
})

describe('key', () => {
  it('export prints the keys file in which others pin it', async () => {
    const path = join(directory(), 'pinned.json')
    const { printed } = await owner('key', '--key', path)
    const exported = await owner('key', 'export', '--key', path)
    expect(JSON.parse(exported.printed)).toEqual({ keys: [JSON.parse(printed)] })
    expect(parsePinnedKeys(exported.printed)).toMatchObject({
      devices: [{ x: expect.any(String) as string }],
    })
  })

  it('makes the device key if there is none, and shows its public half ever after', async () => {
    const path = join(directory(), 'deep', 'new.json')
    const first = await owner('key', '--key', path)
    expect(first.said).toContain('Made a device key')
    expect(importPublicJwk(JSON.parse(first.printed)).thumbprint).toBe(
      (JSON.parse(first.printed) as { kid: string }).kid,
    )
    expect((await stat(path)).mode & 0o777).toBe(0o600)
    expect(await owner('key', '--key', path)).toEqual({ code: 0, printed: first.printed, said: '' })
  })
})

describe('exit codes', () => {
  it('3 if the API is out of reach', async () => {
    await api.close()
    expect(await owner('pending')).toMatchObject({
      code: 3,
      said: expect.stringContaining('cannot be reached') as string,
    })
  })

  it('2 for wrong usage: no authority named, no key, an address that is none, an unknown variable', async () => {
    vi.stubEnv('UMA_OWNER_ISSUER', '')
    expect(await owner('pending')).toMatchObject({
      code: 2,
      said: 'Name the authority: --issuer <url> or UMA_OWNER_ISSUER, or enrol, which keeps it.\n',
    })
    const issuerOption = ['--issuer', OWNER_ISSUER]
    expect(await owner('pending', ...issuerOption, '--key', join(directory(), 'none.json'))).toMatchObject({
      code: 2,
    })
    expect(await owner('pending', ...issuerOption, '--api', 'http://as.example.com')).toMatchObject({
      code: 2,
    })
    expect(await owner('ledger', ...issuerOption, '--after', 'x')).toMatchObject({ code: 2 })
    vi.stubEnv('UMA_OWNER_ISUER', 'x')
    const { code, said } = await owner('pending', ...issuerOption)
    expect(code).toBe(2)
    expect(said).toContain('  - UMA_OWNER_ISUER is not a setting of usher')
  })
})
