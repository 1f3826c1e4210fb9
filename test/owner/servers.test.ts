/**
 * `usher owner servers`, `approve-server`, `revoke-server`, `ban-origin`, `unban-origin`, `banned-origins`:
 * contract, "Owner API" (`/owner/resource-servers`).
 */
import { beforeEach, describe, expect, it } from 'vitest'
import { runOwner } from '../../src/owner/main.ts'
import { eventLine, shortNames } from '../../src/owner/display/show.ts'
import { capturedTerminal } from '../support/captured-terminal.ts'
import { ownerCommand } from '../support/owner-command.ts'

const { answers, api, owner } = ownerCommand()

const broker = {
  client_id: 'https://broker.example/mcp/alice',
  name: 'Broker\u001b[2J\u202e',
  resource_uri: 'https://broker.example/mcp/alice',
  status: 'pending',
  auth: 'signature',
  registered_at: '2026-11-21T09:00:00.000Z',
  decided_at: null,
  last_pat_issued: null,
  registry: { landed_at: null, failed_at: null, fault: null, conflicts: 0 },
}

describe('servers', () => {
  it('is a table, what they call themselves escaped', async () => {
    answers['/owner/resource-servers'] = { body: [broker] }
    const { code, printed } = await owner('servers')
    expect(code).toBe(0)
    expect(printed).toContain('https://broker.example/mcp/alice')
    expect(printed).toContain('pending')
    expect(printed).toContain('2026-11-21 09:00:00Z')
    expect(printed).toContain('Broker\\u{1b}[2J\\u{202e}')
    // oxlint-disable-next-line no-control-regex -- looking for them is the purpose
    expect(printed).not.toMatch(/[\u001b\u202e]/)
  })

  it.each<[string, object]>([
    ['landed', { landed_at: '2026-11-21T09:00:00.000Z' }],
    ['landed, 2 not taken', { landed_at: '2026-11-21T09:00:00.000Z', conflicts: 2 }],
    ['failed: listing_status', { landed_at: '2026-11-21T09:00:00.000Z', fault: 'listing_status' }],
    ['not yet', {}],
  ])('says how its listing stands: %s', async (words, changes) => {
    const registry = { ...broker.registry, ...changes }
    answers['/owner/resource-servers'] = { body: [{ ...broker, status: 'active', registry }] }
    expect((await owner('servers')).printed).toMatch(new RegExp(`  ${words}  `))
  })

  it('says of one from which nothing is pulled that its resources are declared', async () => {
    answers['/owner/resource-servers'] = { body: [{ ...broker, status: 'active', registry: null }] }
    expect((await owner('servers')).printed).toContain('declared here')
  })

  it('is JSON for a script, and a sentence if there is none', async () => {
    answers['/owner/resource-servers'] = { body: [broker] }
    expect(JSON.parse((await owner('servers', '--json')).printed)).toEqual([broker])
    answers['/owner/resource-servers'] = { body: [] }
    expect((await owner('servers')).printed).toBe('No resource server serves you, and none asks to.\n')
  })
})

it('revoke-server says which sidecars were waited for', async () => {
  const leases = { holders: 2, acknowledged: 2, waited_ms: 14 }
  answers['/owner/resource-servers/decision'] = { body: { ...broker, status: 'revoked', leases } }
  const { printed } = await owner('revoke-server', broker.client_id)
  expect(printed).toBe(`${broker.client_id} is revoked.\n2 sidecars let go in 14 ms.\n`)
})

it('revoke-server of several says once which sidecars were waited for', async () => {
  const leases = { holders: 2, acknowledged: 1, waited_ms: 2_001, silent: ['tools'] }
  const second = 'https://broker.example/mcp/bea'
  answers['/owner/resource-servers/decision'] = {
    body: [broker.client_id, second].map(client_id => ({ ...broker, client_id, status: 'revoked', leases })),
  }
  const { printed } = await owner('revoke-server', broker.client_id, second)
  expect(printed).toBe(
    `${broker.client_id} is revoked.\n${second} is revoked.\n` +
      '1 sidecar let go; 1 sidecar of tools did not answer and can use nothing any more after 2001 ms.\n',
  )
})

