/** `usher doctor`: one line for each thing looked at, with the remedy, and an exit status for scripts. */
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { stringify } from 'yaml'
import { startAuthority, type RunningAuthority } from '../../src/authority/main.ts'
import { readAuthorityConfig } from '../../src/config.ts'
import { freePorts } from '../../src/dev/stack/ports.ts'
import type { Database } from '../../src/storage/authority/database.ts'
import { generatePrivateJwk, importPrivateJwk, publicJwk } from '../../src/wire/signatures/keys.ts'
import { ALIAS, WELL_KNOWN } from '../../src/wire/names.ts'
import { doctor } from '../support/doctor.ts'
import { discoveryOf, startHostile } from '../support/hostile-organization.ts'
import { freshDatabase } from '../support/postgres.ts'
import { startRealm } from '../support/realm.ts'
import { startScriptedServer } from '../support/scripted-http.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'

const SECRET = 'a secret of sixteen or more characters'
const folder = temporaryFolder('doctor')
let database: Database
let issuer: string
let running: RunningAuthority
let environment: Record<string, string>

beforeAll(async () => {
  database = await freshDatabase()
  const [port] = await freePorts(1)
  issuer = `http://127.0.0.1:${port}`
  const server = {
    client_id: 'tools',
    name: 'Tools',
    resource_uri: 'http://127.0.0.1:1/mcp/alice',
    client_secret: SECRET,
  }
  const jwk = generatePrivateJwk()
  const { client_secret: _secret, ...plain } = server
  const signing = { ...plain, client_id: 'signing', jwks: { keys: [publicJwk(importPrivateJwk(jwk))] } }
  const resource = (id: string, scope: string) => ({
    id,
    client_id: 'tools',
    name: id,
    resource_scopes: [scope],
    consequence: 'reversible',
  })
  const resources = [
    resource('alice/book', 'read'),
    resource('alice/trades', 'trade'),
    resource('alice/account', 'close'),
  ]
  const tier = (id: string, on: string, scope: string, ask_me: boolean) => ({
    id,
    name: id,
    resources: [on],
    ask_me,
    terms: { purpose: 'Keep house', scope: [scope], expires_in: 300 },
  })
  const tiers = [tier('reading', 'alice/book', 'read', false), tier('trading', 'alice/trades', 'trade', true)]
  environment = {
    UMA_DEV_LOOPBACK: 'true',
    DATABASE_URL: database.url,
    UMA_AS_ISSUER: issuer,
    UMA_AS_KEYS_FILE: file('keys.json', JSON.stringify({ keys: [jwk] })),
    UMA_AS_PROVISION: file(
      'owners.yaml',
      stringify({ owners: [{ owner: 'alice', resource_servers: [server, signing], resources, tiers }] }),
    ),
    UMA_AS_LOG_LEVEL: 'silent',
    UMA_AS_LISTEN: `127.0.0.1:${port}`,
    UMA_AS_OWNER_LISTEN: '127.0.0.1:0',
    UMA_AS_METRICS_LISTEN: '127.0.0.1:0',
  }
  running = await startAuthority(readAuthorityConfig(environment))
})
afterAll(async () => {
  await running.close()
  await database.close()
})

function file(name: string, content: string): string {
  const path = join(folder, name)
  writeFileSync(path, content, { mode: 0o600 })
  return path
}

const sidecar = (secret: string, path?: string): Record<string, string> =>
  sidecarServing({
    client_id: 'tools',
    client_secret: secret,
    ...(path !== undefined && { path }),
    tools: [{ tool: 'read', resource_id: 'alice/book', scopes: ['read'] }],
  })

/** The settings of a sidecar that serves alice by this entry of its file. */
const sidecarServing = (entry: object): Record<string, string> => ({
  UMA_DEV_LOOPBACK: 'true',
  UMA_PEP_CONFIG: file(
    'sidecar.yaml',
    stringify({
      public_url: 'http://127.0.0.1:1',
      listen: { check: '127.0.0.1:0', http: '127.0.0.1:0' },
      keys_file: environment['UMA_AS_KEYS_FILE'],
      realm: 'tools',
      owners: [{ owner: 'alice', authority: issuer, ...entry }],
    }),
  ),
})

