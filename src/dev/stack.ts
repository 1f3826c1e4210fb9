/**
 * Owns a whole local stack: authority, sidecar, Envoy and tool server. Contract: "Parties": each but the
 * sample tool server is a process of its own, started as it would be in the world. The demo and the
 * end-to-end tests start the same one.
 */
import { mkdir, writeFile } from 'node:fs/promises'
import { extname, join } from 'node:path'
import { embed } from '../enforcement/doors/embedded/index.ts'
import { startChild, untilReady, type Child } from './child-process.ts'
import type { Envoy } from './envoy-binary.ts'
import { envoyConfig } from './envoy-config.ts'
import {
  RESOURCE_PATH,
  writeHousehold,
  writeSidecarFile,
  type Household,
  type SidecarPlace,
} from './household.ts'
import { accepts, choosePorts, type PreferredPorts, type StackPorts } from './ports.ts'
import { startToolServer, type ToolServer } from './tool-server.ts'

/** A local CA, and one certificate of it for each party; every certificate bears the name `localhost`. */
export interface StackTls {
  caFile: string
  authority: { certFile: string; keyFile: string }
  sidecar: { certFile: string; keyFile: string }
  /** Holds ca.pem, cert.pem and key.pem. */
  envoyDirectory: string
}

export interface StackOptions {
  /** Where files and logs go. */
  directory: string
  /** An empty database. */
  databaseUrl: string
  /**
   * Stands in front of the tool server, with the sidecars; left out, the tool server enforces by itself, over
   * plain http.
   */
  envoy?: Envoy | undefined
  /** TLS throughout, under a DNS name; left out, plain http on literal loopback with UMA_DEV_LOOPBACK. */
  tls?: StackTls | undefined
  /** Envoy asks by HTTP, not by gRPC. */
  checksByHttp?: boolean | undefined
  /** How many sidecars share the checks; 1 when left out. */
  sidecars?: number | undefined
  /** How many replicas of the authority share the database. 1 when left out. */
  authorities?: number | undefined
  /** Where everybody reaches them, a balancer of the caller's; at the first of them when left out. */
  door?: { issuer: string; ownerApi: string } | undefined
  challengesPerMinute?: number | undefined
  /** How long before Envoy's deadline a sidecar ends its waits; its default when left out. */
  deadlineMarginMs?: number | undefined
  /** Further settings of the authority, by variable. */
  authorityEnvironment?: Record<string, string> | undefined
  /** Changes the YAML of Envoy's configuration before it is used. */
  changeEnvoy?: ((yaml: string) => string) | undefined
  preferredPorts?: PreferredPorts | undefined
  /** Where nothing stands in front of it, in place of the sample tool server. */
  toolServer?: typeof startToolServer | undefined
}

export interface Stack {
  directory: string
  issuer: string
  ownerApi: string
  /** Where each replica of the authority itself is reached. */
  authorities: { url: string; ownerApi: string }[]
  /** `listen.check` of each sidecar, and `listen.http`. */
  checkPorts: number[]
  documentPorts: number[]
  /** What agents call; the resource is this and RESOURCE_PATH. */
  publicUrl: string
  resource: string
  household: Household
  toolServer: ToolServer
  /** Whether http on loopback is admitted. */
  devLoopback: boolean
  children: Child[]
  /** Ends one replica by SIGTERM, in its own time, starts it anew, and waits until it answers. */
  restart(what: 'authority' | 'sidecar', index: number): Promise<void>
  stop(): Promise<void>
}

const CLI = join(import.meta.dirname, '..', `cli${extname(import.meta.filename)}`)

/** What every part of the stack is told. */
interface Plan extends StackOptions {
  ports: StackPorts
  urls: Pick<Stack, 'issuer' | 'ownerApi' | 'publicUrl' | 'authorities'>
  household: Household
  start(name: string, command: string[], environment?: Record<string, string>): Child
}

/**
 * Starts everything and waits until it answers. Where a part does not start, what was started is stopped
 * again.
 */
