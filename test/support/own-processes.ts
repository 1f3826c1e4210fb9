/**
 * Owns programs that see none of the machine's other processes, as in a container: a pid namespace of its own
 * for each.
 */
import { spawnSync } from 'node:child_process'
import type { Requirement } from './requirement.ts'

const NAMESPACE = ['unshare', '--pid', '--fork', '--kill-child', '--mount-proc']
/** A user who is not root first creates a user namespace, if the kernel allows it. */
const WAYS = [NAMESPACE, [...NAMESPACE, '--user', '--map-root-user']]

/** The words before a command that runs it so; killed from outside, the program ends with them. */
export const OWN_PROCESSES: Requirement<readonly string[]> = find()

function find(): Requirement<readonly string[]> {
  const found = WAYS.find(
    ([program = '', ...args]) => spawnSync(program, [...args, 'true'], { timeout: 20_000 }).status === 0,
  )
  if (found !== undefined) return { found }
  return {
    missing: 'Linux with `unshare` (Debian: util-linux) that may give a program its own pid namespace.',
  }
}
