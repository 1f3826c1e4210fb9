/**
 * Owns the watch on the sidecar's file while it runs: changed owners and tools are taken over. A file with a
 * fault is refused, and what was served before stays. Contract: "Resource server enforcement point".
 */
import { readFile } from 'node:fs/promises'
import { isDeepStrictEqual } from 'node:util'
import type { SidecarConfig, SidecarOwner } from '../config.ts'
import type { Logger } from '../http/telemetry/log.ts'
import { startRepeating, type Repetition } from '../limits/repetition.ts'

const LOOK_INTERVAL_SECONDS = 5

export interface OwnersFile {
  /** The configuration as it was at the start. */
  config: SidecarConfig
  /**
   * Judges the bytes of the file as a start would, and throws if it has a fault. If left out, the file is not
   * watched.
   */
  reread?: ((bytes: Buffer) => SidecarConfig) | undefined
  /** Takes the owners over. */
  serve: (owners: readonly SidecarOwner[]) => void
  logger: Pick<Logger, 'info' | 'warn' | 'error'>
  lookSeconds?: number | undefined
}

/**
 * Checks the file now and then, until it is stopped. Each state of the file is judged once and reported once,
 * and only when two checks in a row find it the same, because the file may be seen while it is being written.
 */
export function watchOwners(options: OwnersFile): Repetition | undefined {
  const { config, logger, reread, lookSeconds: pauseSeconds = LOOK_INTERVAL_SECONDS } = options
  if (reread === undefined) return undefined
  let lastBytes: Buffer | undefined
  let judged: Buffer | undefined
  let current: SidecarConfig | undefined = config
  const look = async (): Promise<void> => {
    const bytes = await readFile(config.configFile)
    const isWritten = lastBytes?.equals(bytes) === true
    lastBytes = bytes
    if (!isWritten || judged?.equals(bytes) === true) return
    judged = bytes
    current = takeOver(options, current, () => reread(bytes))
  }
  let away: string | undefined
  const onError = (error: unknown): void => {
    const why = error instanceof Error ? error.message : String(error)
    if (why !== away) logger.error({ why }, 'the configuration file cannot be read: what was served goes on')
    away = why
  }
  return startRepeating(() => look().then(() => (away = undefined)), { pauseSeconds, onError })
}

/**
 * Serves and reports what differs from what was taken over last.
 * @returns what is taken over now; undefined if the file was refused, so that its mending is reported.
 */
function takeOver(
  { config, serve, logger }: OwnersFile,
  current: SidecarConfig | undefined,
  reread: () => SidecarConfig,
): SidecarConfig | undefined {
  let read: SidecarConfig
  try {
    read = reread()
  } catch (error) {
    if (!(error instanceof Error) || error.name !== 'ConfigFault') throw error
    const { faults } = error as Error & { faults?: string[] }
    logger.error({ faults }, 'the configuration file has a fault: what was served goes on')
    return undefined
  }
  if (read.public_url !== config.public_url) {
    logger.error({ public_url: read.public_url }, 'another public_url needs a start: what was served goes on')
    return undefined
  }
  if (restOf(read) !== restOf(config))
    logger.warn('of the configuration file owners alone are taken over while it runs: the rest needs a start')
  const ofOwners = (one: SidecarConfig | undefined): unknown[] => [one?.owners, one?.warnings]
  if (isDeepStrictEqual(ofOwners(current), ofOwners(read))) return read
  for (const sentence of read.warnings) logger.warn(sentence)
  serve(read.owners)
  const owners = new Set(read.owners.map(({ owner }) => owner)).size
  logger.info(
    { owners, resources: read.owners.length },
    'owners and tools are as the configuration file says now',
  )
  return read
}

/** Everything except owners, warnings about them, and the contents of other files. */
function restOf(config: SidecarConfig): string {
  const {
    owners: _o,
    warnings: _w,
    keys: _k,
    checkTls: _c,
    httpTls: _h,
    authorityCa: _a,
    authorityAddresses,
    rptTypes,
    ...rest
  } = config
  return JSON.stringify({ ...rest, authorityAddresses: [...authorityAddresses], rptTypes: [...rptTypes] })
}
