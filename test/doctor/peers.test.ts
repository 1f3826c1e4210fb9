/**
 * `usher doctor` beyond an owner's authority: the tally of an account, the organization above an owner, and
 * doors that take known clients alone. Each is a real one.
 */
import { writeFileSync } from 'node:fs'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { createServer, type Server } from 'node:tls'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { stringify } from 'yaml'
import { freePorts } from '../../src/dev/stack/ports.ts'
import { generatePrivateJwk } from '../../src/wire/signatures/keys.ts'
import { mandateDigest, parseMandate } from '../../src/wire/joint/mandate.ts'
import { doctor } from '../support/doctor.ts'
import { issueCertificate, makeCa } from '../support/local-ca.ts'
import { startTestOrganization, type TestOrganization } from '../support/organization.ts'
import { startScriptedServer } from '../support/scripted-http.ts'
import { accountOf, ACCOUNT, startTestTally, TOOLS, type TestTally } from '../support/tally.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'

const CREDENTIAL = 'the-credential-of-the-tools-at-the-organization'
const folder = temporaryFolder('peers')
let tally: TestTally
let organization: TestOrganization
let door: Server
let digest: string

const file = (name: string, content: string): string => {
  const path = join(folder, name)
  writeFileSync(path, content, { mode: 0o600 })
  return path
}
/** More than documents of strangers may have. */
const MANY = Array.from({ length: 2_000 }, (_, n) => ({
  id: `${ACCOUNT}/savings-${n}`,
  client_id: TOOLS.client_id,
  name: `The savings of the year ${n}`,
  resource_scopes: ['read', 'trade'],
}))
const loopback = (port: number) => `http://127.0.0.1:${port}`

beforeAll(async () => {
  const [tallyPort, organizationPort, nobody] = await freePorts(3)
  const holders = ['bea', 'carl'].map(owner => ({ owner, issuer: loopback(nobody!), weight: 1 }))
  tally = await startTestTally({
    accounts: [accountOf({ holders, registered: MANY })],
    environment: {
      UMA_TALLY_ISSUER: loopback(tallyPort),
      UMA_TALLY_LISTEN: `127.0.0.1:${tallyPort}`,
    },
  })
  const served = await tally.request(`/mandate/${ACCOUNT}`)
  digest = mandateDigest(parseMandate(served.body))
  organization = await startTestOrganization({
    environment: {
      UMA_ORG_ISSUER: loopback(organizationPort!),
      UMA_DEV_LOOPBACK: 'true',
      UMA_ORG_LISTEN: `127.0.0.1:${organizationPort}`,
    },
    file: {
      enforcement_points: [
        {
          id: 'tools',
          resources: [{ owner: 'alice', resource: 'https://tools.example/mcp/alice' }],
          credential: CREDENTIAL,
        },
      ],
    },
  })
  const ca = await makeCa()
  const [one, other] = [await issueCertificate(ca, 'one'), await issueCertificate(ca, 'other')]
  for (const [name, pem] of Object.entries({ one, other })) {
    file(`${name}.crt`, pem.cert)
    file(`${name}.key`, pem.key)
  }
  file('ca.crt', ca.cert)
  file('keys.json', JSON.stringify({ keys: [generatePrivateJwk()] }))
  door = createServer({ ...one, ca: ca.cert, requestCert: true, rejectUnauthorized: true })
  await new Promise<void>(resolve => void door.listen(0, '127.0.0.1', resolve))
})
afterAll(async () => {
  door.close()
  await Promise.all([tally.close(), organization.close()])
})

/** What is said about the sidecar with these members of its file, by check. */
async function looked(changes: object): Promise<Map<string, string>> {
  const whole = {
    public_url: 'https://tools.example',
    listen: { check: '127.0.0.1:1', http: '127.0.0.1:1' },
    keys_file: join(folder, 'keys.json'),
    realm: 'tools',
    ...changes,
  }
  const { lines } = await doctor({
    UMA_DEV_LOOPBACK: 'true',
    UMA_PEP_CONFIG: file('sidecar.yaml', stringify(whole)),
  })
  const read = lines.map(line => /^(ok|FAIL) +sidecar (.*?): (.*)$/.exec(line) ?? ['', '', line, ''])
  return new Map(read.map(([, how, what, said]) => [what!, `${how}: ${said}`]))
}

const tools = (owner: string) => [{ tool: 'read', resource_id: `${owner}/savings`, scopes: ['read'] }]
const account = (mandate_s256: unknown) => ({
  owners: [
    {
      owner: ACCOUNT,
      ...TOOLS,
      tools: tools(ACCOUNT),
      joint: { tally: tally.environment['UMA_TALLY_ISSUER'], account: ACCOUNT, mandate_s256 },
    },
  ],
})
const alice = (credential: string) => ({
  owners: [
    {
      owner: 'alice',
      authority: 'https://as.invalid',
      ...TOOLS,
      tools: tools('alice'),
      organization: {
        issuer: organization.environment['UMA_ORG_ISSUER'],
        credential,
        resources: ['alice/*'],
      },
    },
  ],
})

