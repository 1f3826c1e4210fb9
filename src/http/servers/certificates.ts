/**
 * Owns certificates that are renewed while a process runs. Contract: "Authentication": TLS is the trust root
 * between parties. The files are read again every few seconds, because links are swapped under a mounted
 * secret, and not every system reports that by an event. Unusable files never replace usable ones.
 */
import { createPrivateKey, X509Certificate } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { isIP } from 'node:net'
import { createSecureContext } from 'node:tls'
import { readPrivateFile } from '../../files/private-file.ts'
import type { Logger } from '../telemetry/log.ts'

/** PEM. A listener has `cert` and `key`; `ca` is the authority that it, or one of our clients, trusts. */
export interface TlsMaterial {
  cert?: Buffer
  key?: Buffer
  ca?: Buffer
}

/** The file of each of them. */
export interface TlsFiles {
  cert?: string
  key?: string
  ca?: string
}

/**
 * Callbacks about the certificates of a process; `use` is one of a few words, for example `check` or
 * `documents`.
 */
export interface CertificateObserver {
  /** These are in use from now on; `notAfter` is in seconds since the epoch. */
  loaded(use: string, notAfter: number): void
  /** Read anew, and in use. */
  reloaded(use: string): void
  /** These were read again but are unusable, so the previous ones stay in use. */
  refused(use: string): void
}

export interface CertificateOptions {
  /** What they are for, in logs and metrics. */
  use: string
  files: TlsFiles
  /** What was read at the start. */
  initial: TlsMaterial
  logger: Logger
  observer: CertificateObserver
  /**
   * The setting of a certificate that is shown to clients; with the URL that they come by, if they come here
   * directly.
   */
  shown?: { setting: string; url?: string | undefined } | undefined
  /** The time between two checks; 2,000 if left out. */
  everyMs?: number | undefined
}

/** Certificates as they are now. */
export interface Certificates<T extends TlsMaterial = TlsMaterial> {
  current(): T
  /** Called with the certificates to use from now on. */
  onReload(listener: (material: T) => void): void
  stop(): void
}

const FILE_LOOK_INTERVAL_MS = 2_000

/**
 * Watches the files until `stop`. A pair that does not fit together, cannot be read, has expired or whose key
 * is open to others is reported once and changes nothing. Because a swap may be seen half done, a fault is
 * reported only if it is still there at the next check.
 */
export function watchCertificates<T extends TlsMaterial>(
  options: CertificateOptions & { initial: T },
): Certificates<T> {
  const { use, files, logger, observer, everyMs = FILE_LOOK_INTERVAL_MS } = options
  const listeners: ((material: T) => void)[] = []
  let current = options.initial
  let suspect: string | undefined
  let lastReport: string | undefined
  let stopped = false

  const refuse = (why: string): void => {
    const again = suspect === why
    suspect = why
    if (!again || lastReport === why) return
    lastReport = why
    observer.refused(use)
    logger.error({ use, why }, 'renewed certificates cannot be used: those before stay in use')
  }
  const look = async (): Promise<void> => {
    try {
      const read = await readAll<T>(files)
      if (stopped) return
      if (sameMaterial(read, current)) {
        suspect = lastReport = undefined
        return
      }
      const notAfter = expiryOf(read)
      current = read
      for (const listener of listeners) listener(read)
      suspect = lastReport = undefined
      observer.loaded(use, notAfter)
      observer.reloaded(use)
      warnOfShown(options, read)
      logger.info({ use, not_after: new Date(notAfter * 1_000).toISOString() }, 'certificates were renewed')
    } catch (error) {
      refuse(error instanceof Error ? error.message : String(error))
    }
  }
  let timer: NodeJS.Timeout | undefined
  const again = (): void => {
    if (stopped) return
    timer = setTimeout(() => void look().finally(again), everyMs)
    timer.unref()
  }
  tellFirst(options)
  again()
  return {
    current: () => current,
    onReload: listener => void listeners.push(listener),
    stop: () => {
      stopped = true
      clearTimeout(timer)
    },
  }
}

/** Expired certificates are accepted, too: their operator learns it from the log and from the metric. */
function tellFirst(options: CertificateOptions): void {
  const { use, initial, observer } = options
  const first = initial.cert ?? initial.ca
  if (first !== undefined) observer.loaded(use, notAfterOf(first))
  warnOfShown(options, initial)
}

/** Warns of a certificate that clients refuse. It is no fault, because a proxy in front may show its own. */
function warnOfShown({ use, shown, logger }: CertificateOptions, { cert }: TlsMaterial): void {
  if (shown === undefined || cert === undefined) return
  const { setting, url } = shown
  const certificate = new X509Certificate(cert)
  const { validToDate, subjectAltName: names = 'none' } = certificate
  if (validToDate.getTime() <= Date.now())
    logger.warn(
      { use, setting, not_after: validToDate.toISOString() },
      `the certificate of ${setting} has expired, so clients refuse it: renew the file; no restart is needed`,
    )
  if (url !== undefined && !namesHost(certificate, url))
    logger.warn(
      { use, setting, names, url },
      `the certificate of ${setting} does not name the host of ${url}, so clients that come here by that address refuse it: give one that does, unless a proxy in front shows them its own`,
    )
}

