/**
 * `usher owner`: her credentials, and a token in place of a key (contract, "Authentication": owner at the
 * owner API).
 */
import { chmod, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { createOwnerClient } from '../../src/owner/index.ts'
import { runOwner } from '../../src/owner/main.ts'
import { readKeyFile, writeNewKey } from '../../src/terminal/key-file.ts'
import {
  generatePrivateJwk,
  importPrivateJwk,
  publicJwk,
  type PrivateKey,
} from '../../src/wire/signatures/keys.ts'
import { runCaptured } from '../support/captured-terminal.ts'
import {
  startScriptedServer,
  type Received,
  type Reply,
  type ScriptedServer,
} from '../support/scripted-http.ts'
import { startScriptedOwnerApi, type ScriptedOwnerApi } from '../support/scripted-owner-api.ts'

const issuer = 'https://as.example.com'
const AT = '2026-11-21T09:00:00.000Z'
let directory: string
let key: PrivateKey
let answers: Record<string, Reply>
let api: ScriptedOwnerApi
/** Takes any credential, and tells what it was. */
let open: ScriptedServer
const at = (name: string) => join(directory, name)
const routeOf = ({ method, path }: Received) => `${method} ${path}`
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'usher-credentials-'))
  answers = {}
  key = await writeNewKey(at('key.json'))
  api = await startScriptedOwnerApi({ issuer, key }, received => answers[routeOf(received)])
  open = await startScriptedServer(received => answers[routeOf(received)])
  vi.stubEnv('UMA_OWNER_API', api.origin)
  vi.stubEnv('UMA_OWNER_ISSUER', issuer)
  vi.stubEnv('UMA_OWNER_KEY', at('key.json'))
})
afterEach(async () => {
  vi.unstubAllEnvs()
  await api.close()
  await open.close()
  await rm(directory, { recursive: true })
})

const owner = (...args: string[]) => runCaptured(terminal => runOwner(args, terminal))
const sent = (server: ScriptedServer) => JSON.parse(server.received.at(-1)!.body.toString()) as unknown

describe('device keys', () => {
  it('are a table, with names escaped', async () => {
    answers['GET /owner/device-keys'] = {
      body: [
        { kid: 'k1', name: 'lap\u001btop', enrolled_at: AT, revoked_at: null },
        { kid: 'k2', name: 'phone', enrolled_at: AT, revoked_at: AT, surface: 'served' },
      ],
    }
    const { code, printed } = await owner('keys')
    expect(code).toBe(0)
    expect(printed.split('\n')).toEqual([
      'KID  NAME          ENROLLED              MADE IN  STATUS',
      'k1   lap\\u{1b}top  2026-11-21 09:00:00Z  -        in force',
      'k2   phone         2026-11-21 09:00:00Z  a page   revoked 2026-11-21 09:00:00Z',
      '',
    ])
  })

  it('are JSON for scripts', async () => {
    const body = [{ kid: 'k1', name: 'laptop', enrolled_at: AT, revoked_at: null }]
    answers['GET /owner/device-keys'] = { body }
    expect(JSON.parse((await owner('--json', 'keys')).printed)).toEqual(body)
  })

  it('are added from the public JWK that the other device printed', async () => {
    const phone = importPrivateJwk(generatePrivateJwk())
    await writeFile(at('phone.json'), JSON.stringify(publicJwk(phone, phone.thumbprint)))
    const body = { kid: phone.thumbprint, name: 'phone', enrolled_at: AT }
    answers['POST /owner/device-keys'] = { status: 201, body }
    const { code, printed } = await owner('add-key', at('phone.json'), '--name', 'phone')
    expect([code, printed]).toEqual([0, `phone may decide for you now: ${phone.thumbprint}.\n`])
    expect(sent(api)).toEqual({ name: 'phone', jwk: publicJwk(phone, phone.thumbprint) })
  })

  it('never leave their device: a private JWK is refused before anything is sent', async () => {
    const { code, said } = await owner('add-key', at('key.json'), '--name', 'phone')
    expect([code, said]).toEqual([2, expect.stringMatching(/^Give the public half alone/)])
    expect(api.received).toEqual([])
  })

  it.each([
    ['nowhere.json', undefined, /cannot be read/],
    ['bad.json', '{', /no JWK/],
    ['list.json', '[]', /JSON object/],
  ])('are not added from %s', async (name, text, said) => {
    if (text !== undefined) await writeFile(at(name), text)
    const ended = await owner('add-key', at(name), '--name', 'phone')
    expect([ended.code, ended.said]).toEqual([2, expect.stringMatching(said)])
  })

  it('are removed by kid', async () => {
    answers['DELETE /owner/device-keys/k1'] = { body: { deleted: 'k1' } }
    expect(await owner('remove-key', 'k1')).toMatchObject({
      code: 0,
      printed: 'k1 decides for you no more.\n',
    })
  })

  it('that cannot be removed end with 1 and the reason', async () => {
    const error_description = 'Add another credential first: this is your last one.'
    answers['DELETE /owner/device-keys/k1'] = { status: 409, body: { error: 'conflict', error_description } }
    const { code, said } = await owner('remove-key', 'k1')
    expect([code, said]).toEqual([1, `conflict: ${error_description}\n`])
  })
})

