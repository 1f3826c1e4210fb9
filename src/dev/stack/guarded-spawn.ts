/**
 * Ensures that nothing that we started outlives us, even if we are killed: an interrupted demo or test run
 * must not leave servers behind. Contract: "Parties".
 */
import { spawn, type ChildProcess, type StdioOptions } from 'node:child_process'
import type { Writable } from 'node:stream'

export interface GuardedOptions {
  /** The signal that the program gets when we are gone. */
  signal: 'INT' | 'TERM'
  /** Deleted then, after the program has ended. */
  removeDirectory?: string
  stdout: number | 'ignore'
  stderr: number | 'pipe'
  /** The whole environment; left out, this process's own. */
  environment?: Record<string, string> | undefined
  account?: { uid: number; gid: number } | undefined
  cwd?: string
}

/**
 * The program replaces the shell, so that it has the process id and the exit status that we see. A second
 * process reads a pipe of ours: a line says that the program has ended by itself, and the end of the pipe
 * says that we have ended.
 */
const SHELL = `
signal=$1; directory=$2; shift 2
( read -r _ && exit
  kill -s "$signal" $$
  if [ -n "$directory" ]; then
    while kill -0 $$; do sleep 0.1; done
    rm -rf "$directory"
  fi
) <&3 >/dev/null 2>&1 &
exec "$@" 3<&-`
const PIPE = 3

/** Starts a program that ends when this process does. */
export function spawnGuarded(command: string[], options: GuardedOptions): ChildProcess {
  const { signal, removeDirectory = '', stdout, stderr, environment, account, cwd } = options
  const stdio: StdioOptions = ['ignore', stdout, stderr, 'pipe']
  const child = spawn('/bin/sh', ['-c', SHELL, 'sh', signal, removeDirectory, ...command], {
    stdio,
    ...account,
    ...(environment === undefined ? {} : { env: environment }),
    ...(cwd === undefined ? {} : { cwd }),
  })
  const pipe = child.stdio[PIPE] as Writable
  // The guard may end first when we end.
  pipe.on('error', () => undefined)
  child.once('exit', () => pipe.end('ended\n'))
  return child
}
