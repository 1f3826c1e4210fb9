/**
 * `usher authority audit`: what happened, for a security system that reads it in place of the log. The
 * operator's command line reads it from the authority's database. Contract: "Events".
 */
import type { OwnersConfig } from '../../config.ts'
import { readManifest } from '../../files/package.ts'
import type { Db } from '../../storage/authority/database.ts'
import { listOwnerLives, readOwnerLife, type OwnerLife } from '../../storage/authority/owners/owner-lives.ts'
import {
  readTrail,
  TRAIL_LISTS,
  type TrailEntry,
  type TrailList,
} from '../../storage/authority/ledger/security-trail.ts'
import { UsageError, type Terminal } from '../../terminal/command.ts'
import { printableLine } from '../../terminal/printable.ts'
import { asOwner } from '../../wire/identifiers.ts'
import { ORDINARY_ENTRIES } from '../security-log.ts'
import { cefLine, type AuditEvent } from './cef.ts'
import { atEachDatabase, atOwner } from './cells.ts'

export interface AuditOptions {
  since: Date
  /** Now, if left out. */
  until?: Date
  /** The owner whose events are printed; those of all owners, if left out. */
  owner?: string
  /** `json` if left out. */
  format?: 'json' | 'cef'
}

const OWNERS_PER_PAGE = 500
const ENTRIES_PER_PAGE = 500
/** That she was removed is told by the record of it, because her ledger went with her. */
const WITHOUT = [...ORDINARY_ENTRIES, 'removed']

/** Prints one line for each event, owner by owner. */
export async function printAudit(
  config: OwnersConfig,
  { since, until = new Date(), owner, format = 'json' }: AuditOptions,
  terminal: Terminal,
): Promise<void> {
  const { version } = readManifest()
  const print = async (event: AuditEvent): Promise<void> => {
    terminal.out(`${format === 'cef' ? cefLine(event, version) : printableLine(event)}\n`)
    await terminal.ready?.()
  }
  const auditAll = async (db: Db, lives: readonly OwnerLife[]): Promise<void> => {
    for (const life of lives)
      for await (const event of eventsOf(db, life, { since, until })) await print(event)
  }
  if (owner !== undefined)
    return atOwner(config, asOwner(owner), async ({ database: { db } }) => {
      const life = await readOwnerLife(db, asOwner(owner))
      if (life === undefined)
        throw new UsageError(`No owner ${owner} was ever served here: see usher authority owner list.`)
      await auditAll(db, [life])
    })
  await atEachDatabase(config, async ({ database: { db }, placed }) => {
    for (let after: string | undefined; ;) {
      const page = await listOwnerLives(db, { after, limit: OWNERS_PER_PAGE })
      // An owner who is being moved is in two cells.
      await auditAll(db, await placed(page, life => life.owner))
      after = page.at(-1)?.owner
      if (page.length < OWNERS_PER_PAGE) return
    }
  })
}

interface Period {
  since: Date
  until: Date
}

async function* eventsOf(
  db: Db,
  { owner, removed_at }: OwnerLife,
  { since, until }: Period,
): AsyncGenerator<AuditEvent> {
  for (const list of TRAIL_LISTS) {
    for (let after = 0; ;) {
      const page = { since, until, without: WITHOUT, after, limit: ENTRIES_PER_PAGE }
      const entries = await readTrail(db, owner, list, page)
      for (const entry of entries) yield auditEvent(owner, list, entry)
      after = entries.at(-1)?.seq ?? after
      if (entries.length < ENTRIES_PER_PAGE) break
    }
  }
  const removed = removed_at === null ? NaN : Date.parse(removed_at)
  if (removed >= since.getTime() && removed < until.getTime())
    yield { id: `${owner}/removed`, at: new Date(removed).toISOString(), event: 'removed', owner }
}

function auditEvent(
  owner: string,
  list: TrailList,
  { seq, at, event, handle, family, jti, count }: TrailEntry,
): AuditEvent {
  return {
    id: `${owner}/${list}/${seq}`,
    at: new Date(at).toISOString(),
    event,
    owner,
    seq,
    ...(handle !== null && { handle }),
    ...(family !== null && { family }),
    ...(jti !== null && { jti }),
    ...(count > 1 && { count }),
  }
}
