/** `usher agent`: what a person reads, what a script gets, and the exit codes (contract, "Errors"). */
import { chmod, mkdtemp, readFile, rm, stat, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { runAgent } from '../../src/agent/main.ts'
import { introducerOf } from '../../src/wire/agents/introduction.ts'
import { importPublicJwk } from '../../src/wire/signatures/keys.ts'
import { runCaptured } from '../support/captured-terminal.ts'
import { startScriptedPeers, type ScriptedPeers } from '../support/scripted-resource.ts'

let peers: ScriptedPeers
let directory: string
beforeEach(async () => {
  peers = await startScriptedPeers()
  directory = await mkdtemp(join(tmpdir(), 'usher-agent-'))
  vi.stubEnv('UMA_DEV_LOOPBACK', 'true')
  vi.stubEnv('UMA_AGENT_KEY', join(directory, 'key.json'))
  vi.stubEnv('UMA_AGENT_STORE', join(directory, 'store'))
})
afterEach(async () => {
  vi.unstubAllEnvs()
  await peers.close()
  await rm(directory, { recursive: true })
})

const agent = (...args: string[]) => runCaptured(terminal => runAgent(args, terminal))
const ARGUMENTS = '{"account":"savings"}'
const call = (...options: string[]) => agent('call', peers.resource, 'portfolio_read', ARGUMENTS, ...options)

describe('keygen', () => {
  it('makes a key that its user alone can read, prints the public half, and never writes over one', async () => {
    const { code, printed, said } = await agent('keygen')
    expect(code).toBe(0)
    const key = importPublicJwk(JSON.parse(printed))
    expect(said).toContain(`jkt:${key.thumbprint}`)
    expect(printed).not.toContain('"d"')
    expect((await stat(join(directory, 'key.json'))).mode & 0o777).toBe(0o600)
    expect(await agent('keygen')).toMatchObject({ code: 2, printed: '' })
  })
})

describe('call', () => {
  beforeEach(() => agent('keygen'))

  const RESULT = '{"content":[],"structuredContent":{"rows":[{"id":9007199254740993,"n":1e400}],"one":1}}'
  const DIGITS = /"id": 9007199254740993,\s+"n": 1e400/
  /** A tool of a resource that needs no grant, whose answer is this text. */
  const answered = (text: (id: string) => string, type = 'application/json') =>
    peers.tools.script('/mcp/alice', ({ method: verb, body }) => {
      const { id, method } =
        verb === 'POST' ? (JSON.parse(body.toString()) as { id: string; method: string }) : {}
      return method === 'tools/call' ? { headers: { 'content-type': type }, body: text(id!) } : undefined
    })

  it.each([
    ['in a document', 'application/json', (message: string) => message],
    ['in a stream', 'text/event-stream', (message: string) => `data: ${message}\n\n`],
  ])(
    'prints each number of an answer as it came %s, which no double carries',
    async (_how, type, written) => {
      answered(id => written(`{"jsonrpc":"2.0","id":"${id}","result":${RESULT}}`), type)
      expect((await call()).printed).toMatch(DIGITS)
      expect((await call('--json')).printed).toMatch(DIGITS)
    },
  )

  it('prints each number of an API as it came, which no double carries', async () => {
    const headers = { 'content-type': 'application/json' }
    peers.tools.script('/mcp/alice/rows', { headers, body: '{"id":9007199254740993,"n":1e400}' })
    const { printed } = await agent('call', peers.resource, 'rows', '{}', '--http', 'GET /rows')
    expect(printed).toMatch(DIGITS)
  })

  it('tells every step on standard error, and prints the answer alone', async () => {
    const { code, printed, said } = await call('--reason', 'Monthly report')
    expect(code).toBe(0)
    expect(JSON.parse(printed)).toMatchObject({ tool: 'portfolio_read', arguments: { account: 'savings' } })
    expect(said.replaceAll(/127\.0\.0\.1:\d+|s256:\S+|\d{4}-\d\d-\d\d \d\d:\d\d:\d\dZ/g, '…')).toBe(
      [
        '→ portfolio_read at http://…/mcp/alice without a grant',
        '← refused: a grant for "read" is needed, from http://…',
        '  the resource itself names that authority (http://…/.well-known/oauth-protected-resource/mcp/alice)',
        "← the owner's terms:",
        '    terms      alice/reading/v1',
        '    resource   alice/portfolio',
        '    purpose    Keep an eye on the savings',
        '    allows     read',
        '    prohibits  training',
        '    lasts      3600 s',
        '    document   http://…/terms/alice/reading/v1',
        '→ terms signed, agreement …',
        '← granted until …; receipt verified and kept',
        '→ portfolio_read at http://…/mcp/alice with the new grant, signed',
        '← answered',
        '',
      ].join('\n'),
    )
    expect(peers.agreements[0]!.claims['reason']).toBe('Monthly report')
  })

  it('uses the grant that an earlier process kept, and lists its receipt', async () => {
    await call()
    const { said } = await call()
    expect(said).toContain('with the grant kept from before')
    expect(peers.agreements).toHaveLength(1)
    const { printed } = await agent('receipts')
    expect(printed).toMatch(
      /^TIME +OWNER +TOOL +TERMS +FAMILY +GRANT\n.*alice +portfolio_read +alice\/reading\/v1 +fam_/,
    )
    expect(JSON.parse((await agent('receipts', '--json')).printed)).toMatchObject([
      { owner: 'alice', tool: 'portfolio_read' },
    ])
  })

  it('with --json prints the outcome whole, and tells nothing', async () => {
    const { printed, said } = await call('--json')
    expect(JSON.parse(printed)).toMatchObject({
      result: { content: [{ type: 'text' }] },
      grant: { single_use: false },
      receipt: { owner: 'alice' },
    })
    expect(printed).not.toContain('access_token')
    expect(said).toBe('')
  })

  it('tells of waiting once, however often it polls', async () => {
    peers.twists.owner = { polls: 2, kind: 'connection', interval: 1 }
    const { said } = await call()
    expect(said.match(/is being asked whether to let this agent in/g)).toHaveLength(1)
  })

  it.each([
    [
      'a refusal is 1',
      { status: 403, body: { error: 'request_denied', error_description: 'No.' } },
      1,
      'request_denied: No.',
    ],
    [
      'an outage is 3',
      { status: 503, headers: { 'retry-after': '60' }, body: { error: 'temporarily_unavailable' } },
      3,
      'temporarily_unavailable',
    ],
    [
      'a refusal that plays with the terminal is still text',
      { status: 403, body: { error: 'request_denied', error_description: '\u001b[2J\u202eok' } },
      1,
      'request_denied: \\u{1b}[2J\\u{202e}ok\n',
    ],
  ])('ends in one line and an exit code: %s', async (_what, reply, code, sentence) => {
    peers.authority.script('/token', reply)
    const outcome = await call()
    expect(outcome).toMatchObject({ code, printed: '' })
    expect(outcome.said.split('\n').at(-2)! + '\n').toContain(sentence)
  })

  it('ends with 4 if the owner has not decided in time', async () => {
    peers.twists.owner = { polls: 9, kind: 'operation', interval: 30 }
    expect(await call('--wait', '1')).toMatchObject({
      code: 4,
      said: expect.stringContaining('call again to join it') as string,
    })
  })

  it('with --confirm and nobody to ask declines the terms', async () => {
    expect(await call('--confirm')).toMatchObject({ code: 1 })
    expect(peers.tokenForms().map(form => form['decline'])).toEqual([undefined, 'true'])
  })

  it('shows what terms and tools write as text, whatever it holds', async () => {
    peers.twists.template = plain => ({ ...plain, purpose: '\u001b]0;pwned\u0007\nprohibits  nothing' })
    peers.tools.script('/mcp/alice', ({ headers, body }) => {
      const { id } = JSON.parse(body.toString()) as { id: string }
      const content = [
        { type: 'text', text: 'one\n\u001b[31mtwo' },
        { type: 'image', data: '\u202e' },
      ]
      return headers.authorization === undefined
        ? undefined
        : { body: { jsonrpc: '2.0', id, result: { content } } }
    })
    const { printed, said } = await call()
    expect(said).toContain('purpose    \\u{1b}]0;pwned\\u{7}\\u{a}prohibits  nothing\n')
    expect(printed).toContain('one\n\\u{1b}[31mtwo\n')
    // oxlint-disable-next-line no-control-regex -- looking for them is the purpose
    expect(printed + said).not.toMatch(/[\u001b\u0007\u202e]/)
  })
})

describe('wrong usage is 2, with a sentence that says what to give', () => {
  it.each([
    [['call', 'https://tools.example/mcp'], "missing required argument 'tool'"],
    [['call', 'https://tools.example/mcp', 't'], 'Make one with: usher agent keygen'],
    [['frobnicate'], "unknown command 'frobnicate'"],
    [['call', 'x', 'y', '--wait', 'soon'], 'whole number of seconds'],
  ])('%j', async (args, sentence) => {
    const { code, said } = await agent(...args)
    expect(code).toBe(2)
    expect(said).toContain(sentence)
  })

  it.each([
    [['http://tools.example/mcp', 't'], 'must be an https URL'],
    [['https://tools.example/mcp', 't', '[1]'], 'as a JSON object'],
    [['https://tools.example/mcp', 't', '{"a":1,"a":2}'], 'Name each member of a JSON object once'],
    [['https://tools.example/mcp', 't', '--mission', 'x'], 'Give the mission as'],
    [['https://tools.example/mcp', 't', '--mcp-version', '2024'], 'Give --mcp-version as'],
    [['https://tools.example/mcp', 't', '--agent-token', '@/nowhere'], '/nowhere cannot be read'],
  ])('call %j', async (args, sentence) => {
    await agent('keygen')
    const { code, said } = await agent('call', ...args)
    expect(code).toBe(2)
    expect(said).toContain(sentence)
  })

  it('also for a key file that others can read', async () => {
    await agent('keygen')
    await chmod(join(directory, 'key.json'), 0o644)
    const path = join(directory, 'key.json')
    expect(await call()).toMatchObject({
      code: 2,
      said: expect.stringContaining(
        `The key is not used: ${path} has the mode 0644, so others can read it: chmod 600 ${path} `,
      ) as string,
    })
  })

  it('also for a key file that holds no key', async () => {
    await writeFile(join(directory, 'key.json'), '{"kty":"RSA"}', { mode: 0o600 })
    expect(await call()).toMatchObject({
      code: 2,
      said: expect.stringContaining('holds no usable private key') as string,
    })
  })

  it('but help is 0', async () => {
    expect(await agent('call', '--help')).toMatchObject({ code: 0, said: '' })
  })
})

describe('decline', () => {
  it('shows the terms, and tells the owner', async () => {
    await agent('keygen')
    const { code, said } = await agent('decline', peers.resource, 'portfolio_read')
    expect(code).toBe(0)
    expect(said).toContain('alice/reading/v1')
    expect(said).toContain('→ terms declined; the owner is notified\n')
    expect(await readFile(join(directory, 'key.json'), 'utf8')).toContain('Ed25519')
  })
})

describe('introduce', () => {
  it('signs for another agent, which then carries it', async () => {
    await agent('keygen')
    const other = ['--key', join(directory, 'other.json')]
    const { printed: jwk } = await agent(...other, 'keygen')
    await writeFile(join(directory, 'other.pub.json'), jwk)
    const newcomer = ['--newcomer', join(directory, 'other.pub.json'), '--authority', peers.issuer]
    const { printed } = await agent('introduce', ...newcomer)
    expect(introducerOf(printed.trim()).kind).toBe('key')
    await writeFile(join(directory, 'introduction'), printed)
    await call(...other, '--introduction', `@${join(directory, 'introduction')}`)
    expect(peers.agreements[0]!.claims['introduction']).toBe(printed.trim())
    await call(
      ...other,
      '--store',
      join(directory, 'fresh'),
      '--sign-introduction',
      join(directory, 'key.json'),
    )
    expect(introducerOf(peers.agreements[1]!.claims['introduction'])).toEqual(introducerOf(printed.trim()))
  })
})

describe('call --http', () => {
  const api = (...options: string[]) => agent('call', peers.resource, 'api_call', ...options)

  it('calls a plain API below the resource', async () => {
    await agent('keygen')
    const { code, printed } = await api('{"path":{"account":"7"}}', '--http', 'GET /accounts/{account}')
    expect(code).toBe(0)
    expect(JSON.parse(printed)).toMatchObject({
      status: 200,
      body: { method: 'GET', path: '/mcp/alice/accounts/7' },
    })
  })

  it('or says which method and path it wants', async () => {
    await agent('keygen')
    const { code, said } = await api('{}', '--http', 'get accounts')
    expect(code).toBe(2)
    expect(said).toContain("such as 'GET /accounts/{account}'")
  })
})
