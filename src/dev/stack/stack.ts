/**
 * Owns a whole local stack: authority, sidecar, Envoy and tool server. Contract: "Parties": each but the
 * sample tool server is a process of its own, started as it would be in the world. The demo and the
 * end-to-end tests start the same one.
 */
import { mkdir, readFile, writeFile } from 'node:fs/promises'
import { extname, join } from 'node:path'
import { embed } from '../../enforcement/doors/embedded/index.ts'
import { startChild, untilReady, type Child } from './child-process.ts'
import type { Envoy } from './envoy-binary.ts'
import { envoyConfig } from './envoy-config.ts'
import {
  authorityEnvironment,
  RESOURCE_PATH,
  writeHousehold,
  writeSidecarFile,
  type Household,
  type SidecarPlace,
} from './household.ts'
import { placeJoint, type JointOptions, type JointPlace, type PlacedServer } from './joint-place.ts'
import { placeOrganization, type OrganizationOptions, type OrganizationPlace } from './organization-place.ts'
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

/** What is behind a balancer of the caller. */
export type DoorTargets = Pick<Stack, 'authorities' | 'organization'>

export interface StackOptions {
  /** Where files and logs go. */
  directory: string
  /** An empty database. */
  databaseUrl: string
  /**
   * The gateway in front of the tool server, with the sidecars; if left out, the tool server enforces by
   * itself, over plain http.
   */
  envoy?: Envoy | undefined
  /** TLS throughout, under a DNS name; if left out, plain http on literal loopback with UMA_DEV_LOOPBACK. */
  tls?: StackTls | undefined
  /** Envoy asks by HTTP, not by gRPC. */
  checksByHttp?: boolean | undefined
  /** How many sidecars share the checks; 1 if left out. */
  sidecars?: number | undefined
  /** How many replicas of the authority share the database. 1 when left out. */
  authorities?: number | undefined
  /**
   * Where everybody reaches them, for example a balancer of the caller; at the first of them if left out.
   * `open` is called when they answer and before a sidecar starts, so that the sidecar's first requests are
   * answered.
   */
  door?: { issuer: string; ownerApi: string; open(started: DoorTargets): void } | undefined
  challengesPerMinute?: number | undefined
  /** How long before Envoy's deadline a sidecar ends its waits; its default when left out. */
  deadlineMarginMs?: number | undefined
  /** Further settings of the authority, by variable. */
  authorityEnvironment?: Record<string, string> | undefined
  /** Changes the YAML of Envoy's configuration before it is used. */
  changeEnvoy?: ((yaml: string) => string) | undefined
  /** The same of each sidecar's file. */
  changeSidecar?: ((yaml: string, household: Household) => Promise<string>) | undefined
  preferredPorts?: PreferredPorts | undefined
  /** The organization above her, over plain http; none if left out. */
  organization?: OrganizationOptions | undefined
  /** What she holds with others, at a tally, over plain http; nothing if left out. */
  joint?: JointOptions | undefined
  /** In place of the sample tool server. */
  toolServer?: typeof startToolServer | undefined
  /** The file of the command line whose commands the parties are; if left out, this program's own. */
  program?: string | undefined
}

export interface Stack {
  directory: string
  /** Undefined for one that was not started here. */
  databaseUrl?: string | undefined
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
  /** None when left out. */
  organization?: OrganizationPlace | undefined
  joint?: JointPlace | undefined
  toolServer: ToolServer
  /** Whether http on loopback is admitted. */
  devLoopback: boolean
  children: Child[]
  /** Ends one replica by SIGTERM, in its own time, starts it anew, and waits until it answers. */
  restart(what: Replicated, index: number): Promise<void>
  stop(): Promise<void>
}

/** The parts of a stack that may have replicas. */
type Replicated = 'authority' | 'sidecar' | 'organization'

const CLI = join(import.meta.dirname, '..', '..', `cli${extname(import.meta.filename)}`)