describe('usher doctor of a sidecar looks at the tally of an account', () => {
  it.each([
    ['it is pinned', () => [digest], /^ok: the tally serves s256:.*, which is pinned here$/],
    ['any counts', () => 'any', /^ok: .*any counts here$/],
    [
      'another is pinned',
      () => [`s256:${'A'.repeat(43)}`],
      /^FAIL: .*mandate_s256 pins others.*holders agreed.*then pin it/,
    ],
  ])('and its mandate, where %s', async (_what, pinned, said) => {
    const found = await looked(account(pinned()))
    expect(found.get(`mandate of ${ACCOUNT}`)).toMatch(said)
    expect(found.get(`secret of ${ACCOUNT}`)).toMatch(/^ok: the tally takes it for /)
  })

  it('and calls it a tally, by the setting that names it, where it is not reached', async () => {
    const gone = await freePorts(1)
    const issuer = loopback(gone[0])
    const [entry] = account('any').owners
    const found = await looked({ owners: [{ ...entry!, joint: { ...entry!.joint, tally: issuer } }] })
    expect(found.get(`tally ${issuer}`)).toMatch(/^FAIL: .*correct joint\.tally, or see to the network/)
    expect([...found.keys()].filter(what => what.startsWith('authority'))).toEqual([])
  })

  it('and says what makes it take another secret, and that it takes no signature', async () => {
    const { client_secret: _secret, ...entry } = account('any').owners[0]!
    const secret = await looked({ owners: [{ ...entry, client_secret: 'another secret altogether' }] })
    expect(secret.get(`secret of ${ACCOUNT}`)).toMatch(
      /^FAIL: the tally does not take client_secret .*UMA_TALLY_PROVISION was changed .*restart the tally\.$/,
    )
    const key = await looked({ owners: [{ ...entry, signature: true }] })
    expect(key.get(`key of ${ACCOUNT}`)).toMatch(
      /^FAIL: a tally takes no signature\. .*give the secret that the file of UMA_TALLY_PROVISION has/,
    )
  })
})

describe('usher doctor of a sidecar that leases looks at what the authority offers', () => {
  it.each([
    [1_900, /^ok: it offers them, of 1900 ms$/],
    [undefined, /^FAIL: it offers none.*UMA_AS_LEASES=true.*liveness: asked/],
    [0, /^FAIL: it offers none/],
  ])('%s', async (introspection_lease_ms_max, said) => {
    const authority = await startScriptedServer(({ path }) =>
      path === '/.well-known/agents-configuration' ? { body: { introspection_lease_ms_max } } : undefined,
    )
    const leasing = { ...alice(CREDENTIAL).owners[0]!, authority: authority.origin }
    const found = await looked({ owners: [leasing], liveness: 'leased' })
    expect(found.get(`leases of ${authority.origin}`)).toMatch(said)
    expect((await looked({ owners: [leasing] })).has(`leases of ${authority.origin}`)).toBe(false)
    await authority.close()
  })
})

describe('usher doctor of a sidecar looks at the organization above an owner', () => {
  it('and finds that it takes the credential', async () => {
    const found = await looked(alice(CREDENTIAL))
    expect(found.get(`organization ${organization.environment['UMA_ORG_ISSUER']}`)).toMatch(/^ok/)
    expect(found.get('credential of alice')).toBe('ok: the organization takes it')
  })

  it('and finds that it takes another', async () => {
    const found = await looked(alice('not-the-credential'))
    expect(found.get('credential of alice')).toMatch(/^FAIL: .*Give the one that it provisioned/)
  })
})

describe('usher doctor of a sidecar looks at a door that takes known clients alone', () => {
  const behind = (name: string, address = `127.0.0.1:${(door.address() as AddressInfo).port}`) => ({
    listen: { check: address, http: '127.0.0.1:1' },
    check_tls: {
      cert_file: join(folder, `${name}.crt`),
      key_file: join(folder, `${name}.key`),
      client_ca_file: join(folder, 'ca.crt'),
    },
    ...alice(CREDENTIAL),
  })

  it('which shows the certificate of the file, and says until when it is good and whose clients it takes', async () => {
    const found = await looked(behind('one'))
    expect(found.get('door of checks')).toMatch(
      /^ok: 127\.0\.0\.1:\d+ shows the certificate of check_tls\.cert_file, good until \d{4}-\d\d-\d\d, and takes clients of CN=usher test CA$/,
    )
  })

  it('which shows another one', async () => {
    const found = await looked(behind('other'))
    expect(found.get('door of checks')).toMatch(
      /^FAIL: .*shows another certificate than check_tls\.cert_file/,
    )
  })

  it('which nobody opened', async () => {
    const found = await looked(behind('one', '127.0.0.1:1'))
    expect(found.get('door of checks')).toMatch(/^FAIL: .*nothing listens there \(ECONNREFUSED\)\. Start it/)
  })
})

describe('usher doctor of a sidecar looks at an authority', () => {
  it('whose certificate is by a CA that is not known here, and names the setting for that CA', async () => {
    const authority = `https://127.0.0.1:${(door.address() as AddressInfo).port}`
    const owners = [{ owner: 'alice', authority, ...TOOLS, tools: tools('alice') }]
    const found = await looked({ owners })
    expect(found.get(`authority ${authority}`)).toMatch(
      /^FAIL: \S+ \(authority\) cannot be used: its certificate is by a CA that is not known here \(\w+\)\. Name that CA in authority_ca_file, or in NODE_EXTRA_CA_CERTS\.$/,
    )
  })
})

describe('usher doctor of a tally', () => {
  it('looks at the authorities of the holders, and names the file that names them', async () => {
    const { lines } = await doctor(tally.environment)
    expect(lines.filter(line => line.startsWith('FAIL'))).toEqual([
      expect.stringMatching(
        /^FAIL {2}tally authority of a holder http.*correct UMA_TALLY_PROVISION/,
      ) as string,
    ])
  })
})
