/**
 * Owns the message if a listener cannot bind its address. Contract: "Owner's authorization server: public"
 * (every listener is configured by one line): the sentence names that line and what to do about it.
 */
import { formatListenAddress, type ListenAddress } from './listen-address.ts'

/** For a socket in a missing folder, the system reports the same as for one that it may not write. */
const DENIED =
  'this process may not listen there. Give a port above 1023, or a socket in a folder that is there and that it may write.'

const REMEDIES: ReadonlyMap<string, string> = new Map([
  [
    'EADDRINUSE',
    'another process listens there. End it (is this started twice?), or give another address here.',
  ],
  ['EACCES', DENIED],
  ['EPERM', DENIED],
  ['ENOENT', DENIED],
  ['EADDRNOTAVAIL', 'this machine has no such address. Give one of its own, such as 127.0.0.1 or 0.0.0.0.'],
  ['ENOTFOUND', 'no such host is known. Give an IP address of this machine, such as 127.0.0.1.'],
  ['EAI_AGAIN', 'the name of the host cannot be looked up. Give an IP address of this machine.'],
  ['EINVAL', 'the path of a socket may be at most 107 bytes long. Give a shorter one.'],
])

/**
 * Runs `listen`, which begins to listen. @param setting the name of the line with the address, for example
 * `UMA_AS_LISTEN`. @throws Error naming the setting, the address, the code of the system and the remedy.
 */
export async function listenAs<T>(
  setting: string,
  address: ListenAddress,
  begin: () => Promise<T>,
): Promise<T> {
  try {
    return await begin()
  } catch (cause) {
    const { code } = cause as NodeJS.ErrnoException
    const remedy = REMEDIES.get(code ?? '')
    if (code === undefined || remedy === undefined) throw cause
    const place = formatListenAddress(address)
    throw new Error(`${setting}: cannot listen at ${place} (${code}): ${remedy}`, { cause })
  }
}
