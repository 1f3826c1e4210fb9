/**
 * One of her things is named by the beginning of its name, as long as only one begins so (contract, "Owner
 * API": on the wire it is whole).
 */
import { describe, expect, it } from 'vitest'
import { ownerCommand } from '../support/owner-command.ts'

const { answers, api, owner } = ownerCommand()

const FIRST = 'jkt:abcdefgh_one'
const SECOND = 'jkt:abcdefgh_two'
const connections = [FIRST, SECOND, 'jkt:zzzzzz'].map(handle => ({ handle, status: 'active' }))
const UNKNOWN = { status: 404, body: { error: 'not_found', error_description: 'You have none.' } }

/** The authority knows a handle by its whole name alone. */
function revokes(): void {
  answers['/owner/connections'] = { body: connections }
  api.script('/owner/connections/revoke', ({ body }) => {
    const { handle } = JSON.parse(body.toString()) as { handle: string }
    return connections.some(one => one.handle === handle)
      ? { body: { handle, status: 'revoked', rpts_deactivated: 1 } }
      : UNKNOWN
  })
}

describe('a handle', () => {
  it('that is whole is sent as it is, and nothing else is asked', async () => {
    revokes()
    expect(await owner('revoke', FIRST)).toMatchObject({ code: 0 })
    expect(api.received).toHaveLength(1)
  })

  it.each([
    ['jkt:abcdefgh_o', FIRST],
    ['jkt:abcdefgh_tw', SECOND],
    ['jkt:zzzz…', 'jkt:zzzzzz'],
  ])('%s stands for the only one that begins so', async (given, handle) => {
    revokes()
    expect((await owner('revoke', given)).printed).toBe(
      `${handle} is revoked: 1 live grant ended.\nIt may ask you again; \`usher owner block\` keeps it from that.\n`,
    )
  })

  it('that may be any of several is refused with their names, and nothing is revoked', async () => {
    revokes()
    const { code, said } = await owner('revoke', 'jkt:abcdefgh')
    expect({ code, said }).toEqual({
      code: 2,
      said: `jkt:abcdefgh may be any of 2: ${FIRST}, ${SECOND}. Give more of it.\n`,
    })
    expect(api.to('/owner/connections/revoke')).toHaveLength(1)
  })

  it.each(['jkt:z', 'jkt:nobody', 'zzzzzz_of'])(
    'that names nobody is refused as unknown: %s',
    async given => {
      revokes()
      expect(await owner('revoke', given)).toMatchObject({
        code: 1,
        said: 'not_found: You have none. Your agents: usher owner connections\n',
      })
      expect(api.to('/owner/connections/revoke')).toHaveLength(1)
    },
  )
})

describe('her name for an agent', () => {
  const called = [
    { handle: FIRST, label: 'Tax bot' },
    { handle: SECOND, label: 'Twin' },
    { handle: 'jkt:zzzzzz', label: 'Twin' },
  ]

  it.each([['revoke'], ['block'], ['unblock']])('stands for its handle: %s', async verb => {
    answers['/owner/connections'] = { body: called }
    api.script(`/owner/connections/${verb}`, ({ body }) => {
      const { handle } = JSON.parse(body.toString()) as { handle: string }
      const done = { handle, status: 'revoked', blocked: verb === 'block', rpts_deactivated: 0 }
      return handle === FIRST ? { body: done } : UNKNOWN
    })
    const { code, printed } = await owner(verb, 'Tax bot')
    expect({ code, printed }).toMatchObject({ code: 0, printed: expect.stringContaining(FIRST) as string })
  })

  it('that several agents have is refused with their handles', async () => {
    answers['/owner/connections'] = { body: called }
    answers['/owner/connections/revoke'] = UNKNOWN
    expect(await owner('revoke', 'Twin')).toMatchObject({
      code: 2,
      said: `You call 2 agents so: ${SECOND}, jkt:zzzzzz. Give the handle of one.\n`,
    })
  })

  it('finds what that agent did', async () => {
    answers['/owner/connections'] = { body: called }
    answers['/owner/ledger'] = { body: { entries: [], next: null } }
    await owner('ledger', '--handle', 'Tax bot')
    expect(new URLSearchParams(api.to('/owner/ledger')[0]!.query).get('handle')).toBe(FIRST)
  })
})