describe('usher doctor', () => {
  it('finds a running authority well, with one line each, and ends with 0', async () => {
    const { code, lines } = await doctor(environment)
    expect(lines.map(line => line.split(':')[0])).toEqual([
      'ok    authority settings',
      'ok    authority database',
      'ok    authority clock',
      'ok    authority metadata',
      'ok    authority owner API',
      'ok    authority keys',
    ])
    expect(code).toBe(0)
  })

  it('finds an organization under the name of other software where that is listed', async () => {
    const organization = await startHostile()
    organization.next[WELL_KNOWN.organization] = [404, 404]
    organization.answers[ALIAS.organizationDiscovery] = discoveryOf(organization.issuer)
    const listing = { ...environment, UMA_AS_ORGANIZATIONS: organization.issuer }
    const lineOf = async (more: Record<string, string>) =>
      (await doctor({ ...listing, ...more })).lines.find(line => line.includes('organization http'))
    expect(await lineOf({ UMA_AS_ALIASES: ALIAS.organizationDiscovery })).toMatch(/^ok .*it is reached/)
    expect(await lineOf({})).toMatch(/^FAIL .*answers with status 404/)
  })

  it('says which key file differs from the published keys, and ends with 1', async () => {
    const other = file('other.json', JSON.stringify({ keys: [generatePrivateJwk()] }))
    const { code, lines } = await doctor({ ...environment, UMA_AS_KEYS_FILE: other })
    expect(lines.at(-1)).toMatch(
      /^FAIL {2}authority keys: .*UMA_AS_KEYS_FILE.*Give all replicas the same file/,
    )
    expect(code).toBe(1)
  })

  it('says that the database or the issuer is not there, and what to do about each', async () => {
    const away = { UMA_AS_ISSUER: 'http://127.0.0.1:9', DATABASE_URL: 'postgres://usher@127.0.0.1:1/usher' }
    const { code, lines } = await doctor({ ...environment, ...away })
    expect(lines).toEqual([
      expect.stringMatching(/^ok/) as string,
      expect.stringMatching(/^FAIL {2}authority database: DATABASE_URL: .*Start Postgres there/) as string,
      expect.stringMatching(
        /^FAIL {2}authority metadata: .*cannot be reached.*correct UMA_AS_ISSUER/,
      ) as string,
    ])
    expect(code).toBe(1)
  })

  it('looks at the realm whose tokens it takes', async () => {
    const realm = await startRealm()
    const taken = { UMA_AS_OWNER_AUTH: 'oidc', UMA_AS_OIDC_ISSUER: realm.issuer, UMA_AS_OIDC_AUDIENCE: 'x' }
    const { lines } = await doctor({ ...environment, ...taken })
    expect(lines.at(-1)).toMatch(
      /^ok {4}authority realm .*: it is reached, names itself, and publishes \d keys$/,
    )
    await realm.close()
    const { lines: away } = await doctor({ ...environment, ...taken })
    expect(away.at(-1)).toMatch(/^FAIL {2}authority realm .*correct UMA_AS_OIDC_ISSUER/)
  })

  it('tells each fault of the settings on a line of its own, and asks nobody', async () => {
    const { code, lines } = await doctor({
      ...environment,
      UMA_AS_LISTEN: 'here',
      UMA_AS_POLL_SECONDS: 'often',
    })
    expect(lines).toHaveLength(2)
    for (const line of lines) expect(line).toMatch(/^FAIL {2}authority settings: UMA_AS_/)
    expect(code).toBe(1)
  })

  it('of a sidecar looks at its authority, the clock there, its resource and its secret', async () => {
    const { lines } = await doctor(sidecar(SECRET))
    expect(lines).toEqual([
      expect.stringMatching(/^ok {4}sidecar settings/) as string,
      `ok    sidecar authority ${issuer}: it is reached, and names itself`,
      expect.stringMatching(/^ok {4}sidecar clock of .*: \d+ s apart$/) as string,
      expect.stringMatching(/^FAIL {2}sidecar resource of alice: .*public_url/) as string,
      'ok    sidecar secret of alice: the authority takes it for tools',
      'ok    sidecar tool read of alice: it needs a grant for read of alice/book; nobody declared its consequence; the tier reading offers it, for any number of calls until the grant ends',
    ])
  })

  it('says what each tool needs, and which tier offers it or that none could let it through', async () => {
    const tool = (name: string, on: string, scope: string, more: object = {}) => ({
      tool: name,
      resource_id: `alice/${on}`,
      scopes: [scope],
      ...more,
    })
    const entry = {
      client_id: 'tools',
      client_secret: SECRET,
      tools: [
        tool('read', 'book', 'read'),
        tool('search', 'book', 'read'),
        tool('place_trade', 'trades', 'trade', { consequence: 'irreversible' }),
        tool('close', 'account', 'close'),
        tool('erase', 'book', 'erase'),
        tool('read_mail', 'mail', 'read'),
      ],
    }
    const { lines, code } = await doctor(sidecarServing(entry))
    const about = (name: string) => lines.filter(line => line.includes(` ${name} of alice: `))
    expect(about('read, search')).toEqual([expect.stringContaining('the tier reading offers it')])
    expect(about('place_trade')).toEqual([
      'ok    sidecar tool place_trade of alice: it needs a grant for trade of alice/trades; its consequence is irreversible; the tier trading offers it, for one call each time that the owner approves',
    ])
    expect(about('close')).toEqual([
      expect.stringMatching(/^FAIL .* no tier has alice\/account, .*usher owner tier apply/),
    ])
    expect(about('erase')).toEqual([expect.stringMatching(/^FAIL .*resource_scopes/)])
    expect(about('read_mail')).toEqual([expect.stringMatching(/^FAIL .*alice\/mail .*UMA_AS_PROVISION/)])
    expect(code).toBe(1)
  })

  it('of a sidecar whose file is named on the command line looks at the same', async () => {
    const { UMA_PEP_CONFIG, ...others } = sidecar(SECRET)
    const { lines, err } = await doctor(others, ['--config', UMA_PEP_CONFIG!])
    expect(lines).toContain('ok    sidecar secret of alice: the authority takes it for tools')
    expect(err).toContain('not looked at: authority (no UMA_AS_… is set)')
    expect(err).not.toContain('sidecar')
  })

  it('tells the resources of one owner apart by their paths', async () => {
    const at = (path: string, resource_id: string): object => ({
      path,
      client_id: path.replaceAll('/', '-'),
      client_secret: SECRET,
      tools: [{ tool: 'read', resource_id, scopes: ['read'] }],
    })
    const resources = [at('/mcp/alice', 'alice/book'), at('/mcp/alice/files', 'alice/files')]
    const { lines } = await doctor(sidecarServing({ resources }))
    const named = lines.map(line => line.split(':')[0]!.replace(/^(ok|FAIL) +/, ''))
    expect(named.filter(name => name.startsWith('sidecar secret'))).toEqual([
      'sidecar secret of alice at /mcp/alice',
      'sidecar secret of alice at /mcp/alice/files',
    ])
    expect(named).toContain('sidecar resource of alice at /mcp/alice/files')
  })

  it('finds a wrong secret, and prints neither that one nor the right one', async () => {
    const { code, lines } = await doctor(sidecar('another secret altogether'))
    expect(lines.at(-1)).toMatch(
      /^FAIL {2}sidecar secret of alice: .*client_secret.*Give the secret that it has/,
    )
    expect(lines.join()).not.toMatch(/another secret|sixteen/)
    expect(code).toBe(1)
  })

  it('of a sidecar that signs looks at its key, and says where an authority lists it', async () => {
    const signing = (client_id: string): Record<string, string> =>
      sidecarServing({
        client_id,
        signature: true,
        tools: [{ tool: 'read', resource_id: 'alice/book', scopes: ['read'] }],
      })
    const { lines } = await doctor(signing('signing'))
    expect(lines).toContain('ok    sidecar key of alice: the authority takes it for signing')
    const refused = await doctor(signing('tools'))
    expect(refused.lines.at(-1)).toMatch(
      /^FAIL {2}sidecar key of alice: .*first key of keys_file.*List its public half in jwks/,
    )
    expect(refused.code).toBe(1)
  })

  it('finds that the authority has another resource on record, and names both and their settings', async () => {
    const { code, lines } = await doctor(sidecar(SECRET, '/mcp/allice'))
    expect(lines.at(-1)).toMatch(
      /^FAIL {2}sidecar secret of alice: .*127\.0\.0\.1:1\/mcp\/alice .*resource_uri.*\/mcp\/allice \(public_url/,
    )
    expect(code).toBe(1)
  })

  it('of an owner looks at her authority, the clock there, and her API if the metadata names it', async () => {
    const { code, lines } = await doctor({ UMA_DEV_LOOPBACK: 'true', UMA_OWNER_ISSUER: issuer })
    expect(lines).toEqual([
      'ok    owner settings: they can be read',
      `ok    owner issuer: ${issuer}`,
      `ok    owner authority ${issuer}: it is reached, and names itself`,
      expect.stringMatching(/^ok {4}owner clock of .*: \d+ s apart$/) as string,
      `ok    owner API: http://${running.ownerAddress}/owner is reached`,
    ])
    expect(code).toBe(0)
  })

  it('of an owner who names no authority looks at the one whose settings are beside hers', async () => {
    const { lines } = await doctor({ ...environment, UMA_OWNER_KEY: join(folder, 'owner-key.json') })
    expect(lines).toContain(`ok    owner issuer: ${issuer}`)
    const alone = await doctor({ UMA_DEV_LOOPBACK: 'true', UMA_OWNER_KEY: join(folder, 'owner-key.json') })
    expect(alone.lines.at(-1)).toMatch(/^FAIL {2}owner issuer: it is not named\. Set UMA_OWNER_ISSUER/)
  })

  it('finds that the owner API is not where the metadata leads, for its authority and for an owner', async () => {
    const elsewhere = await startScriptedServer(() => undefined)
    const { origin } = elsewhere
    const metadata = { issuer: origin, owner_endpoint: `${origin}/owner` }
    elsewhere.script(WELL_KNOWN.umaConfiguration, { body: metadata })
    const lineOf = async (variables: Record<string, string>) =>
      (await doctor({ ...variables, UMA_DEV_LOOPBACK: 'true' })).lines.find(line => line.includes(' API: '))
    const owner = { UMA_OWNER_ISSUER: origin }
    expect(await lineOf({ ...environment, UMA_AS_ISSUER: origin })).toMatch(
      /^FAIL {2}authority owner API: \S+\/owner\/pending answers with status 404.*UMA_AS_OWNER_LISTEN.*UMA_AS_OWNER_URL/,
    )
    expect(await lineOf(owner)).toMatch(/^FAIL {2}owner API: \S+ answers with status 404.*UMA_AS_OWNER_URL/)
    expect(await lineOf({ ...owner, UMA_OWNER_API: origin })).toMatch(/^FAIL .*Correct UMA_OWNER_API/)
    expect(await lineOf({ ...owner, UMA_OWNER_API: `http://${running.ownerAddress}` })).toMatch(/^ok/)
    elsewhere.script('/owner/pending', { body: '<p>A page for every path.</p>' })
    expect(await lineOf(owner)).toMatch(/^FAIL .*answers with status 200, so the owner API is not there/)
    elsewhere.script('/owner/pending', { status: 502 })
    expect(await lineOf(owner)).toMatch(/^FAIL .*answers with status 502\. See its log/)
    await elsewhere.close()
  })

  it('without any settings says which to give', async () => {
    expect(await doctor({})).toMatchObject({ code: 2, err: expect.stringContaining('UMA_AS_') as string })
  })
})
