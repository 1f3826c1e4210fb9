/**
 * What an operator reads who got one thing wrong: contract, "What the service does" and "Limits" (a fault
 * stops the start). Each row is a process of its own: it ends with a status other than 0 within two seconds
 * of its own time, names the setting, says the remedy, and shows no stack.
 */
import { spawn } from 'node:child_process'
import { join } from 'node:path'
import type { Readable } from 'node:stream'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { closeBed, folder, openBed, taken } from './bed.ts'
import { WRONG_FILES } from './wrong-files.ts'
import { WRONG_SETTINGS, type Case } from './wrong-settings.ts'
import { rowsOfLayer } from '../support/layer.ts'
import { usherProgram } from '../support/usher-program.ts'

const CLI = usherProgram()
const OWN_TIME = join(import.meta.dirname, 'own-time.mjs')
const OWN_MS_MAX = 2_000
const CASES = [...WRONG_SETTINGS, ...WRONG_FILES]

beforeAll(openBed)
afterAll(closeBed)

interface Ended {
  code: number | null
  said: string
  /** Milliseconds of the process itself. */
  ownMs: number
}

function run({ args, environment }: Case): Promise<Ended> {
  const env = { PATH: process.env['PATH'] ?? '', HOME: folder, ...environment() }
  const given = args.map(argument => (argument === 'TAKEN' ? taken.address : argument))
  const child = spawn(process.execPath, ['--import', OWN_TIME, CLI, ...given], {
    env,
    stdio: ['ignore', 'pipe', 'pipe', 'pipe'],
  })
  let [said, told] = ['', '']
  child.stdout!.on('data', chunk => (said += String(chunk)))
  child.stderr!.on('data', chunk => (said += String(chunk)))
  ;(child.stdio[3] as Readable).on('data', chunk => (told += String(chunk)))
  return new Promise(resolve =>
    child.on('close', code => {
      const { computed, waited } = JSON.parse(told) as { computed: number; waited: number }
      resolve({ code, said, ownMs: computed + waited })
    }),
  )
}

describe('A start with one thing wrong', () => {
  it('is tried in at least forty ways', () => expect(CASES.length).toBeGreaterThanOrEqual(40))

  // Each is a process of its own.
  const tried = rowsOfLayer(CASES, one => CASES.indexOf(one) % 3 === 0)
  it.each(tried)('where $name: ends soon, and says which setting and what to do', async one => {
    const { code, said, ownMs } = await run(one)
    expect(code, said).not.toBe(0)
    expect(said).toMatch(one.setting)
    expect(said).toMatch(one.remedy)
    expect(said).not.toMatch(/\n\s+at .*:\d+:\d+/)
    expect(ownMs).toBeLessThan(OWN_MS_MAX)
  })
})