/** What every part of the stack is told. */
interface Plan extends Omit<StackOptions, 'organization' | 'joint'> {
  organization: OrganizationPlace | undefined
  joint: JointPlace | undefined
  ports: StackPorts
  urls: Pick<Stack, 'issuer' | 'ownerApi' | 'publicUrl' | 'authorities'>
  household: Household
  start(name: string, command: string[], environment?: Record<string, string>): Child
}

/**
 * Starts everything and waits until it answers. If a part does not start, everything that was started is
 * stopped again.
 */
export async function startStack(options: StackOptions): Promise<Stack> {
  const started: { stop(): Promise<void> }[] = []
  const stop = async (): Promise<void> => {
    // The last one started is stopped first, so that nothing asks a stopped part.
    for (const one of started.splice(0).reverse()) await one.stop()
  }
  try {
    const plan = await makePlan(options, child => void started.push(child))
    const [organizations, servers, authorities] = await Promise.all([
      Promise.all((plan.organization?.replicas ?? []).map((_, index) => startOrganization(plan, index))),
      Promise.all((plan.joint?.servers ?? []).map(server => startServer(plan, server))),
      Promise.all(plan.ports.authorities.map((_, index) => startAuthority(plan, index))),
    ])
    options.door?.open({ authorities: plan.urls.authorities, organization: plan.organization })
    const toolServer = await startTools(plan, started)
    const gateway = plan.envoy === undefined ? [] : await startGateway(plan, plan.envoy)
    const { directory, household, urls } = plan
    const restart: Stack['restart'] = async (what, index) => {
      // In front of the gateway, the sidecars come first.
      const [replicas, start] = {
        authority: [authorities, startAuthority] as const,
        organization: [organizations, startOrganization] as const,
        sidecar: [gateway, startSidecar] as const,
      }[what]
      await replicas[index]!.stop()
      replicas[index] = await start(plan, index)
    }
    return {
      ...urls,
      directory,
      databaseUrl: plan.databaseUrl,
      household,
      toolServer,
      checkPorts: plan.ports.sidecars.map(({ check }) => check),
      documentPorts: plan.ports.sidecars.map(({ documents }) => documents),
      resource: urls.publicUrl + RESOURCE_PATH,
      devLoopback: plan.tls === undefined,
      organization: plan.organization,
      joint: plan.joint,
      children: [...organizations, ...servers, ...authorities, ...gateway],
      restart,
      stop,
    }
  } catch (error) {
    await stop()
    throw error
  }
}

/** The tool server; if there is no gateway in front of it, it enforces by itself. */
async function startTools(plan: Plan, started: { stop(): Promise<void> }[]): Promise<ToolServer> {
  if (plan.envoy !== undefined) {
    const behind = await (plan.toolServer ?? startToolServer)(plan.ports.tool)
    // Stopped last, so that nothing in front of it is left without it.
    started.unshift(behind)
    return behind
  }
  const file = await writeSidecarFile(plan.household, embeddedPlace(plan))
  const changed = await plan.changeSidecar?.(await readFile(file, 'utf8'), plan.household)
  if (changed !== undefined) await writeFile(file, changed)
  const point = await embed(file, {
    environment: { ...sharedEnvironment(plan), UMA_PEP_LOG_LEVEL: 'error' },
  })
  started.push({ stop: () => point.close() })
  const start = plan.toolServer ?? startToolServer
  const toolServer = await start(plan.ports.tool, handler => point.protect(handler))
  started.push(toolServer)
  return toolServer
}

/** The same file as for a sidecar: its listen addresses have no effect inside a resource. */
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
  const household = await writeHousehold(directory, urls)
  const resource = urls.publicUrl + RESOURCE_PATH
  return {
    ...options,
    ports,
    urls,
    household,
    organization:
      options.organization &&
      (await placeOrganization(directory, options.organization, { issuer: urls.issuer, resource })),
    joint: options.joint && (await placeJoint(directory, options.joint, { ...urls, household })),
    start: (name, command, environment) => {
      const logFile = join(directory, `${name}.log`)
      const child = startChild({ name, command, logFile, ...(environment && { environment }) })
      onStart(child)
      return child
    },
  }
}

