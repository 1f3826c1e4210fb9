/**
 * Owns the second opinion on the load generator: h2load, which knows nothing of us, sends the same checks to
 * the same servers. Every call it made of usher must be in the owner's ledger, for it does not read answers.
 */
import { execFile } from 'node:child_process'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { CHECK_PATH } from '../src/enforcement/doors/grpc/check-messages.ts'
import { standingCorpus } from './scenarios/standing.ts'
import type { System } from './system.ts'

/** Calls a second that h2load reached, by scenario. */
export interface CrossCheck {
  tool: string
  calls_per_second: Record<string, number>
}

export interface CrossCheckOptions {
  inFlight: number
  connections: number
  seconds: number
  /** What our generator reached, by scenario: as many calls as it makes in that time are made. */
  rates: Readonly<Record<string, number>>
  tell: (line: string) => void
}

const execute = promisify(execFile)

/**
 * Undefined if h2load is not installed. Throws if a call was not answered, or is missing in the ledger.
 */
export async function crossCheck(
  system: System,
  options: CrossCheckOptions,
): Promise<CrossCheck | undefined> {
  const program = process.env['H2LOAD_BIN'] ?? 'h2load'
  const version = await execute(program, ['--version']).catch(() => undefined)
  if (version === undefined) {
    options.tell(
      'h2load is not installed (Debian has it in nghttp2-client): the load generator is not cross-checked',
    )
    return undefined
  }
  const { noop, verify, sidecar } = system.world.ports
  const reached: Record<string, number> = {}
  for (const [name, port] of Object.entries({ noop, verify, standing: sidecar })) {
    const rate = options.rates[name]
    if (rate === undefined) continue
    const calls = Math.ceil(rate * options.seconds)
    reached[name] = await load(system, { ...options, program, port, calls })
    options.tell(`h2load ${name}: ${Math.round(reached[name])} a second`)
    if (name === 'standing') await system.untilRecorded(calls)
  }
  return { tool: version.stdout.trim(), calls_per_second: reached }
}

async function load(
  { world }: System,
  wanted: CrossCheckOptions & { program: string; port: number; calls: number },
): Promise<number> {
  const [check] = await standingCorpus(world).make(1)
  const { port } = wanted
  return h2load({
    ...wanted,
    url: `http://127.0.0.1:${port}${CHECK_PATH}`,
    headers: GRPC,
    body: framed(check!),
  })
}

/** What a gRPC call says of itself. */
export const GRPC = { 'content-type': 'application/grpc', te: 'trailers' }

/** One request, sent so often, by h2load. */
export interface Repeated {
  program: string
  url: string
  headers: Readonly<Record<string, string>>
  body: Buffer
  calls: number
  connections: number
  inFlight: number
  seconds: number
}

/** Calls a second. Throws if one of them was not answered by a status of 200. */
export async function h2load(wanted: Repeated): Promise<number> {
  const { program, url, headers, calls, connections, inFlight, seconds } = wanted
  const directory = await mkdtemp(join(tmpdir(), 'usher-h2load-'))
  try {
    const body = join(directory, 'body')
    await writeFile(body, wanted.body)
    const { stdout } = await execute(
      program,
      [
        `-n${calls}`,
        `-c${connections}`,
        `-m${Math.ceil(inFlight / connections)}`,
        `--data=${body}`,
        ...Object.entries(headers).map(([name, value]) => `--header=${name}: ${value}`),
        url,
      ],
      { timeout: (seconds + 30) * 1_000 },
    )
    return readRate(stdout, calls)
  } finally {
    await rm(directory, { recursive: true })
  }
}

/** A gRPC message: not compressed, and its length. */
export function framed(message: Buffer): Buffer {
  const prefix = Buffer.alloc(5)
  prefix.writeUInt32BE(message.length, 1)
  return Buffer.concat([prefix, message])
}

/** Calls a second of a run in which each call had a status of 200. Throws for another one. */
export function readRate(output: string, calls: number): number {
  const rate = /^finished in [^,]+, ([\d.]+) req\/s/m.exec(output)?.[1]
  const answered = /^status codes: (\d+) 2xx/m.exec(output)?.[1]
  if (rate === undefined || Number(answered) !== calls)
    throw new Error(`h2load made not each of its ${calls} calls:\n${output.slice(-1_000)}`)
  return Number(rate)
}
