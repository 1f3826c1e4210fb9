/** Owns what is known of processes by their parents, and signals to a program that is several of them. */
import { readdirSync, readFileSync } from 'node:fs'
import { until } from './until.ts'

/** Sends the signal to a process and its children that are the same program, the first first. */
export function signalFamily(parent: number, word: NodeJS.Signals): void {
  for (const pid of familyOf(parent))
    try {
      process.kill(pid, word)
    } catch {
      // It ended by itself.
    }
}

/**
 * Kills a process and its children that are the same program, and settles once none of them runs. A Postgres
 * refuses to start over the data of one whose last backend is still ending.
 */
export async function killFamily(parent: number): Promise<void> {
  // Held still, it has no child that this list lacks.
  process.kill(parent, 'SIGSTOP')
  const family = familyOf(parent)
  for (const pid of family)
    try {
      process.kill(pid, 'SIGKILL')
    } catch {
      // It ended by itself.
    }
  await until(() => family.every(hasEnded))
}

/** Whether it is gone, or waits only for its parent to read how it ended. */
export function hasEnded(pid: number): boolean {
  const stat = statOf(pid)
  return stat === '' || stat.slice(stat.lastIndexOf(')')).split(' ')[1] === 'Z'
}

/** A process and its children that are the same program, the first first. */
function familyOf(parent: number): number[] {
  const programOf = (stat: string): string => /\((.*)\)/.exec(stat)?.[1] ?? ''
  const own = programOf(statOf(parent))
  return [parent, ...childrenOf(parent).filter(pid => programOf(statOf(pid)) === own)]
}

/** Its children, whatever programs they are. */
export function childrenOf(parent: number): number[] {
  return readdirSync('/proc')
    .filter(name => /^\d+$/.test(name))
    .map(Number)
    .filter(pid => {
      const stat = statOf(pid)
      return stat.slice(stat.lastIndexOf(')')).split(' ')[2] === String(parent)
    })
}

function statOf(pid: number): string {
  try {
    return readFileSync(`/proc/${pid}/stat`, 'utf8')
  } catch {
    return ''
  }
}
