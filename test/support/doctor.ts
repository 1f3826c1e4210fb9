/** Owns `usher doctor` as its tests run it: a process with these variables and no others of ours. */
import { execFile } from 'node:child_process'
import { tmpdir } from 'node:os'
import { usherProgram } from './usher-program.ts'

const CLI = usherProgram()

/** Runs it. */
export function doctor(
  variables: Record<string, string>,
  options: readonly string[] = [],
): Promise<{ code: number; lines: string[]; err: string }> {
  return new Promise(resolve => {
    const env = { PATH: process.env['PATH'], HOME: tmpdir(), ...variables }
    const child = execFile(process.execPath, [CLI, 'doctor', ...options], { env }, (_error, out, err) =>
      resolve({ code: child.exitCode!, lines: out.trimEnd().split('\n'), err }),
    )
  })
}