describe.each([
  ['approve-server', 'approved', 'active', ['--yes']],
  ['revoke-server', 'revoked', 'revoked', []],
])('%s', (command, decision, status, yes) => {
  it('names the client_id in the body, for it is a URL, and tells the state', async () => {
    answers['/owner/resource-servers/decision'] = { body: { ...broker, status } }
    expect(await owner(command, ...yes, broker.client_id)).toEqual({
      code: 0,
      printed: `${broker.client_id} is ${status}.\n`,
      said: '',
    })
    expect(JSON.parse(api.received[0]!.body.toString())).toEqual({ client_id: broker.client_id, decision })
    expect(JSON.parse((await owner('--json', command, ...yes, broker.client_id)).printed)).toMatchObject({
      status,
    })
  })

  it('takes several of one origin, in one call', async () => {
    const others = { ...broker, client_id: 'https://broker.example/mcp/other\u001b' }
    answers['/owner/resource-servers/decision'] = { body: [broker, others].map(one => ({ ...one, status })) }
    expect((await owner(command, ...yes, broker.client_id, others.client_id)).printed).toBe(
      `${broker.client_id} is ${status}.\nhttps://broker.example/mcp/other\\u{1b} is ${status}.\n`,
    )
    expect(JSON.parse(api.received.at(-1)!.body.toString())).toEqual({
      client_ids: [broker.client_id, others.client_id],
      decision,
    })
  })

  it('ends with 1 and the reason where it is refused, with 2 without a name', async () => {
    answers['/owner/resource-servers/decision'] = {
      status: 409,
      body: { error: 'conflict', error_description: 'It has to register again.' },
    }
    expect(await owner(command, ...yes, 'x')).toMatchObject({
      code: 1,
      said: 'conflict: It has to register again.\n',
    })
    expect(await owner(command)).toMatchObject({ code: 2 })
  })
})

describe('approve-server without --yes', () => {
  const second = { ...broker, client_id: 'https://broker.example/mcp/bea', name: 'Letters' }
  const DECIDED = '/owner/resource-servers/decision'
  const atTerminal = async (answer: boolean, ...names: string[]) => {
    const asked: string[] = []
    const terminal = capturedTerminal(80)
    const confirm = async (question: string): Promise<boolean> => {
      asked.push(question)
      // It was shown before she is asked.
      expect(terminal.said).toContain('may ask about your grants')
      return answer
    }
    const args = ['approve-server', ...names]
    const code = await runOwner(args, Object.defineProperty(terminal, 'confirm', { value: confirm }))
    return { code, asked, printed: terminal.printed, said: terminal.said }
  }
  beforeEach(() => {
    answers['/owner/resource-servers'] = { body: [broker, second] }
    answers[DECIDED] = { body: { ...second, status: 'active' } }
  })

  it('shows at a terminal who the server is, escaped, asks, and approves the one that was shown', async () => {
    const { code, asked, printed, said } = await atTerminal(true, 'https://broker.example/mcp/b')
    expect({ code, asked, printed }).toEqual({
      code: 0,
      asked: [`Approve ${second.client_id}?`],
      printed: `${second.client_id} is active.\n`,
    })
    expect(said).toMatch(/^calls itself +Letters$/m)
    expect(said).toContain('From then on it may ask about your grants, and what it publishes is registered.')
    expect(JSON.parse(String(api.to(DECIDED)[0]!.body))).toEqual({
      client_id: second.client_id,
      decision: 'approved',
    })
    // oxlint-disable-next-line no-control-regex -- looking for them is the purpose
    expect((await atTerminal(false, broker.client_id)).said).not.toMatch(/[\u001b\u202e]/)
  })

  it('asks once about several', async () => {
    answers[DECIDED] = { body: [broker, second].map(one => ({ ...one, status: 'active' })) }
    const { asked, said } = await atTerminal(true, broker.client_id, second.client_id)
    expect(asked).toEqual(['Approve these 2 resource servers?'])
    expect(said).toContain(
      'From then on they may ask about your grants, and what they publish is registered.',
    )
  })

  it('approves nothing after a no, nor one that she does not know', async () => {
    expect(await atTerminal(false, broker.client_id)).toMatchObject({ code: 1, printed: '' })
    const unknown = await atTerminal(true, 'https://other.example/mcp')
    expect(unknown).toMatchObject({ code: 1, asked: [] })
    expect(unknown.said).toContain('usher owner servers')
    expect(api.to(DECIDED)).toEqual([])
  })

  it.each([[[broker.client_id]], [['--json', broker.client_id]]])(
    'approves nothing if nobody can be asked, and says how to: %j',
    async args => {
      const { code, said } = await owner('approve-server', ...args)
      expect({ code, said }).toMatchObject({ code: 2, said: expect.stringContaining('--yes') as string })
      expect(api.received).toEqual([])
    },
  )
})

