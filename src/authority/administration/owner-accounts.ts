/**
 * What the operator of the authority does about owners: adds them, suspends and resumes access, removes them.
 * It reads no ledger, decides nothing and edits no policy. Contract: "Parties" (owner's authorization
 * server), "Grant (RPT) liveness".
 */
import { randomBytes } from 'node:crypto'
import { prepareFolder, writePiecesDurably } from '../../files/durable-file.ts'
import { inTransaction } from '../../storage/core/database.ts'
import { readArchive } from '../../storage/authority/owners/archive.ts'
import type { Db, Pools, Tx } from '../../storage/authority/database.ts'
import { appendLedger } from '../../storage/authority/ledger/ledger.ts'
import {
  readOwnerLife,
  resumeOwner,
  suspendOwner,
  type OwnerLife,
} from '../../storage/authority/owners/owner-lives.ts'
import { insertOwner, NameConflict } from '../../storage/authority/owners/owners.ts'
import {
  beginRemoval,
  isExported,
  noteExported,
  openDeleting,
} from '../../storage/authority/owners/removals.ts'
import type { Actor } from '../../wire/owner/actor.ts'
import { encodeBase64url } from '../../wire/encoding.ts'
import type { Owner } from '../../wire/identifiers.ts'
import { refuse } from '../../wire/refusal.ts'

const ROUTING_TAG_BYTES = 9
const LINES_PER_PAGE = 500

/** The refusal of a name that is not known here. */
export function unknownOwner(owner: Owner): never {
  return refuse('not_found', `This authority serves no owner ${owner}.`)
}

/** An owner as operators see her. Refuses 404 if no owner of this name was ever served. */
export async function showOwner(db: Db, owner: Owner): Promise<OwnerLife> {
  return (await readOwnerLife(db, owner)) ?? unknownOwner(owner)
}

/** A routing tag: it does not say whose it is. */
export function newTag(): string {
  return encodeBase64url(randomBytes(ROUTING_TAG_BYTES))
}

/**
 * Makes an owner, with nothing but her name. Refuses 409 if the name is or was an owner's, or is a namespace.
 */
export async function addOwner(tx: Tx, owner: Owner): Promise<OwnerLife> {
  try {
    if (!(await insertOwner(tx, { owner, tag: newTag() })))
      refuse('conflict', `${owner} is served here already.`)
  } catch (error) {
    if (error instanceof NameConflict) refuse('conflict', error.message)
    throw error
  }
  return showOwner(tx, owner)
}

/** Suspends or resumes. Refuses 404 if she is not served, 409 if she is in that state already. */
export async function setSuspended(
  tx: Tx,
  owner: Owner,
  { suspended, actor }: { suspended: boolean; actor: Actor },
): Promise<OwnerLife> {
  const changed = await (suspended ? suspendOwner(tx, owner) : resumeOwner(tx, owner))
  if (changed === undefined) unknownOwner(owner)
  if (!changed) refuse('conflict', `${owner} is ${suspended ? 'suspended already' : 'not suspended'}.`)
  await appendLedger(tx, owner, {
    kind: suspended ? 'suspended' : 'resumed',
    data: { by: 'authority', actor },
  })
  return showOwner(tx, owner)
}

/** The result of a removal. */
export interface Removed {
  owner: string
  /** The file with everything that was hers; null if an earlier attempt wrote it. */
  archive: string | null
  /** Rows that went. */
  rows: number
}

/** A removal whose first step is done: nothing of hers is granted or consumed any more. */
export interface Removal {
  /** Writes her archive and deletes what was hers. May be called once. */
  finish(): Promise<Removed>
}

/**
 * Begins to remove an owner, or continues a removal that was begun. `spend` is run in the transaction that
 * ends her access. Refuses 404 if nobody has the name; 409 if she has been removed, if another caller is
 * removing her, if the login may not delete, and if no archive can be written; in that case her access
 * continues.
 */
export async function removeOwner(
  { ofNobody: db, url }: Pick<Pools, 'ofNobody' | 'url'>,
  { owner, actor, archives }: { owner: Owner; actor: Actor; archives: string },
  spend: (tx: Tx) => Promise<void> = async () => undefined,
): Promise<Removal> {
  const deleting = await openDeleting(url, owner)
  if (deleting === 'busy') return refuse('conflict', `${owner} is being removed by somebody else now.`)
  if (deleting === 'unprivileged')
    return refuse(
      'conflict',
      'The log-in of DATABASE_URL may not delete receipts: run `usher authority owner remove` with the log-in that migrates.',
    )
  try {
    await prepareArchives(archives, owner)
    await inTransaction(db, async tx => {
      await spend(tx)
      const begun = await beginRemoval(tx, owner, actor)
      if (begun === undefined) unknownOwner(owner)
      if (begun === 'removed') refuse('conflict', `${owner} was removed already.`)
    })
  } catch (error) {
    await deleting.close()
    throw error
  }
  return {
    finish: async () => {
      try {
        const archive = (await isExported(db, owner)) ? null : await writeArchive(db, owner, archives)
        if (archive !== null) await noteExported(db, owner)
        return { owner, archive, rows: await deleting.deleteRows() }
      } finally {
        await deleting.close()
      }
    },
  }
}

/** Her access continues if her archive cannot be written. Files that a killed removal left are deleted. */
async function prepareArchives(folder: string, owner: Owner): Promise<void> {
  const names = new RegExp(`^${owner.replaceAll('.', '[.]')}-\\d{8}T\\d{9}Z[.]ndjson$`)
  await prepareFolder(folder, names).catch((cause: unknown) => {
    const { code = 'unknown fault' } = cause as NodeJS.ErrnoException
    refuse(
      'conflict',
      `Make ${folder} a folder that this process may write to (${code}): no archive can be.`,
      {
        cause,
      },
    )
  })
}

async function writeArchive(db: Db, owner: Owner, folder: string): Promise<string> {
  const name = `${owner}-${new Date().toISOString().replaceAll(/[:.]/g, '')}.ndjson`
  await writePiecesDurably(folder, name, archiveText(db, owner))
  return `${folder.replace(/\/$/, '')}/${name}`
}

/** One JSON object on each line: `part` and `row`. */
async function* archiveText(db: Db, owner: Owner): AsyncGenerator<string> {
  let after: string | undefined
  do {
    const page = await readArchive(db, owner, { after, limit: LINES_PER_PAGE })
    if (page === undefined) throw new Error('a page of the archive named no other')
    yield page.lines.map(line => `${JSON.stringify(line)}\n`).join('')
    after = page.next ?? undefined
  } while (after !== undefined)
}
