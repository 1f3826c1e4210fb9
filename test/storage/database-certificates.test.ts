/**
 * TLS between us and Postgres: a certificate or a file that is wrong ends a start at once with the remedy, is
 * an outage of a process that runs, and a connection that nobody protects is said. Contract: "Errors" (503);
 * docs/kubernetes/postgres-tls.md.
 */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { createServer, type AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createSecureContext, TLSSocket } from 'node:tls'
import { generate } from 'selfsigned'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { awaitDatabase, tlsWeakness } from '../../src/storage/core/database-wait.ts'
import { isOutage, openDatabase } from '../../src/storage/core/database.ts'
import { issueCertificate, makeCa, type Pair } from '../support/local-ca.ts'

/** A start that waits for what does not pass asks several times meanwhile, and then says something else. */
const SECONDS = 4

let folder: string
let known: Pair
let unknown: Pair
let itself: Pair

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'usher-database-tls-'))
  known = await makeCa()
  unknown = await makeCa()
  const pems = await generate([{ name: 'commonName', value: 'localhost' }], { keyType: 'ec', curve: 'P-256' })
  itself = { cert: pems.cert, key: pems.private }
  writeFileSync(join(folder, 'ca.pem'), known.cert)
  writeFileSync(join(folder, 'no-certificate.pem'), 'no certificate\n')
})
afterAll(() => rmSync(folder, { recursive: true }))

/** What Postgres does until TLS is up: it says that it speaks TLS, and shows this certificate. */
async function showing({ cert, key }: Pair) {
  let asked = 0
  const server = createServer(socket => {
    asked++
    socket.on('error', () => undefined)
    socket.once('data', () => {
      socket.write('S')
      const secure = new TLSSocket(socket, {
        isServer: true,
        secureContext: createSecureContext({ cert, key }),
      })
      secure.on('error', () => undefined)
    })
  })
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  return {
    url: `postgres://usher:b4nk@localhost:${(server.address() as AddressInfo).port}/usher?sslmode=verify-full`,
    asked: () => asked,
    close: () => new Promise(resolve => server.close(resolve)),
  }
}

describe('A start whose database shows a certificate', () => {
  test.each([
    [
      'by a CA that has the name of a known one, and another key,',
      () => issueCertificate(unknown, 'postgres'),
      /cannot be used: .*Name the CA of its certificate in NODE_EXTRA_CA_CERTS, or, if the URL has sslrootcert/,
    ],
    [
      'that nobody vouches for',
      () => Promise.resolve(itself),
      /cannot be used: .*Name the CA of its certificate in NODE_EXTRA_CA_CERTS, or, if the URL has sslrootcert/,
    ],
    [
      'for another host',
      () => issueCertificate(known, 'postgres', undefined, ['database.example.com']),
      /cannot be used: .*Name the host that its certificate is for/,
    ],
  ])('%s ends at once, and says what to do', async (_what, issue, words) => {
    const postgres = await showing(await issue())
    try {
      const url = `${postgres.url}&sslrootcert=${join(folder, 'ca.pem')}`
      const fault = await awaitDatabase({ url, seconds: SECONDS, tell: () => undefined }).catch(String)
      expect(fault).toMatch(words)
      expect(fault).not.toContain('b4nk')
      expect(postgres.asked()).toBe(1)
    } finally {
      await postgres.close()
    }
  })
})

test.each([
  ['is not there', 'sslrootcert', 'nowhere.pem'],
  ['is a folder', 'sslrootcert', '.'],
  ['holds no certificate', 'sslcert', 'no-certificate.pem'],
])(
  'a start whose URL names a file that %s ends at once, and names the parameters',
  async (_what, parameter, file) => {
    const postgres = await showing(await issueCertificate(known, 'postgres'))
    try {
      const url = `${postgres.url}&${parameter}=${join(folder, file)}`
      await expect(awaitDatabase({ url, seconds: SECONDS, tell: () => undefined })).rejects.toThrow(
        /DATABASE_URL: .*cannot be used: .*Correct sslrootcert, sslcert or sslkey of the URL/,
      )
    } finally {
      await postgres.close()
    }
  },
)

test('while a process runs, a file of the URL that is taken away is an outage to each who waits, and ends nothing', async () => {
  const ca = join(folder, 'taken-away.pem')
  writeFileSync(ca, known.cert)
  const server = createServer(socket => socket.once('data', () => socket.destroy()))
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as AddressInfo
  const url = `postgres://usher@127.0.0.1:${port}/usher?sslmode=verify-full&sslrootcert=${ca}`
  const database = openDatabase({ url, poolMax: 1, connectTimeoutMs: 10_000 })
  const ask = (): Promise<unknown> => database.pool.query('SELECT 1').catch((error: unknown) => error)
  try {
    // One connection is under way; where it fails, the pool makes the next one for those who wait.
    const [first, ...others] = [ask(), ask(), ask()]
    rmSync(ca)
    for (const error of [...(await Promise.all(others)), await ask()])
      expect([String(error), isOutage(error)]).toEqual([expect.stringContaining('ENOENT'), true])
    expect(isOutage(await first)).toBe(true)
    await database.close()
  } finally {
    await new Promise(resolve => server.close(resolve))
  }
})

test.each([
  'CERT_HAS_EXPIRED',
  'CERT_NOT_YET_VALID',
  'UNABLE_TO_VERIFY_LEAF_SIGNATURE',
  'UNABLE_TO_GET_ISSUER_CERT_LOCALLY',
  'SELF_SIGNED_CERT_IN_CHAIN',
  'DEPTH_ZERO_SELF_SIGNED_CERT',
  'ERR_TLS_CERT_ALTNAME_INVALID',
  'ERR_OSSL_PEM_NO_START_LINE',
  'ERR_OSSL_X509_KEY_VALUES_MISMATCH',
])('while a process runs, a certificate that is refused (%s) is an outage and no fault of a caller', code => {
  expect(isOutage(Object.assign(new Error('no'), { code }))).toBe(true)
})

test.each([
  ['another host without TLS', 'db.example.com', false, 'is not encrypted'],
  ['another host by TLS that checks nothing', 'db.example.com', { rejectUnauthorized: false }, /not checked/],
  ['another host by TLS', 'db.example.com', {}, undefined],
  ['another host by TLS, as PGSSLMODE says it', '10.0.0.7', true, undefined],
  ['this machine', '127.0.0.1', false, undefined],
  ['this machine by its name', 'localhost', false, undefined],
  ['this machine by IPv6', '::1', false, undefined],
  ['a socket', '/run/postgresql', false, undefined],
])('of a connection to %s is said what protects it', (_where, host, ssl, words) => {
  const said = tlsWeakness({ host, ssl })
  if (words === undefined) expect(said).toBeUndefined()
  else expect(said).toMatch(words)
})