describe('logins', () => {
  const login = { id: 'l1', name: 'realm', issuer: 'https://realm.example', subject: 'sub-a', bound_at: AT }

  it('are a table', async () => {
    answers['GET /owner/logins'] = { body: [login] }
    expect((await owner('logins')).printed.split('\n')).toEqual([
      'ID  NAME   SUBJECT  REALM                  BOUND',
      'l1  realm  sub-a    https://realm.example  2026-11-21 09:00:00Z',
      '',
    ])
  })

  it('are added by the access token in a file, which no argument shows', async () => {
    await writeFile(at('token'), 'a.b.c\n')
    answers['POST /owner/logins'] = { status: 201, body: login }
    const { code, printed } = await owner('add-login', at('token'), '--name', 'realm')
    expect([code, printed]).toEqual([0, 'realm may decide for you now: l1.\n'])
    expect(sent(api)).toEqual({ name: 'realm', access_token: 'a.b.c' })
  })

  it('are removed by id', async () => {
    answers['DELETE /owner/logins/l1'] = { body: { deleted: 'l1' } }
    expect(await owner('remove-login', 'l1')).toMatchObject({
      code: 0,
      printed: 'l1 decides for you no more.\n',
    })
  })
})

describe('enrol', () => {
  const enrolled = { owner: 'alice', kid: 'k', name: 'laptop', enrolled_at: AT }

  it('makes the key if there is none, and signs with it', async () => {
    answers['POST /owner/enrolment'] = { status: 201, body: enrolled }
    const args = ['--api', open.origin, '--key', at('new.json')]
    const { code, printed, said } = await owner(...args, 'enrol', '--code', 'enrol_x.y', '--name', 'laptop')
    expect([code, printed]).toEqual([0, 'laptop decides for alice now.\n'])
    expect(said).toContain('Made a device key')
    const made = await readKeyFile(at('new.json'), '')
    expect(sent(open)).toEqual({ code: 'enrol_x.y', name: 'laptop', jwk: publicJwk(made) })
    expect(open.received[0]!.headers['signature-input']).toContain(`keyid="${made.thumbprint}"`)
  })

  it('does not use a key that others can read, and makes no other in its place', async () => {
    await chmod(at('key.json'), 0o644)
    const before = await readFile(at('key.json'), 'utf8')
    const { code, printed, said } = await owner('enrol', '--code', 'once')
    expect([code, printed]).toEqual([2, ''])
    expect(said).toContain(`${at('key.json')} has the mode 0644, so others can read it: chmod 600 `)
    expect(await readFile(at('key.json'), 'utf8')).toBe(before)
  })

  it('uses the key that is there, and the name of this machine', async () => {
    answers['POST /owner/enrolment'] = { status: 201, body: enrolled }
    const { code, said } = await owner('enrol', '--code', 'enrol_x.y')
    expect(code).toBe(0)
    expect(said).not.toContain('Made a device key')
    expect(sent(api)).toMatchObject({ code: 'enrol_x.y', jwk: { x: key.x } })
  })

  it('binds the login of a token in place of a key', async () => {
    answers['POST /owner/enrolment'] = { status: 201, body: { ...enrolled, name: 'realm' } }
    const args = ['--api', open.origin, '--token', 'a.b.c', 'enrol', '--code', 'enrol_x.y', '--name', 'realm']
    expect((await owner(...args)).code).toBe(0)
    expect(sent(open)).toEqual({ code: 'enrol_x.y', name: 'realm' })
    expect(open.received[0]!.headers.authorization).toBe('Bearer a.b.c')
  })
})

describe('an access token in place of a device key', () => {
  beforeEach(() => {
    answers['GET /owner/pending'] = { body: [] }
    vi.stubEnv('UMA_OWNER_API', open.origin)
    vi.stubEnv('UMA_OWNER_KEY', at('nowhere.json'))
  })

  it('is sent as Bearer, without a signature and without a key', async () => {
    expect((await owner('--token', 'a.b.c', 'pending')).code).toBe(0)
    const { headers } = open.received[0]!
    expect(headers.authorization).toBe('Bearer a.b.c')
    expect(headers['signature']).toBeUndefined()
    expect(headers['signature-input']).toBeUndefined()
  })

  it('may stand in the environment; a key that is named wins over it', async () => {
    vi.stubEnv('UMA_OWNER_TOKEN', 'a.b.c')
    expect((await owner('pending')).code).toBe(0)
    expect((await owner('--key', at('key.json'), 'pending')).code).toBe(0)
    const [first, second] = open.received
    expect(first!.headers.authorization).toBe('Bearer a.b.c')
    expect(second!.headers.authorization).toBe('')
    expect(second!.headers['signature']).toBeDefined()
  })

  it('that is no token is refused before anything is sent', async () => {
    const { code } = await owner('--token', 'a b', 'pending')
    expect(code).toBe(2)
    expect(open.received).toEqual([])
  })

  it('serves the client too', async () => {
    const client = createOwnerClient({ api: open.origin, issuer, token: 'a.b.c' })
    answers['POST /owner/connections/revoke'] = { body: { handle: 'h', status: 'revoked' } }
    await client.revoke('h')
    expect(open.received[0]!.headers.authorization).toBe('Bearer a.b.c')
  })
})
