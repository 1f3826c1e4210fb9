/**
 * Owns a whole stack for a test: the one that the demo starts (src/dev/stack/stack.ts), on its own database
 * and free ports. If a part does not start, the error contains its last lines.
 */
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { startStack as startParts, type Stack, type StackOptions } from '../../src/dev/stack/stack.ts'
import { openScene, type Scene } from '../../src/dev/story/scene.ts'
import { freshDatabase } from './postgres.ts'
import { usherProgram } from './usher-program.ts'

interface TestStackOptions extends Omit<StackOptions, 'directory' | 'databaseUrl'> {
  directory?: string
  /** The way to the database, in place of the straight one. */
  reachDatabase?: (url: string) => Promise<string>
}

/** Starts it; `stop` ends its processes, drops its database and deletes its files. */
export async function startStack(options: TestStackOptions): Promise<Stack> {
  const database = await freshDatabase({ poolMax: 1 })
  const directory = options.directory ?? (await mkdtemp(join(tmpdir(), 'usher-stack-')))
  const clear = async (): Promise<void> => {
    await database.close()
    await rm(directory, { recursive: true, force: true })
  }
  try {
    const databaseUrl = (await options.reachDatabase?.(database.url)) ?? database.url
    const stack = await startParts({ program: usherProgram(), ...options, directory, databaseUrl })
    return {
      ...stack,
      stop: async () => {
        await stack.stop()
        await clear()
      },
    }
  } catch (error) {
    await clear()
    throw error
  }
}

/** The scene of a stack of its own, with which `close` stops that. */
export async function startScene(options: TestStackOptions): Promise<Scene> {
  const stack = await startStack(options)
  try {
    const scene = await openScene(stack)
    const close = async (): Promise<void> => {
      await scene.close()
      await stack.stop()
    }
    return { ...scene, close }
  } catch (error) {
    await stack.stop()
    throw error
  }
}
