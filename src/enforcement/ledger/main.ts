/**
 * Owns what `usher sidecar heads` reads: the heads of ledgers that a sidecar received. It sends no request.
 * docs/choices.md, "Heads that others keep". Contract: "Events" (row 5).
 */
import { readSidecarConfig } from '../../config.ts'
import { readHeads } from './head-stores.ts'
import type { HeadRecord } from './heads.ts'

export interface HeadsQuery {
  /** The file of the sidecar; if it is left out, the one that `UMA_PEP_CONFIG` names. */
  config?: string | undefined
  /** Left out, the heads of all owners are read. */
  owner?: string | undefined
}

/**
 * The heads of the last seven days, oldest first. @throws Error if the sidecar keeps them in its own memory,
 * where no other process finds them.
 */
export function headsOfSidecar({ config, owner }: HeadsQuery): HeadRecord[] {
  const { state_dir } = readSidecarConfig(config).reports
  if (state_dir === undefined)
    throw new Error(
      'The sidecar keeps heads in its own memory, because reports.state_dir is not set. Set it to a directory.',
    )
  return readHeads(state_dir, Date.now()).filter(one => owner === undefined || one.owner === owner)
}
