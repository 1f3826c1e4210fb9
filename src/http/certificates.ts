/**
 * Owns certificates that are renewed while a process runs. Contract: "Authentication": TLS is the trust root
 * between parties. The files are read again every few seconds, as links are swapped under a mounted secret
 * and no event tells of it everywhere; what could not serve never replaces what does.
 */
import { X509Certificate } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { createSecureContext } from 'node:tls'
import { readPrivateFile } from '../files/private-file.ts'
import type { Logger } from './log.ts'

/** PEM. A listener has `cert` and `key`; `ca` is whom it, or a client of ours, trusts. */
export interface TlsMaterial {
  cert?: Buffer
  key?: Buffer
  ca?: Buffer
}

/** Where each of them is read. */
export interface TlsFiles {
  cert?: string
  key?: string
  ca?: string
}

/** What a process tells of its certificates; `use` is one of a few words, such as `check` or `documents`. */
export interface CertificateObserver {
  /** In use from now on; `notAfter` in seconds since the epoch. */
  loaded(use: string, notAfter: number): void
  /** Read anew, and in use. */
  reloaded(use: string): void
  /** Read anew, and useless: the ones before stay in use. */
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
  /** Between two looks; 2,000 when left out. */
  everyMs?: number | undefined
}

/** Certificates as they are now. */
export interface Certificates<T extends TlsMaterial = TlsMaterial> {
  current(): T
  /** Called with what is to be used from now on. */
  onReload(listener: (material: T) => void): void
  stop(): void
}

const EVERY_MS = 2_000

/**
 * Watches the files until `stop`. A pair that does not fit together, cannot be read, has expired or whose key
 * is open to others is told once and changes nothing; as a swap may be seen half done, it is told only when
 * it is still there at the next look.
 */
export function watchCertificates<T extends TlsMaterial>(
  options: CertificateOptions & { initial: T },
): Certificates<T> {
  const { use, files, logger, observer, everyMs = EVERY_MS } = options
  const listeners: ((material: T) => void)[] = []
  let current = options.initial
  let suspect: string | undefined
  let told: string | undefined
  let stopped = false

  const refuse = (why: string): void => {
    const again = suspect === why
    suspect = why
    if (!again || told === why) return
    told = why
    observer.refused(use)
    logger.error({ use, why }, 'renewed certificates cannot be used: those before stay in use')
  }
  const look = async (): Promise<void> => {
    try {
      const read = await readAll<T>(files)
      if (stopped) return
      if (sameMaterial(read, current)) {
        suspect = told = undefined
        return
      }
      const notAfter = expiryOf(read)
      current = read
      for (const listener of listeners) listener(read)
      suspect = told = undefined
      observer.loaded(use, notAfter)
      observer.reloaded(use)
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

/**
 * Also of certificates that have expired: whoever starts with them is told so, by those who connect and by
 * the metric.
 */
function tellFirst({ use, initial, observer }: CertificateOptions): void {
  const first = initial.cert ?? initial.ca
  if (first !== undefined) observer.loaded(use, notAfterOf(first))
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

/** Throws, naming why, where the parts cannot serve together. */
export function requireUsable(material: TlsMaterial): void {
  createSecureContext(material)
}

/** When it ends, in seconds since the epoch. Throws, naming why, for what could not serve. */
function expiryOf(material: TlsMaterial): number {
  const { cert, ca } = material
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