/** The environment of each of our parties, which contains nothing else. */
function sharedEnvironment({ tls }: Plan): Record<string, string> {
  return tls ? {} : { UMA_DEV_LOOPBACK: 'true' }
}

async function startAuthority(plan: Plan, index: number): Promise<Child> {
  const { tls, household, ports, urls } = plan
  const { agents, owner } = ports.authorities[index]!
  return startServer(plan, {
    name: numbered('authority', index, ports.authorities),
    command: 'authority',
    url: urls.authorities[index]!.url,
    environment: {
      ...authorityEnvironment({
        issuer: urls.issuer,
        listen: `127.0.0.1:${agents}`,
        ownerListen: `127.0.0.1:${owner}`,
        databaseUrl: plan.databaseUrl,
        keysFile: household.authorityKeysFile,
        provisionFile: household.provisionFile,
      }),
      UMA_AS_NOTIFICATION_KEY_FILE: household.notificationKeyFile,
      ...(tls && {
        UMA_AS_TLS_CERT_FILE: tls.authority.certFile,
        UMA_AS_TLS_KEY_FILE: tls.authority.keyFile,
      }),
      ...(plan.organization && {
        UMA_AS_ORGANIZATIONS: plan.organization.issuer,
        UMA_AS_IDENTITY_ISSUERS: plan.organization.identityProvider.issuer,
      }),
      ...(plan.joint && { UMA_AS_TALLIES: plan.joint.tally }),
      ...plan.authorityEnvironment,
    },
  })
}

async function startOrganization(plan: Plan, index: number): Promise<Child> {
  const place = plan.organization!
  const { replicas } = place
  return startServer(plan, {
    name: numbered('organization', index, replicas),
    command: 'organization',
    url: replicas[index]!.url,
    environment: place.environment(index),
  })
}

/** Starts one that serves its health, and waits until it is well. */
async function startServer(plan: Plan, { name, command, url, environment }: PlacedServer): Promise<Child> {
  const child = plan.start(name, [process.execPath, plan.program ?? CLI, command], {
    ...sharedEnvironment(plan),
    ...environment,
  })
  await untilReady(child, async () => (await statusOf(`${url}/health`)) === 200)
  return child
}

async function startSidecar(plan: Plan, index: number): Promise<Child> {
  const { tls, household, ports, urls } = plan
  const { check, documents } = ports.sidecars[index]!
  const name = numbered('sidecar', index, ports.sidecars)
  const file = await writeSidecarFile(household, {
    name,
    issuer: urls.issuer,
    // They are reached at the balancer in front of them; without one, each at its own address.
    authorityAddresses:
      plan.door || urls.authorities.length === 1 ? [] : urls.authorities.map(({ url }) => url),
    publicUrl: urls.publicUrl,
    ...(plan.checksByHttp === true
      ? { check: `unix:${join(plan.directory, `${name}.sock`)}`, checkHttp: `127.0.0.1:${check}` }
      : { check: `127.0.0.1:${check}` }),
    http: `127.0.0.1:${documents}`,
    tls: tls && { ...tls.sidecar, caFile: tls.caFile },
    challengesPerMinute: plan.challengesPerMinute ?? 600,
    // If others go on, long enough for Envoy to notice; otherwise only the end of the stack waits for it.
    drainMs: ports.sidecars.length > 1 ? 2_500 : 100,
    deadlineMarginMs: plan.deadlineMarginMs,
    organization: plan.organization?.route,
    others: plan.joint && [plan.joint.route],
  })
  const changed = await plan.changeSidecar?.(await readFile(file, 'utf8'), household)
  if (changed !== undefined) await writeFile(file, changed)
  const child = plan.start(
    name,
    [process.execPath, plan.program ?? CLI, 'sidecar', '--config', file],
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
  // A GET is refused by the sidecar (405, or 401 where its file opens GET), so that says that checks are
  // answered; 503 would say that they are not yet.
  await untilReady(child, async () => [401, 405].includes(await statusOf(urls.publicUrl + RESOURCE_PATH)))
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