/** Whether clients that go to this URL accept the names; no client of http looks at any. */
function namesHost(certificate: X509Certificate, url: string): boolean {
  const { protocol, hostname } = new URL(url)
  if (protocol !== 'https:') return true
  const host = hostname.replaceAll(/[[\]]/g, '')
  const named =
    isIP(host) === 0 ? certificate.checkHost(host, { subject: 'never' }) : certificate.checkIP(host)
  return named !== undefined
}

async function readAll<T extends TlsMaterial>(files: TlsFiles): Promise<T> {
  const named = Object.entries(files) as [keyof TlsMaterial, string][]
  const read: TlsMaterial = Object.fromEntries(
    await Promise.all(
      named.map(
        async ([name, path]) => [name, await (name === 'key' ? readPrivateFile : readFile)(path)] as const,
      ),
    ),
  )
  return read as T
}

function sameMaterial(one: TlsMaterial, other: TlsMaterial): boolean {
  return (['cert', 'key', 'ca'] as const).every(name => {
    const [mine, theirs] = [one[name], other[name]]
    return mine === undefined ? theirs === undefined : theirs !== undefined && mine.equals(theirs)
  })
}

/**
 * The fault of the files at the start, with the remedy, and the files that it is about; undefined if they are
 * usable.
 */
export function certificateFault(
  material: TlsMaterial,
): { parts: (keyof TlsMaterial)[]; why: string } | undefined {
  const { cert, key, ca } = material
  for (const [part, pem] of [
    ['cert', cert],
    ['ca', ca],
  ] as const)
    if (pem !== undefined) {
      const why = pemFault(pem)
      if (why !== undefined) return { parts: [part], why }
    }
  if (key !== undefined && !isUsable(() => createPrivateKey(key)))
    return { parts: ['key'], why: 'it holds no private key. Give one in PEM, without a passphrase.' }
  if (cert === undefined || key === undefined) return undefined
  if (!new X509Certificate(cert).checkPrivateKey(createPrivateKey(key)))
    return {
      parts: ['cert', 'key'],
      why: 'the key does not belong to the certificate. Give the key that the certificate was made for; the certificate of the server comes first in its file.',
    }
  return isUsable(() => requireUsable(material))
    ? undefined
    : { parts: ['cert', 'key'], why: 'they cannot serve. Give a certificate and its key that OpenSSL takes.' }
}

const CERTIFICATES = /-----BEGIN (?:X509 |TRUSTED )?CERTIFICATE-----/g

/**
 * OpenSSL ends at the first certificate of a file that it cannot read, and tells nobody: those behind it, or
 * all of a file in DER, would not be trusted.
 */
function pemFault(pem: Buffer): string | undefined {
  const text = pem.toString('latin1')
  const places = [...text.matchAll(CERTIFICATES)].map(({ index }) => index)
  if (places.length === 0) return 'it holds no certificate. Give certificates in PEM (BEGIN CERTIFICATE).'
  const unusable = places.findIndex(
    (from, n) =>
      !/(?:^|[\r\n]|\xef\xbb\xbf)$/.test(text.slice(Math.max(0, from - 3), from)) ||
      !isUsable(() => new X509Certificate(text.slice(from, places[n + 1]))),
  )
  if (unusable < 0) return undefined
  return `its certificate ${unusable + 1} of ${places.length} cannot be read. Give each whole, from its BEGIN line to its END line, each on a line of its own.`
}

function isUsable(read: () => unknown): boolean {
  try {
    read()
    return true
  } catch {
    return false
  }
}

/** Throws, with the reason, if the parts cannot be used together. */
export function requireUsable(material: TlsMaterial): void {
  createSecureContext(material)
}

/** When it expires, in seconds since the epoch. Throws, with the reason, if it cannot be used. */
function expiryOf(material: TlsMaterial): number {
  const { cert, ca } = material
  for (const pem of [cert, ca]) {
    const why = pem === undefined ? undefined : pemFault(pem)
    if (why !== undefined) throw new Error(why)
  }
  const trusted = ca === undefined ? undefined : notAfterOf(ca)
  if (cert === undefined) return trusted!
  requireUsable(material)
  const notAfter = notAfterOf(cert)
  if (notAfter * 1_000 <= Date.now()) throw new Error('the certificate has expired')
  return notAfter
}

function notAfterOf(pem: Buffer): number {
  return Math.floor(Date.parse(new X509Certificate(pem).validTo) / 1_000)
}
