/**
 * Owns the official conformance suite (`@modelcontextprotocol/conformance`, pinned) as tests run it: its
 * command line in a process of its own, and the checks of each scenario, read from the files that it writes.
 */
import { spawn } from 'node:child_process'
import { mkdtemp, readdir, readFile, rm } from 'node:fs/promises'
import { createServer, request as send } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { ROOT } from './repository.ts'

const PACKAGE = join(ROOT, 'node_modules', '@modelcontextprotocol', 'conformance')

/** One thing that the suite looked at. */
export interface Check {
  id: string
  status: 'SUCCESS' | 'FAILURE' | 'WARNING' | 'INFO' | 'SKIPPED'
  errorMessage?: string
}

/** What the suite found, by scenario. */
export type Results = ReadonlyMap<string, readonly Check[]>

/** Every scenario for servers, against the server at `url`, one after the other. */
export function serverResults(url: string): Promise<Results> {
  return resultsOf(['server', '--url', url, '--suite', 'all'])
}

/** One scenario for clients: the suite starts `command` with the address of its server behind it. */
export async function clientResult(
  scenario: string,
  command: string,
  environment: Record<string, string>,
): Promise<readonly Check[]> {
  const results = await resultsOf(['client', '--command', command, '--scenario', scenario], environment)
  return results.get(scenario) ?? []
}

/** The checks that are not as the suite wants them: it counts warnings as failures, too. */
export function badChecks(checks: readonly Check[]): string[] {
  return checks
    .filter(({ status }) => status === 'FAILURE' || status === 'WARNING')
    .map(({ id, status, errorMessage = '' }) => `${status} ${id}: ${errorMessage}`)
}

async function resultsOf(args: string[], environment: Record<string, string> = {}): Promise<Results> {
  const folder = await mkdtemp(join(tmpdir(), 'usher-conformance-'))
  try {
    const child = spawn(process.execPath, [join(PACKAGE, 'dist', 'index.js'), ...args, '-o', folder], {
      env: { PATH: process.env['PATH'], HOME: folder, ...environment },
      stdio: ['ignore', 'ignore', 'pipe'],
    })
    let told = ''
    child.stderr.on('data', chunk => (told += String(chunk)))
    await new Promise<void>(resolve => child.once('close', () => resolve()))
    const results = await readResults(folder)
    if (results.size === 0) throw new Error(`the suite wrote no results: ${told.slice(0, 2000)}`)
    return results
  } finally {
    await rm(folder, { recursive: true, force: true })
  }
}

/** Folders are called `server-<scenario>-<time>`, without `server-` for clients. */
async function readResults(folder: string): Promise<Results> {
  const results = new Map<string, Check[]>()
  for (const path of await readdir(folder, { recursive: true })) {
    const scenario = /^(?:server-(?=.*-\d{4}-))?(.+)-\d{4}-\d\d-\d\dT[\d-]+Z\/checks\.json$/.exec(path)?.[1]
    if (scenario === undefined) continue
    results.set(scenario, JSON.parse(await readFile(join(folder, path), 'utf8')) as Check[])
  }
  return results
}

/** Something that listens. */
export interface Listening {
  url: string
  close: () => Promise<void>
}

/**
 * Passes each request to `target` with the secret that a client of the bridge has in its configuration: the
 * suite has no option for header fields. Everything else, `Host` and `Origin` too, goes as it came.
 */
export async function withSecret(target: URL, secret: string): Promise<Listening> {
  const server = createServer((request, response) => {
    const { method = 'GET', headers, url: path = '/' } = request
    const on = send(
      {
        host: target.hostname,
        port: target.port,
        method,
        path: path === '/' ? target.pathname : path,
        headers: { ...headers, authorization: `Bearer ${secret}` },
      },
      answer => {
        response.writeHead(answer.statusCode ?? 502, answer.headers)
        response.flushHeaders()
        answer.pipe(response)
      },
    )
    on.on('error', () => response.destroy())
    response.on('close', () => on.destroy())
    request.pipe(on)
  })
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/`,
    close: async () => {
      server.closeAllConnections()
      await new Promise(resolve => server.close(resolve))
    },
  }
}
