/**
 * Owns what a server does about the file of its Unix socket before it listens there. Contract: "Owner's
 * authorization server: public" (every listener is configured by one line).
 */
import { lstat, unlink } from 'node:fs/promises'

/**
 * Removes the socket file that a process left behind that was killed: the next one could not bind. Touches
 * nothing else.
 */
export async function removeStaleSocket(path: string): Promise<void> {
  const found = await lstat(path).catch(() => undefined)
  if (found?.isSocket()) await unlink(path)
}