describe('label', () => {
  /** The authority knows a handle by its whole name alone. */
  function labels(): void {
    answers['/owner/connections'] = { body: connections }
    api.script('/owner/connections/label', ({ body }) => {
      const given = JSON.parse(body.toString()) as { handle: string; label: string | null }
      return connections.some(one => one.handle === given.handle) ? { body: given } : UNKNOWN
    })
  }

  it('calls the only agent whose handle begins so by a name of her own', async () => {
    labels()
    expect(await owner('label', 'jkt:abcdefgh_o', 'Tax assistant')).toEqual({
      code: 0,
      printed: `${FIRST} is called Tax assistant.\n`,
      said: '',
    })
    expect(api.to('/owner/connections/label')[1]).toMatchObject({ method: 'PUT' })
    expect(JSON.parse((await owner('label', FIRST, 'Mine', '--json')).printed)).toEqual({
      handle: FIRST,
      label: 'Mine',
    })
  })

  it('without a text takes the label back', async () => {
    labels()
    expect((await owner('label', FIRST)).printed).toBe(`${FIRST} has no label any more.\n`)
    expect(JSON.parse(api.received[0]!.body.toString())).toEqual({ handle: FIRST, label: null })
  })

  it('says that the authority has no labels, and looks for no agent of that name', async () => {
    answers['/owner/connections'] = { body: connections }
    const body = { error: 'not_found', error_description: 'Nothing is served at this path.' }
    api.script('/owner/connections/label', { status: 404, body })
    expect(await owner('label', 'jkt:abcdefgh_o', 'Mine')).toMatchObject({
      code: 1,
      said: 'not_found: Nothing is served at this path.\n',
    })
    expect(api.received).toHaveLength(1)
  })

  it('of a handle that begins like several is refused with their names, and nothing is called so', async () => {
    labels()
    expect(await owner('label', 'jkt:abcdefgh', 'Mine')).toMatchObject({ code: 2 })
    expect(api.to('/owner/connections/label')).toHaveLength(1)
  })
})

describe('a family', () => {
  const items = ['fam_12345_a', 'fam_12345_b', 'fam_67890'].map(family => ({ family, kind: 'connection' }))

  it('is decided by the beginning of its name', async () => {
    answers['/owner/pending'] = { body: items }
    answers['/owner/pending/fam_12345/decision'] = UNKNOWN
    answers['/owner/pending/fam_6789/decision'] = UNKNOWN
    answers['/owner/pending/fam_67890/decision'] = { body: { family: 'fam_67890', decision: 'denied' } }
    expect((await owner('deny', 'fam_6789')).printed).toBe('fam_67890 denied.\n')
    expect(await owner('deny', 'fam_12345')).toMatchObject({ code: 2 })
    expect(api.to('/owner/pending/fam_12345_b/decision')).toEqual([])
  })

  it('is approved unseen (--yes) by its whole name alone, and the refusal says where that is', async () => {
    answers['/owner/pending'] = { body: items }
    answers['/owner/pending/fam_6789/decision'] = UNKNOWN
    answers['/owner/pending/fam_67890/decision'] = { body: { family: 'fam_67890', decision: 'approved' } }
    expect(await owner('approve', '--yes', 'fam_6789')).toMatchObject({
      code: 1,
      said: 'not_found: You have none. With --yes nothing is shown, so give the whole name, as `usher owner pending --json` has it; without --yes its beginning will do.\n',
    })
    expect(api.to('/owner/pending/fam_67890/decision')).toEqual([])
    expect((await owner('approve', '--yes', 'fam_67890')).printed).toBe('fam_67890 approved.\n')
  })

  it('is shown by the beginning of its name', async () => {
    answers['/owner/pending'] = { body: items }
    expect(JSON.parse((await owner('pending', 'fam_6789', '--json')).printed)).toEqual(items[2])
    expect(await owner('pending', 'fam_1234')).toMatchObject({ code: 2 })
  })

  it('that was decided meanwhile is told as decided, not looked for under another name', async () => {
    answers['/owner/pending'] = { body: items }
    answers['/owner/pending/fam_67890/decision'] = {
      status: 409,
      body: { error: 'conflict', error_description: 'Decided.' },
    }
    expect(await owner('deny', 'fam_67890')).toMatchObject({ code: 1, said: 'conflict: Decided.\n' })
    expect(api.received).toHaveLength(1)
  })
})

describe('a tier', () => {
  it('is removed by the beginning of its id', async () => {
    answers['/owner/policies'] = {
      body: {
        tiers: ['statements-monthly', 'statements-yearly'].map(id => ({
          id,
          resources: [],
          terms: { template_id: `alice/${id}/v1` },
        })),
      },
    }
    answers['/owner/policies/statements-monthly'] = {
      body: { deleted: 'statements-monthly', ungoverned: [] },
    }
    expect((await owner('tier', 'remove', 'statements-m')).printed).toMatch(
      /^Removed\. Denied from now on: nothing\.\n/,
    )
  })
})

