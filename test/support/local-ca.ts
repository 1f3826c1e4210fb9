/** Owns a certificate authority that lives as long as a test: TLS throughout, trusted by nobody else. */
import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { getCACertificates, setDefaultCACertificates } from 'node:tls'
import { generate } from 'selfsigned'
import type { StackTls } from '../../src/dev/stack/stack.ts'

export interface Pair {
  cert: string
  key: string
}

/** A CA of its own. */
export function makeCa(): Promise<Pair> {
  return certificate('usher test CA', [
    { name: 'basicConstraints', cA: true, critical: true },
    { name: 'keyUsage', keyCertSign: true, cRLSign: true, critical: true },
  ])
}

/**
 * A new certificate of it, for `localhost` or other `names` (`spiffe://…` is a URI), which serves and may
 * be shown by a client; `commonName` tells it from others.
 */
export function issueCertificate(
  ca: Pair,
  commonName: string,
  purpose = { serverAuth: true, clientAuth: true },
  names = ['localhost'],
): Promise<Pair> {
  return certificate(
    commonName,
    [
      { name: 'basicConstraints', cA: false, critical: true },
      { name: 'keyUsage', digitalSignature: true, critical: true },
      { name: 'extKeyUsage', ...purpose },
      { name: 'subjectAltName', altNames: names.map(altName) },
    ],
    ca,
  )
}

/** One of it for `localhost` that was good until yesterday. */
export function issueExpired(ca: Pair, commonName: string): Promise<Pair> {
  const daysAgo = (days: number): Date => new Date(Date.now() - days * 86_400_000)
  const names = { name: 'subjectAltName' as const, altNames: [altName('localhost')] }
  return certificate(commonName, [names], ca, { notBeforeDate: daysAgo(2), notAfterDate: daysAgo(1) })
}

/** By its form: a URI, or else a DNS name. */
function altName(value: string) {
  return value.startsWith('spiffe://') ? { type: 6 as const, value } : { type: 2 as const, value }
}

/**
 * Makes a CA and one certificate of it for each party, in files below `directory`; all bear the name
 * `localhost`.
 */
export async function makeLocalCa(directory: string): Promise<StackTls & { ca: string }> {
  const ca = await makeCa()
  const write = async (party: string, purpose: { serverAuth: boolean; clientAuth: boolean }) => {
    const { cert, key } = await issueCertificate(ca, party, purpose)
    const home = join(directory, party)
    await mkdir(home, { recursive: true })
    const [certFile, keyFile, caFile] = [join(home, 'cert.pem'), join(home, 'key.pem'), join(home, 'ca.pem')]
    await Promise.all([
      writeFile(certFile, cert),
      writeFile(keyFile, key, { mode: 0o600 }),
      writeFile(caFile, ca.cert),
    ])
    return { home, certFile, keyFile, caFile }
  }
  const authority = await write('authority', { serverAuth: true, clientAuth: false })
  const sidecar = await write('sidecar', { serverAuth: true, clientAuth: false })
  const gateway = await write('envoy', { serverAuth: true, clientAuth: true })
  return { ca: ca.cert, caFile: gateway.caFile, authority, sidecar, envoyDirectory: gateway.home }
}

/** Makes this process trust the CA beside the usual ones; the function returned takes that back. */
export function trust(ca: string): () => void {
  const usual = getCACertificates('default')
  setDefaultCACertificates([...usual, ca])
  return () => setDefaultCACertificates(usual)
}

type Extensions = NonNullable<NonNullable<Parameters<typeof generate>[1]>['extensions']>

async function certificate(
  commonName: string,
  extensions: Extensions,
  issuer?: Pair,
  lifetime: { notBeforeDate?: Date; notAfterDate?: Date } = {},
): Promise<Pair> {
  const pems = await generate([{ name: 'commonName', value: commonName }], {
    keyType: 'ec',
    curve: 'P-256',
    algorithm: 'sha256',
    extensions,
    ...lifetime,
    ...(issuer && { ca: issuer }),
  })
  return { cert: pems.cert, key: pems.private }
}