describe('ban-origin, unban-origin and banned-origins', () => {
  const origin = 'https://broker.example'
  const sent = () => {
    const { path, body } = api.received.at(-1)!
    return [path, JSON.parse(body.toString())] as const
  }

  it('bans an origin, and says what was withdrawn with it', async () => {
    answers['/owner/resource-servers/ban'] = {
      body: { origin, banned: true, withdrawn: [broker.client_id] },
    }
    expect(await owner('ban-origin', origin)).toEqual({
      code: 0,
      printed: `${origin} is banned.\n${broker.client_id} is revoked.\n`,
      said: '',
    })
    expect(sent()).toEqual(['/owner/resource-servers/ban', { origin }])
  })

  it('says which sidecars were waited for', async () => {
    const leases = { holders: 1, acknowledged: 1, waited_ms: 9 }
    answers['/owner/resource-servers/ban'] = { body: { origin, banned: true, withdrawn: [], leases } }
    expect((await owner('ban-origin', origin)).printed).toBe(
      `${origin} is banned.\n1 sidecar let go in 9 ms.\n`,
    )
  })

  it('lifts the ban', async () => {
    answers['/owner/resource-servers/unban'] = { body: { origin, banned: false } }
    expect((await owner('unban-origin', origin)).printed).toBe(`${origin} may register again.\n`)
    expect(sent()).toEqual(['/owner/resource-servers/unban', { origin }])
  })

  it('lists what is banned', async () => {
    answers['/owner/resource-servers/banned'] = {
      body: [{ origin: `${origin}\u001b`, banned_at: '2026-11-21T09:00:00.000Z' }],
    }
    const { printed } = await owner('banned-origins')
    expect(printed).toContain('https://broker.example\\u{1b}')
    expect(printed).toContain('2026-11-21 09:00:00Z')
    answers['/owner/resource-servers/banned'] = { body: [] }
    expect((await owner('banned-origins')).printed).toBe('You have banned no origin.\n')
  })

  it('ends with 1 and the reason where an origin is not taken, with 2 without one', async () => {
    const error_description = 'Correct the member "origin": give a bare https origin.'
    answers['/owner/resource-servers/ban'] = {
      status: 400,
      body: { error: 'invalid_request', error_description },
    }
    expect(await owner('ban-origin', 'https://Broker.example')).toMatchObject({
      code: 1,
      said: `invalid_request: ${error_description}\n`,
    })
    for (const command of ['ban-origin', 'unban-origin'])
      expect(await owner(command)).toMatchObject({ code: 2 })
  })
})

describe('watch', () => {
  it.each([
    [
      {
        event: 'resource_server_pending',
        data: { client_id: 'https://x.example/\u001b', status: 'pending' },
      },
      'server   https://x.example/\\u{1b} asks to serve you (usher owner servers)\n',
    ],
    [
      { event: 'resource_server_decided', data: { client_id: 'demo-tools', status: 'revoked' } },
      'server   demo-tools is revoked\n',
    ],
    [
      {
        event: 'resource_server_decided',
        data: { client_id: 'demo-tools', status: 'revoked', by: 'expiry' },
      },
      'server   demo-tools is revoked: it waited for a week\n',
    ],
    [
      { event: 'allowance_changed', data: { allowance: 'weekend', version: 3, by: 'owner' } },
      'allowance weekend is at version 3 now\n',
    ],
    [
      {
        event: 'pending',
        data: {
          family: 'fam_1',
          kind: 'connection',
          handle: 'jkt:a',
          resource_id: 'alice/notes',
          purpose: 'Reading',
          opens: ['reading', 'statements'],
        },
      },
      'pending  fam_1  jkt:a asks (connection) for alice/notes: Reading; opens reading, statements unasked, and later tiers that do not ask\n',
    ],
  ])('tells it: %j', (event, line) => {
    expect(eventLine({ id: '1', ...event })).toBe(line)
  })

  it('names agents as she does at a terminal, and requests by as much as commands take', () => {
    const handle = `jkt:VWo19Q8H${'x'.repeat(35)}`
    const family = 'fam_abcdefghijkl'
    const resources = new Map([['alice/book', 'Address book']])
    const line = (event: string, data: object, labels: [string, string][]) =>
      eventLine({ id: '1', event, data }, shortNames({ labels: new Map(labels), resources }))
    expect(line('connection_revoked', { handle, by: 'owner' }, [])).toBe(
      'revoked  Agent jkt:VWo19Q8H by owner\n',
    )
    expect(line('connection_blocked', { handle, by: 'owner' }, [[handle, 'Tax bot\u202e']])).toBe(
      'blocked   "Tax bot\\u{202e}" by owner\n',
    )
    expect(line('decided', { family, decision: 'approved', by: 'owner' }, [])).toBe(
      'decided  fam_abcdefgh  approved by owner\n',
    )
    const item = { handle, family, kind: 'connection', resource_id: 'alice/book', purpose: 'Post', opens: [] }
    expect(line('pending', item, [])).toContain(' for "Address book" (alice/book): ')
  })
})
