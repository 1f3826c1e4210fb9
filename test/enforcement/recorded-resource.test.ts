/**
 * What cannot work is said before anybody decides: contract, "Protection access token (PAT)" and "Resource
 * server establishment: POST `/rs/register`", where an authority has another resource on record than the
 * sidecar serves.
 */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { request } from 'undici'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { stringify } from 'yaml'
import { readSidecarConfig } from '../../src/config.ts'
import { watchRecords } from '../../src/enforcement/authorities/recorded-resource.ts'
import { createAuthorityClient } from '../../src/enforcement/authorities/authority-client.ts'
import { deadlineAt } from '../../src/enforcement/deadline.ts'
import { startSidecar, type Sidecar } from '../../src/enforcement/main.ts'
import { createJwksCache } from '../../src/http/outbound/jwks-cache.ts'
import { createLogger } from '../../src/http/telemetry/log.ts'
import { createOutbound } from '../../src/http/outbound/outbound.ts'
import { asClientId, asOwner } from '../../src/wire/identifiers.ts'
import { generatePrivateJwk } from '../../src/wire/signatures/keys.ts'
import { issueCertificate, makeCa } from '../support/local-ca.ts'
import { startScriptedAuthority, type ScriptedAuthority } from '../support/scripted-authority.ts'
import { startScriptedServer } from '../support/scripted-http.ts'
import { until } from '../support/until.ts'
import { PUBLIC_URL } from './calls.ts'

const SERVED = `${PUBLIC_URL}/mcp/alice`
const OTHER = 'https://elsewhere.example/mcp/alice'
let authority: ScriptedAuthority
/** Where the sidecar asks for alice and bea. */
let issuer: string
let folder: string
let sidecar: Sidecar | undefined
let lines: string[]
beforeEach(async () => {
  authority = await startScriptedAuthority()
  issuer = authority.issuer
  folder = mkdtempSync(join(tmpdir(), 'usher-record-'))
  writeFileSync(join(folder, 'keys.json'), JSON.stringify({ keys: [generatePrivateJwk()] }), { mode: 0o600 })
  lines = []
})
afterEach(async () => {
  await sidecar?.close()
  sidecar = undefined
  await authority.close()
  rmSync(folder, { recursive: true })
})

/** The record of a client, as the answer with its PAT says it. */
function answersWith(resources: Record<string, string>, headers: Record<string, string> = {}): void {
  authority.script('/token', ({ body }) => ({
    status: 200,
    headers,
    body: {
      access_token: 'pat',
      token_type: 'Bearer',
      expires_in: 3600,
      resource_uri: resources[new URLSearchParams(body).get('owner')!],
    },
  }))
}

const entry = (owner: string) => ({
  owner,
  authority: issuer,
  client_id: 'demo',
  client_secret: 'shh',
  tools: [{ tool: 'portfolio_read', resource_id: `${owner}/portfolio`, scopes: ['read'] }],
})

/** Starts a sidecar that serves these owners, and answers what `/ready` says of it. */
const start = (...owners: string[]) => startServing(owners.map(entry))

/** The same by entries of its file. */
async function startServing(owners: object[]): Promise<{ status: number; because?: string }> {
  const file = join(folder, 'sidecar.yaml')
  writeFileSync(
    file,
    stringify({
      public_url: PUBLIC_URL,
      listen: { check: '127.0.0.1:0', http: '127.0.0.1:0' },
      keys_file: join(folder, 'keys.json'),
      realm: 'tools',
      owners,
    }),
  )
  const logger = createLogger({ name: 'test', level: 'warn', write: line => lines.push(line) })
  sidecar = await startSidecar(readSidecarConfig(file, { UMA_DEV_LOOPBACK: 'true' }), { logger })
  return ready()
}

async function ready(): Promise<{ status: number; because?: string }> {
  const { statusCode, body } = await request(`http://${sidecar!.httpAddress}/ready`)
  const { because } = (await body.json()) as { because?: string }
  return { status: statusCode, ...(because !== undefined && { because }) }
}

const told = () =>
  lines.map(line => (JSON.parse(line) as { msg: string }).msg).filter(msg => /alice|bea/.test(msg))

