/**
 * Owns what a server does about the file of its Unix socket before it listens there. Contract: "Owner's
 * authorization server: public" (every listener is configured by one line).
 */
import { lstat, unlink } from 'node:fs/promises'
import { connect } from 'node:net'

/**
 * Removes the socket file that a killed process left behind, because otherwise the next one could not bind. A
 * socket at which somebody listens is left alone, so that a second process fails to bind instead of taking
 * the first one's callers.
 */
export async function removeStaleSocket(path: string): Promise<void> {
  const found = await lstat(path).catch(() => undefined)
  if (found?.isSocket() && !(await isListenedAt(path))) await unlink(path)
}

/** Anything but a refused connection does not tell whether somebody is there. */
function isListenedAt(path: string): Promise<boolean> {
  return new Promise(resolve => {
    const socket = connect(path)
    const tell = (listens: boolean): void => {
      socket.destroy()
      resolve(listens)
    }
    socket.once('connect', () => tell(true))
    socket.once('error', error => tell((error as NodeJS.ErrnoException).code !== 'ECONNREFUSED'))
  })
}