export async function startStack(options: StackOptions): Promise<Stack> {
  const started: { stop(): Promise<void> }[] = []
  const stop = async (): Promise<void> => {
    // Last started, first stopped: nobody is left asking one that is gone.
    for (const one of started.splice(0).reverse()) await one.stop()
  }
  try {
    const plan = await makePlan(options, child => void started.push(child))
    const authorities = await Promise.all(
      plan.ports.authorities.map((_, index) => startAuthority(plan, index)),
    )
    const toolServer = await startTools(plan, started)
    const gateway = plan.envoy === undefined ? [] : await startGateway(plan, plan.envoy)
    const { directory, household, urls } = plan
    const restart: Stack['restart'] = async (what, index) => {
      // Of the gateway the sidecars come first.
      const replicas = what === 'authority' ? authorities : gateway
      await replicas[index]!.stop()
      replicas[index] = await (what === 'authority' ? startAuthority : startSidecar)(plan, index)
    }
    return {
      ...urls,
      directory,
      household,
      toolServer,
      checkPorts: plan.ports.sidecars.map(({ check }) => check),
      documentPorts: plan.ports.sidecars.map(({ documents }) => documents),
      resource: urls.publicUrl + RESOURCE_PATH,
      devLoopback: plan.tls === undefined,
      children: [...authorities, ...gateway],
      restart,
      stop,
    }
  } catch (error) {
    await stop()
    throw error
  }
}

/** The tool server; where nothing stands in front of it, it enforces by itself. */
async function startTools(plan: Plan, started: { stop(): Promise<void> }[]): Promise<ToolServer> {
  if (plan.envoy !== undefined) {
    const behind = await startToolServer(plan.ports.tool)
    // Stopped last, so that nothing in front of it is left without it.
    started.unshift(behind)
    return behind
  }
  const point = await embed(await writeSidecarFile(plan.household, embeddedPlace(plan)), {
    environment: { ...sharedEnvironment(plan), UMA_PEP_LOG_LEVEL: 'error' },
  })
  started.push({ stop: () => point.close() })
  const start = plan.toolServer ?? startToolServer
  const toolServer = await start(plan.ports.tool, handler => point.protect(handler))
  started.push(toolServer)
  return toolServer
}

/** The same file as a sidecar's: where a sidecar would listen has no effect inside a resource. */
function embeddedPlace({ urls, ports, challengesPerMinute = 600 }: Plan): SidecarPlace {
  const [{ check, documents }] = ports.sidecars as [StackPorts['sidecars'][number]]
  return {
    ...urls,
    name: 'embedded',
    check: `127.0.0.1:${check}`,
    http: `127.0.0.1:${documents}`,
    tls: undefined,
    challengesPerMinute,
    drainMs: 0,
  }
}

async function startGateway(plan: Plan, envoy: Envoy): Promise<Child[]> {
  const sidecars = await Promise.all(plan.ports.sidecars.map((_, index) => startSidecar(plan, index)))
  return [...sidecars, await startEnvoy(plan, envoy)]
}

async function makePlan(options: StackOptions, onStart: (child: Child) => void): Promise<Plan> {
  const { directory, tls, sidecars = 1, authorities = 1 } = options
  await mkdir(directory, { recursive: true, mode: 0o700 })
  const ports = await choosePorts({ sidecars, authorities, preferred: options.preferredPorts ?? {} })
  const origin = (port: number): string => (tls ? `https://localhost:${port}` : `http://127.0.0.1:${port}`)
  const urls = {
    issuer: options.door?.issuer ?? origin(ports.authorities[0].agents),
    ownerApi: options.door?.ownerApi ?? origin(ports.authorities[0].owner),
    authorities: ports.authorities.map(({ agents, owner }) => ({
      url: origin(agents),
      ownerApi: origin(owner),
    })),
    publicUrl: origin(options.envoy === undefined ? ports.tool : ports.envoy),
  }
  return {
    ...options,
    ports,
    urls,
    household: await writeHousehold(directory, urls),
    start: (name, command, environment) => {
      const logFile = join(directory, `${name}.log`)
      const child = startChild({ name, command, logFile, ...(environment && { environment }) })
      onStart(child)
      return child
    },
  }
}

/** What every party of ours is told by its environment, which holds nothing else. */
function sharedEnvironment({ tls }: Plan): Record<string, string> {
  return tls ? {} : { UMA_DEV_LOOPBACK: 'true' }
}

