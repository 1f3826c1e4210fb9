/**
 * Owns what the sidecar's file says about tools that require her signature. Contract: "Authorized call",
 * order 4; docs/choices.md: whose keys count is configured, never taken from her authority.
 */
import { NO_PINNED_KEYS, parsePinnedKeys, type PinnedKeys } from '../../wire/signatures/pinned-keys.ts'
import { checkDirectory, readFile } from '../files.ts'
import { ConfigFault } from '../settings.ts'
import type { SidecarFileOwner, SidecarTool } from './sidecar-file.ts'

type Approving = Pick<SidecarFileOwner, 'tools'> & { owner: string }

/** Tries the files and folders that the tools of an owner name; each throws `ConfigFault`. */
export function approvalReaders({ owner, tools }: Approving, make: boolean): (() => unknown)[] {
  return approvals({ owner, tools }).flatMap(({ at, keys_file, state_dir }) => [
    () => readPinnedKeys(`${at}.keys_file`, keys_file),
    () => checkDirectory(`${at}.state_dir`, state_dir, { make }),
  ])
}

/** Warnings, which do not stop the start: pinned keys that the authority's own pages can use. */
export function approvalWarnings(owner: Approving): string[] {
  return approvals(owner).flatMap(({ at, keys_file }) =>
    servedIn(keys_file).map(
      thumbprint =>
        `${at}.keys_file: the key ${thumbprint} was made in a page that the authority serves, and proves nothing against ` +
        'an authority that was stolen. Pin one of `usher owner key export` that was made on her own machine.',
    ),
  )
}

function approvals({
  owner,
  tools,
}: Approving): (NonNullable<SidecarTool['owner_approval']> & { at: string })[] {
  return tools.flatMap(({ tool, owner_approval }) =>
    owner_approval === undefined ? [] : [{ at: `owner_approval of ${owner}/${tool}`, ...owner_approval }],
  )
}

function servedIn(path: string): readonly string[] {
  try {
    return readPinnedKeys('', path).served
  } catch (error) {
    if (error instanceof ConfigFault) return NO_PINNED_KEYS.served
    throw error
  }
}

function readPinnedKeys(name: string, path: string): PinnedKeys {
  const bytes = readFile(name, path)
  try {
    return parsePinnedKeys(bytes)
  } catch (error) {
    throw new ConfigFault([
      `${name}: ${path} cannot be used: ${(error as Error).message} (\`usher owner key export\` writes one that can.)`,
    ])
  }
}