describe('a resource server', () => {
  const servers = [
    'https://broker.example/mcp/alice',
    'https://broker.example/mcp/other',
    'demo-tools-of-mine',
  ]
  const decides = (): void => {
    answers['/owner/resource-servers'] = {
      body: servers.map(client_id => ({ client_id, name: client_id, status: 'pending' })),
    }
    api.script('/owner/resource-servers/decision', ({ body }) => {
      const { client_id, client_ids } = JSON.parse(body.toString()) as {
        client_id?: string
        client_ids?: string[]
      }
      const named = client_ids ?? [client_id!]
      if (!named.every(one => servers.includes(one))) return UNKNOWN
      const decided = named.map(one => ({ client_id: one, status: 'revoked' }))
      return { body: client_ids === undefined ? decided[0] : decided }
    })
  }

  it.each([
    ['https://broker.example/mcp/a', servers[0]],
    ['demo-tool', servers[2]],
  ])('%s stands for the only one that begins so', async (given, meant) => {
    decides()
    expect((await owner('revoke-server', given)).printed).toBe(`${meant} is revoked.\n`)
  })

  it('and another, each by its beginning, are decided in one call', async () => {
    decides()
    const { printed } = await owner(
      'revoke-server',
      'https://broker.example/mcp/a',
      'https://broker.example/mcp/o',
    )
    expect(printed).toBe(`${servers[0]} is revoked.\n${servers[1]} is revoked.\n`)
  })

  it.each([[['https://broker.example/mcp/a']], [[servers[2]!, 'https://broker.example/mcp/a']]])(
    'is approved unseen (--yes) by its whole name alone, and the refusal says where that is: %j',
    async given => {
      decides()
      const { code, said } = await owner('approve-server', '--yes', ...given)
      expect({ code, said }).toEqual({
        code: 1,
        said: 'not_found: You have none. With --yes nothing is shown, so give the whole name, as `usher owner servers --json` has it; without --yes its beginning will do.\n',
      })
      // Nobody asked which server the beginning may stand for, and nothing was decided about it.
      expect(api.received).toHaveLength(1)
    },
  )

  it('that may be either is refused, and the scheme of a URL names none', async () => {
    decides()
    expect(await owner('revoke-server', 'https://broker.example/mcp/')).toMatchObject({ code: 2 })
    expect(await owner('revoke-server', 'https://bro')).toMatchObject({ code: 1 })
  })
})

describe('what she calls an agent', () => {
  const handle = 'jkt:abcdefgh_one'
  const at = '2026-11-21T09:00:00.000Z'
  const known = [{ handle, status: 'active', label: 'Bookkeeper\u202e' }]
  const lists: [string[], string, unknown][] = [
    [
      ['pending'],
      '/owner/pending',
      [{ family: 'fam_1', kind: 'operation', resource_id: 'alice/x', handle, requested_at: at }],
    ],
    [['ledger'], '/owner/ledger', { entries: [{ seq: 1, ts: at, kind: 'granted', handle }], next: null }],
    [
      ['receipts'],
      '/owner/receipts',
      {
        receipts: [{ seq: 1, issued_at: at, family: 'fam_1', jti: 'rpt_1', handle, receipt: '' }],
        next: null,
      },
    ],
  ]

  it.each(lists)('stands beside its handle: %s', async (command, path, body) => {
    answers['/owner/connections'] = { body: known }
    answers[path] = { body }
    const { code, printed } = await owner(...command)
    expect(code).toBe(0)
    expect(printed).toMatch(/ LABEL\b/)
    expect(printed).toMatch(/jkt:abcdefgh_one +Bookkeeper\\u\{202e\}/)
    answers['/owner/connections'] = { body: [] }
    expect((await owner(...command)).printed).not.toContain('LABEL')
  })

  it.each(lists)(
    'is no part of the JSON of a script, which asks for nothing more: %s',
    async (command, path, body) => {
      answers['/owner/connections'] = { body: known }
      answers[path] = { body }
      const { printed } = await owner('--json', ...command)
      expect(printed).not.toContain('Bookkeeper')
      expect(api.to('/owner/connections')).toEqual([])
    },
  )

  it('stands in the whole of a request that waits', async () => {
    const [waiting] = lists[0]![2] as [object]
    const terms = { prohibited: [], enforced: { scope: true }, because: ['the tier asks each time'] }
    answers['/owner/connections'] = { body: known }
    answers['/owner/pending'] = { body: [{ ...waiting, ...terms, family: 'fam_1' }] }
    const { printed, said } = await owner('pending', 'fam_1')
    expect(said).toBe('')
    expect(printed).toMatch(/^label +Bookkeeper/m)
  })
})