async function startAuthority(plan: Plan, index: number): Promise<Child> {
  const { tls, household, ports, urls } = plan
  const { agents, owner } = ports.authorities[index]!
  const child = plan.start(
    numbered('authority', index, ports.authorities),
    [process.execPath, CLI, 'authority'],
    {
      ...sharedEnvironment(plan),
      DATABASE_URL: plan.databaseUrl,
      UMA_AS_ISSUER: urls.issuer,
      UMA_AS_LISTEN: `127.0.0.1:${agents}`,
      UMA_AS_OWNER_LISTEN: `127.0.0.1:${owner}`,
      UMA_AS_METRICS_LISTEN: '127.0.0.1:0',
      // Nobody waits for it but whoever ends the stack.
      UMA_AS_DRAIN_MS: '0',
      UMA_AS_KEYS_FILE: household.authorityKeysFile,
      UMA_AS_PROVISION: household.provisionFile,
      UMA_AS_POLL_SECONDS: '1',
      ...(tls && {
        UMA_AS_TLS_CERT_FILE: tls.authority.certFile,
        UMA_AS_TLS_KEY_FILE: tls.authority.keyFile,
      }),
      ...plan.authorityEnvironment,
    },
  )
  await untilReady(child, async () => (await statusOf(`${urls.authorities[index]!.url}/health`)) === 200)
  return child
}

async function startSidecar(plan: Plan, index: number): Promise<Child> {
  const { tls, household, ports, urls } = plan
  const { check, documents } = ports.sidecars[index]!
  const name = numbered('sidecar', index, ports.sidecars)
  const file = await writeSidecarFile(household, {
    name,
    issuer: urls.issuer,
    // A door in front of them is where they are reached; without one, each by itself.
    authorityAddresses:
      plan.door || urls.authorities.length === 1 ? [] : urls.authorities.map(({ url }) => url),
    publicUrl: urls.publicUrl,
    ...(plan.checksByHttp === true
      ? { check: `unix:${join(plan.directory, `${name}.sock`)}`, checkHttp: `127.0.0.1:${check}` }
      : { check: `127.0.0.1:${check}` }),
    http: `127.0.0.1:${documents}`,
    tls: tls && { ...tls.sidecar, caFile: tls.caFile },
    challengesPerMinute: plan.challengesPerMinute ?? 600,
    // Where others go on, long enough for Envoy to hear of it; else nobody waits for it but whoever ends the
    // stack.
    drainMs: ports.sidecars.length > 1 ? 2_500 : 100,
    deadlineMarginMs: plan.deadlineMarginMs,
  })
  const child = plan.start(
    name,
    [process.execPath, CLI, 'sidecar', '--config', file],
    sharedEnvironment(plan),
  )
  await untilReady(child, async () => (await accepts(check)) && (await accepts(documents)))
  return child
}

async function startEnvoy(plan: Plan, envoy: Envoy): Promise<Child> {
  const { directory, ports, tls, urls } = plan
  const configFile = join(directory, 'envoy.yaml')
  const config = await envoyConfig(
    {
      envoy: ports.envoy,
      checks: ports.sidecars.map(({ check }) => check),
      documents: ports.sidecars.map(({ documents }) => documents),
      tool: ports.tool,
    },
    tls && { directory: tls.envoyDirectory, sidecarName: 'localhost' },
    { byHttp: plan.checksByHttp },
  )
  await writeFile(configFile, plan.changeEnvoy?.(config) ?? config)
  const command = envoy.command(configFile, directory)
  const child = plan.start('envoy', [
    ...command,
    '--concurrency',
    '1',
    '--disable-hot-restart',
    '--log-level',
    'warning',
  ])
  // A GET is refused by the sidecar, so its 405 says that checks are answered; 503 would say that they are
  // not yet.
  await untilReady(child, async () => (await statusOf(urls.publicUrl + RESOURCE_PATH)) === 405)
  return child
}

function numbered(name: string, index: number, all: unknown[]): string {
  return all.length === 1 ? name : `${name}-${index + 1}`
}

async function statusOf(url: string): Promise<number> {
  const response = await fetch(url, { signal: AbortSignal.timeout(2_000) })
  await response.body?.cancel()
  return response.status
}
