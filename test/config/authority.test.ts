/** The settings of the authority: contract, "Limits" and "Authentication". */
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { readAuthorityConfig } from '../../src/config.ts'
import { generatePrivateJwk } from '../../src/wire/signatures/keys.ts'
import { configFolder, faultsOf } from '../support/config-files.ts'

const { folder, keysFile } = configFolder()

describe('The settings of the authority', () => {
  const good = () => ({
    UMA_AS_ISSUER: 'https://as.example.com',
    DATABASE_URL: 'postgres://x',
    UMA_AS_KEYS_FILE: keysFile,
  })
  const faults = (changes: Record<string, string | undefined>) =>
    faultsOf(() => readAuthorityConfig({ ...good(), ...changes }))

  test('defaults are those of the reference page', () => {
    expect(readAuthorityConfig(good())).toMatchObject({
      listen: { host: '127.0.0.1', port: 9100 },
      ownerListen: { host: '127.0.0.1', port: 9101 },
      reasonBytesMax: 512,
      ticketSeconds: 300,
      awaitingSeconds: 3600,
      negotiationSeconds: 604_800,
      pollSeconds: 3,
      patSeconds: 3600,
      trajectoryWindowSeconds: 604_800,
      devLoopback: false,
      specNs: 'https://u4a.ai/spec',
    })
  })

  test('an unknown UMA_ variable stops the start: a misspelt limit must not be the default', () => {
    expect(faults({ UMA_AS_TICKET_SECOND: '10' })).toEqual([
      expect.stringContaining('UMA_AS_TICKET_SECOND is not a setting'),
    ])
  })

  test('signatures and published keys say EdDSA, or the newer name where the setting says so', () => {
    const algOf = (environment: object) => {
      const [key] = readAuthorityConfig({ ...good(), ...environment }).keys
      return [key!.alg, key!.jwk.alg]
    }
    expect(algOf({})).toEqual(['EdDSA', 'EdDSA'])
    expect(algOf({ UMA_SIGNING_ALG: 'Ed25519' })).toEqual(['Ed25519', 'Ed25519'])
    expect(faultsOf(() => algOf({ UMA_SIGNING_ALG: 'RS256' }))).toEqual([
      expect.stringMatching(/^UMA_SIGNING_ALG: /),
    ])
  })

  test('the keys of the log are others than those of tokens, each of them', () => {
    const jwks = [generatePrivateJwk(), generatePrivateJwk()]
    const file = (name: string, keys: unknown[]) => {
      const path = join(folder, name)
      writeFileSync(path, JSON.stringify({ keys }), { mode: 0o600 })
      return path
    }
    const log = file('log-keys.json', jwks)
    const read = readAuthorityConfig({ ...good(), UMA_AS_LOG_KEYS_FILE: log })
    expect(read.logKeys.map(({ kid }) => kid)).toEqual(jwks.map(({ kid }) => kid))
    expect(readAuthorityConfig(good()).logKeys).toEqual([])
    // The same key under another name is the same key.
    const named = { ...jwks[1]!, kid: 'another-name' }
    expect(
      faults({
        UMA_AS_LOG_KEYS_FILE: log,
        UMA_AS_KEYS_FILE: file('both.json', [generatePrivateJwk(), named]),
      }),
    ).toEqual([
      expect.stringMatching(
        new RegExp(
          `^UMA_AS_LOG_KEYS_FILE: .*log-keys.json has the key ${jwks[1]!.kid}, .*Take it out of that file`,
        ),
      ),
    ])
    expect(faults({ UMA_AS_LOG_KEYS_FILE: join(folder, 'none.json') })).toEqual([
      expect.stringMatching(/^UMA_AS_LOG_KEYS_FILE: cannot read /),
    ])
  })

  test('an issuer with "+" has no log, because it is a part of the name of each', () => {
    const issuer = 'https://a+s.example.com'
    expect(faults({ UMA_AS_ISSUER: issuer, UMA_AS_LOG_KEYS_FILE: keysFile })).toEqual([
      expect.stringMatching(/^UMA_AS_ISSUER: give one without spaces and "\+"/),
    ])
    expect(faults({ UMA_AS_ISSUER: issuer })).toEqual([])
    expect(faults({ UMA_AS_ISSUER: 'https://a s.example.com' })).toEqual([
      expect.stringMatching(/^UMA_AS_ISSUER: /),
    ])
  })

  test('a network that is trusted is for private use, and hosts narrow one that is', () => {
    const trusted = (networks: string, hosts?: string) =>
      faults({ UMA_AS_TRUSTED_NETWORKS: networks, UMA_AS_TRUSTED_HOSTS: hosts })
    expect(trusted('10.20.0.0/16, fd12::/16', '*.corp.example,tools.internal')).toEqual([])
    expect(trusted('0.0.0.0/0,10.0.0.0/8,169.254.0.0/16')).toEqual([
      expect.stringMatching(/^UMA_AS_TRUSTED_NETWORKS: 0\.0\.0\.0\/0 lies in no range for private use/),
      expect.stringMatching(/^UMA_AS_TRUSTED_NETWORKS: 169\.254\.0\.0\/16 lies/),
    ])
    expect(trusted('127.0.0.0/8')).toEqual([
      expect.stringContaining('with UMA_DEV_LOOPBACK=true also 127.0.0.0/8, ::1/128'),
    ])
    expect(trusted('10.0.0.0')).toEqual([expect.stringMatching(/^UMA_AS_TRUSTED_NETWORKS: Give ranges/)])
    expect(trusted('10.0.0.0/8', 'Tools.Internal')).toEqual([
      expect.stringMatching(/^UMA_AS_TRUSTED_HOSTS: Give host names/),
    ])
    expect(faults({ UMA_AS_TRUSTED_HOSTS: 'tools.internal' })).toEqual([
      expect.stringMatching(/^Set UMA_AS_TRUSTED_NETWORKS/),
    ])
  })

  test.each([
    ['mysql://usher:secret@db/usher', /^DATABASE_URL: The scheme must be postgres, and is mysql\. /],
    ['db:5432/secret', /^DATABASE_URL: Give postgres:\/\//],
    [
      'postgres://usher:secret@db:54321x/usher',
      /^DATABASE_URL: The port must be a whole number from 1 to 65535\. /,
    ],
    ['postgres://usher:secret@db:70000/usher', /^DATABASE_URL: The port must be/],
    ['postgres://usher:secret@db:0/usher', /^DATABASE_URL: The port must be/],
    ['postgres://usher:secret@db/usher?port=none', /^DATABASE_URL: The port must be/],
    ['postgres://usher:sec/ret@db/usher', /percent-encoded/],
    ['postgres://usher:secret@one:5432,two:5432/usher', /^DATABASE_URL: Name one host/],
    ['postgres://usher:secret@d b/usher', /^DATABASE_URL: Give postgres:\/\//],
  ])('DATABASE_URL %s is refused by a sentence that names it and tells no secret', (url, sentence) => {
    const told = faults({ DATABASE_URL: url })
    expect(told).toEqual([expect.stringMatching(sentence)])
    expect(told[0]).not.toMatch(/secret|ret@/)
  })

  test.each([
    'postgresql://usher:p%23@db:5432/usher?sslmode=verify-full',
    'postgres://[::1]:5432/usher',
    'postgres://usher@/usher?host=/run/postgresql',
    'postgres://%2Frun%2Fpostgresql/usher',
  ])('DATABASE_URL %s is taken', url => {
    expect(faults({ DATABASE_URL: url })).toEqual([])
  })

  test('an empty variable counts as unset', () => {
    expect(faults({ UMA_AS_TICKET_SECONDS: '' })).toEqual([])
    expect(faults({ UMA_AS_ISSUER: '' })).toEqual([expect.stringMatching(/^Set UMA_AS_ISSUER: /)])
  })

  test('issuers of agent tokens are listed by their exact URLs, separated by commas', () => {
    const listed = 'https://agents.example, https://other.example/tenant'
    expect(readAuthorityConfig({ ...good(), UMA_AS_AGENT_ISSUERS: listed }).agentIssuers).toEqual([
      'https://agents.example',
      'https://other.example/tenant',
    ])
    expect(readAuthorityConfig(good()).agentIssuers).toBeUndefined()
    const loopback = { UMA_AS_AGENT_ISSUERS: 'http://127.0.0.1:9300' }
    expect(faults(loopback)).toEqual([expect.stringMatching(/^UMA_AS_AGENT_ISSUERS: .* is not https/)])
    expect(faults({ ...loopback, UMA_DEV_LOOPBACK: 'true' })).toEqual([])
  })

  test.each([
    'http://agents.example',
    'agents.example',
    'https://agents.example?x',
    'https://agents.example#x',
    'https://a@agents.example',
    'https://agents.example/@tenant',
    'https://Agents.example',
    'https://agents.example:443',
    'https://agents.example/a/../b',
    'https://agents.example,',
    'https://agents.example,https://agents.example',
    'https://agents.example,https://agents.example/',
  ])('an issuer of agent tokens that could be read in two ways stops the start: %s', value => {
    expect(faults({ UMA_AS_AGENT_ISSUERS: value })).toEqual([
      expect.stringMatching(/^UMA_AS_AGENT_ISSUERS: \w+/),
    ])
  })

  test('every fault is listed, not only the first', () => {
    const all = faults({
      UMA_AS_ISSUER: undefined,
      UMA_AS_LISTEN: 'here',
      UMA_AS_POLL_SECONDS: '3.5',
      UMA_X: '1',
    })
    expect(all).toHaveLength(4)
  })

  test.each([
    ['UMA_AS_ISSUER', 'as.example.com'],
    ['UMA_AS_ISSUER', 'https://as.example.com/'],
    ['UMA_AS_ISSUER', 'https://AS.example.com'],
    ['UMA_AS_ISSUER', 'https://as.example.com:443'],
    ['UMA_AS_ISSUER', 'https://as.example.com/?a=b'],
    ['UMA_AS_ISSUER', 'http://as.example.com'],
    ['UMA_AS_ISSUER', 'http://127.0.0.1:9100'],
    ['UMA_AS_LISTEN', '127.0.0.1'],
    ['UMA_AS_LISTEN', '127.0.0.1:70000'],
    ['UMA_AS_LISTEN', 'unix:relative'],
    ['UMA_AS_TICKET_SECONDS', '0'],
    ['UMA_AS_TICKET_SECONDS', '1e3'],
    ['UMA_AS_TICKET_SECONDS', '-300'],
    ['UMA_AS_TRAJECTORY_WINDOW', '7'],
    ['UMA_AS_RETENTION', '29d'],
    ['UMA_AS_RETENTION', 'forever'],
    ['UMA_AS_OWNER_AUTH', 'password'],
    ['UMA_DEV_LOOPBACK', 'yes'],
    ['UMA_AS_LOG_LEVEL', 'loud'],
    ['UMA_AS_TLS_CERT_FILE', '/nowhere/cert.pem'],
    ['UMA_AS_KEYS_FILE', '/nowhere/keys.json'],
  ])('%s=%s is refused with a sentence', (name, value) => {
    const [fault, ...more] = faults({ [name]: value })
    expect(fault).toContain(name)
    expect(fault).toMatch(/[.)]$/)
    expect(more).toEqual([])
  })

  test('UMA_AS_RETENTION is no shorter than the time that rules count over', () => {
    const window = { UMA_AS_TRAJECTORY_WINDOW: '31d' }
    expect(faults({ ...window, UMA_AS_RETENTION: '30d' })).toEqual([
      expect.stringMatching(/^UMA_AS_RETENTION: give at least UMA_AS_TRAJECTORY_WINDOW/),
    ])
    expect(faults({ ...window, UMA_AS_RETENTION: '31d' })).toEqual([])
  })

  test('UMA_DEV_LOOPBACK admits http to a literal loopback host, not to a name', () => {
    expect(faults({ UMA_DEV_LOOPBACK: 'true', UMA_AS_ISSUER: 'http://127.0.0.1:9100' })).toEqual([])
    expect(faults({ UMA_DEV_LOOPBACK: 'true', UMA_AS_ISSUER: 'http://localhost:9100' })).toHaveLength(1)
  })
})
