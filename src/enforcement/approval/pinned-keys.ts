/**
 * Owns the owner's keys that this enforcement point is configured with, as their file lists them at each
 * call. Contract: "Authorized call", order 4; docs/choices.md: they are never fetched from her authority.
 */
import { readFile } from 'node:fs/promises'
import type { Logger } from '../../http/telemetry/log.ts'
import { NO_PINNED_KEYS, parsePinnedKeys, type PinnedKeys } from '../../wire/signatures/pinned-keys.ts'

export interface PinnedKeysFile {
  /** The keys as the file is now; none while it cannot be read, which is logged once. */
  current(): Promise<PinnedKeys>
}

/**
 * Reads nothing yet. Each check costs one small read, which is affordable because decisions of a person are
 * rare.
 */
export function openPinnedKeys(
  path: string,
  { logger }: { logger: Pick<Logger, 'error' | 'warn'> },
): PinnedKeysFile {
  let snapshot: { bytes: Buffer; keys: PinnedKeys } | undefined
  let lastFault: string | undefined
  return {
    current: async () => {
      try {
        const bytes = await readFile(path)
        if (snapshot?.bytes.equals(bytes) !== true) {
          snapshot = { bytes, keys: parsePinnedKeys(bytes) }
          if (snapshot.keys.served.length > 0)
            logger.warn({ keys_file: path, keys: snapshot.keys.served }, SERVED_KEYS_ARE_PINNED)
        }
        lastFault = undefined
        return snapshot.keys
      } catch (error) {
        const why = error instanceof Error ? error.message : String(error)
        if (lastFault !== why)
          logger.error({ keys_file: path, why }, 'no key of the owner is taken: mend the file')
        lastFault = why
        snapshot = undefined
        return NO_PINNED_KEYS
      }
    },
  }
}

const SERVED_KEYS_ARE_PINNED =
  'a key is pinned that pages of the authority can use: it proves nothing against an authority that was stolen'
