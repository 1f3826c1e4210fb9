/**
 * Owns `usher owner` as its tests run it: in this process, with a device key and settings of its own, against
 * a scripted owner API.
 */
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, vi } from 'vitest'
import { runOwner } from '../../src/owner/main.ts'
import { writeNewKey } from '../../src/terminal/key-file.ts'
import { runCaptured, type CommandRun } from './captured-terminal.ts'
import { startScriptedServer, type Reply, type ScriptedServer } from './scripted-http.ts'
import { startScriptedOwnerApi, type ScriptedOwnerApi } from './scripted-owner-api.ts'
import { nowIn } from './started.ts'

export const OWNER_ISSUER = 'https://as.example.com'

export interface OwnerCommand {
  api: ScriptedOwnerApi
  /** What the API answers, by path; empty before each test. */
  answers: Record<string, Reply>
  /** `OWNER_ISSUER`, or where keys are published. */
  issuer: () => string
  /** Where its files are. */
  directory: () => string
  /** Runs `usher owner` with these arguments. */
  owner: (...args: string[]) => Promise<CommandRun>
  /** The same, on a terminal so many characters wide. */
  ownerAt: (columns: number, ...args: string[]) => Promise<CommandRun>
}

/**
 * Registers the hooks that give each test an API, a key and the settings that lead to both. If it `publishes`
 * keys, the issuer is a separate server that serves them, metadata that names the API, and what is answered.
 */
export function ownerCommand(publishes?: () => unknown): OwnerCommand {
  const answers: Record<string, Reply> = {}
  const holder: { current?: ScriptedOwnerApi } = {}
  let directory = ''
  let publisher: ScriptedServer | undefined
  const issuer = (): string => publisher?.origin ?? OWNER_ISSUER
  beforeEach(async () => {
    directory = await mkdtemp(join(tmpdir(), 'usher-owner-'))
    for (const path of Object.keys(answers)) delete answers[path]
    if (publishes !== undefined)
      publisher = await startScriptedServer(({ path }) =>
        path === '/jwks'
          ? { body: publishes() }
          : path === '/.well-known/uma2-configuration'
            ? { body: { issuer: issuer(), owner_endpoint: `${holder.current?.origin}/owner` } }
            : answers[path],
      )
    const key = await writeNewKey(join(directory, 'key.json'))
    holder.current = await startScriptedOwnerApi(
      { issuer: issuer(), key },
      received => answers[received.path],
    )
    vi.stubEnv('UMA_OWNER_API', holder.current.origin)
    vi.stubEnv('UMA_OWNER_ISSUER', issuer())
    vi.stubEnv('UMA_OWNER_KEY', join(directory, 'key.json'))
  })
  afterEach(async () => {
    vi.unstubAllEnvs()
    await holder.current?.close()
    await publisher?.close()
    await rm(directory, { recursive: true })
  })
  return {
    api: nowIn(holder),
    answers,
    issuer,
    directory: () => directory,
    owner: async (...args) => run(args),
    ownerAt: async (columns, ...args) => run(args, columns),
  }
}

const run = (args: string[], columns?: number): Promise<CommandRun> =>
  runCaptured(terminal => runOwner(args, terminal), columns)
