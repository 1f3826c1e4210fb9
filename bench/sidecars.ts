/**
 * Owns the sidecars under measurement, as processes of their own with the settings that a deployment has by
 * default, and what each tells of itself.
 */
import { startChild, untilReady, type Child } from '../src/dev/stack/child-process.ts'
import { writeSidecarFile, type Household } from '../src/dev/stack/household.ts'
import { accepts, freePorts } from '../src/dev/stack/ports.ts'
import { connect } from '../test/support/check-client.ts'
import { readHistogram, type Histogram } from './histogram.ts'

export interface MeasuredSidecar {
  pid: number | undefined
  checkPort: number
  ownTimes(): Promise<Histogram | undefined>
  droppedReports(): Promise<number>
  stop(): Promise<void>
}

export interface SidecarPlace {
  household: Household
  issuer: string
  publicUrl: string
  /** The command but for `sidecar` and its options. */
  command: string[]
  /** Where its log goes. */
  logFile: string
  /** Where it keeps reports until they are accepted; if left out, in memory. */
  stateDirectory?: string | undefined
  /** Whether it uses answers again under a lease; left out, as the file says where it says nothing. */
  liveness?: 'leased' | undefined
  /** Routes beside the owner's, as they stand in its file. */
  others?: readonly object[] | undefined
}

const SERVING = 1
/**
 * What Node takes for itself in a container that is limited to 512 MiB, which is how a sidecar is deployed.
 */
const HEAP = '--max-old-space-size=256'

/** Starts a sidecar; answers once it takes connections. */
export async function startSidecar(name: string, place: SidecarPlace): Promise<MeasuredSidecar> {
  const { child, ports } = await launch(name, place)
  await untilReady(child, () => accepts(ports.check))
  const metrics = async (): Promise<string> =>
    (await fetch(`http://127.0.0.1:${ports.documents}/metrics`)).text()
  return {
    pid: child.pid,
    checkPort: ports.check,
    ownTimes: async () => readHistogram(await metrics(), 'usher_own_seconds'),
    droppedReports: async () =>
      Number(/^usher_access_reports_dropped_total (\d+)/m.exec(await metrics())?.[1] ?? 0),
    stop: () => child.stop(),
  }
}

/** Milliseconds from the start of a sidecar's process until its health says SERVING. It is stopped again. */
export async function timeToReady(name: string, place: SidecarPlace): Promise<number> {
  const startedAt = performance.now()
  const { child, ports } = await launch(name, place)
  try {
    while (!(await accepts(ports.check))) {
      const ending = await child.ended()
      if (ending !== undefined) throw new Error(ending)
    }
    const client = connect(`127.0.0.1:${ports.check}`)
    try {
      const status = await client.health('')
      if (status !== SERVING) throw new Error(`a sidecar that takes connections says ${status}, not SERVING`)
      return performance.now() - startedAt
    } finally {
      client.close()
    }
  } finally {
    await child.stop()
  }
}

async function launch(
  name: string,
  { household, issuer, publicUrl, command, logFile, stateDirectory, liveness, others }: SidecarPlace,
): Promise<{ child: Child; ports: { check: number; documents: number } }> {
  const [check, documents] = (await freePorts(2)) as [number, number]
  const file = await writeSidecarFile(household, {
    name,
    issuer,
    publicUrl,
    check: `127.0.0.1:${check}`,
    http: `127.0.0.1:${documents}`,
    tls: undefined,
    challengesPerMinute: 600,
    drainMs: 0,
    stateDirectory,
    liveness,
    others,
  })
  const environment = { UMA_DEV_LOOPBACK: 'true', NODE_OPTIONS: HEAP }
  const child = startChild({ name, command: [...command, 'sidecar', '--config', file], environment, logFile })
  return { child, ports: { check, documents } }
}