describe('A sidecar whose authority has another resource on record', () => {
  test('warns once with both values and both settings, and is not ready, though it lives', async () => {
    answersWith({ alice: OTHER })
    const { status, because } = await start('alice')
    expect(status).toBe(503)
    for (const what of [SERVED, OTHER, 'public_url', 'resource_uri', 'demo']) expect(because).toContain(what)
    expect(told()).toEqual([because])
    expect((await request(`http://${sidecar!.httpAddress}/health`)).statusCode).toBe(200)
  })

  test('is ready if another owner can be served, and warns of the one', async () => {
    answersWith({ alice: OTHER, bea: `${PUBLIC_URL}/mcp/bea` })
    expect(await start('alice', 'bea')).toEqual({ status: 200 })
    expect(told()).toEqual([expect.stringContaining(OTHER)])
  })

  test('is ready if the record agrees, or the authority does not say', async () => {
    answersWith({ alice: SERVED })
    expect(await start('alice', 'bea')).toEqual({ status: 200 })
    expect(told()).toEqual([])
  })

  test('warns once of clocks that differ by more than half of a signature’s minute', async () => {
    answersWith({ alice: SERVED }, { date: new Date(Date.now() - 90_000).toUTCString() })
    expect(await start('alice')).toEqual({ status: 200 })
    expect(told()).toEqual([expect.stringMatching(/^alice: the clock .* differ by (89|90|91) s/)])
  })
})

describe('What proves a sidecar and is not taken is told at its start, with what makes it taken', () => {
  const atTally = () => ({
    authority: undefined,
    joint: { tally: issuer, account: 'alice', mandate_s256: 'any' },
  })

  test.each<[string, () => object, RegExp]>([
    ['a secret at an authority', () => ({}), /of UMA_AS_PROVISION was .*send that authority SIGHUP\.$/],
    ['a secret at a tally', atTally, /this tally has .*UMA_TALLY_PROVISION was .*restart that tally\.$/],
    [
      'a key at a tally',
      () => ({ ...atTally(), client_secret: undefined, signature: true }),
      /A tally takes no signature: leave signature out, and give the secret that the file of UMA_TALLY_PROVISION/,
    ],
  ])('%s', async (_what, changes, sentence) => {
    authority.script('/token', { status: 401, body: { error: 'invalid_client' } })
    await expect(startServing([{ ...entry('alice'), ...changes() }])).rejects.toThrow(sentence)
  })
})

test('a CA that a sidecar does not know is told once at its start, which goes on, with the setting for that CA', async () => {
  const untrusted = await startScriptedServer(() => undefined, await issueCertificate(await makeCa(), 'as'))
  issuer = untrusted.origin
  await start('alice', 'bea')
  const warnings = lines
    .map(line => JSON.parse(line) as { level: string; msg: string })
    .filter(({ msg }) => msg.includes('authority_ca_file'))
  expect(warnings).toMatchObject([
    {
      level: 'warn',
      msg: expect.stringMatching(/^https:\S+: its certificate is by a CA that is not known here \(\w+\)/),
    },
  ])
  expect((await request(`http://${sidecar!.httpAddress}/health`)).statusCode).toBe(200)
  await untrusted.close()
})

test('nobody is asked for an approval while the record differs; once it is corrected, calls go on', async () => {
  answersWith({ alice: OTHER })
  const outbound = createOutbound({ devLoopback: true })
  const clock = (): number => Date.now()
  const mended: string[] = []
  const client = createAuthorityClient({
    authority: issuer,
    owner: asOwner('alice'),
    resource: SERVED,
    client_id: asClientId('demo'),
    credential: { kind: 'secret', secret: 'shh' },
    pools: { challenges: outbound, grants: outbound },
    keys: createJwksCache({ outbound, clock }),
    clock,
    onMended: sentence => mended.push(sentence),
  })
  const watch = watchRecords(() => [client], 10)
  try {
    const ask = () =>
      client.requestTicket(
        { resource_id: 'alice/portfolio', resource_scopes: ['read'] },
        deadlineAt(clock() + 60_000, clock),
      )
    await expect(ask()).rejects.toMatchObject({
      code: 'temporarily_unavailable',
      detail: expect.stringContaining(OTHER) as string,
    })
    expect([authority.count('/perm'), mended]).toEqual([0, []])
    answersWith({ alice: SERVED })
    await until(async () => client.recordFault() === undefined)
    expect((await ask()).ticket).toMatch(/^tag~/)
    expect(mended).toEqual([expect.stringMatching(/^alice: \S+ no longer has another resource on record/)])
  } finally {
    watch.stop()
    await outbound.close()
  }
})
