/**
 * `usher authority owner …`: adds and removes owners while the authority runs, from the operator's command
 * line, on the authority's database. Contract: "Parties" (owner's authorization server), "Authentication".
 */
import { readAuthorityConfig, readOwnersConfig } from '../../config.ts'
import { inTransaction } from '../../storage/core/database.ts'
import { releaseAllIn } from '../../storage/authority/owners/cell-directory.ts'
import type { Db } from '../../storage/authority/database.ts'
import { listOwnerLives, readOwnerLife, type OwnerLife } from '../../storage/authority/owners/owner-lives.ts'
import { EXIT, Exit, processTerminal, UsageError, type Terminal } from '../../terminal/command.ts'
import { printable, printableTime, table } from '../../terminal/printable.ts'
import { asOwner, type Owner } from '../../wire/identifiers.ts'
import type { StillWaiting } from '../../wire/owner/owner-api.ts'
import { HOME_CELL, NAME_PATTERN } from '../../wire/names.ts'
import { runAndAwaitLeases } from '../protection/lease-wait.ts'
import { atDatabase, atEachDatabase, atOwner, moveTo } from './cells.ts'
import { addOwner, removeOwner, setSuspended, showOwner, type Removed } from './owner-accounts.ts'
import { endAfterRestore } from './after-restore.ts'
import { printAudit, type AuditOptions } from './audit.ts'
import { planOf } from './plan.ts'
import { issueCode } from './recovery.ts'

interface OutputOptions {
  json?: boolean
}

const BY_COMMAND = { kind: 'authority' } as const
const OWNERS_PER_PAGE = 500

/** `usher authority owner add <owner>`. */
export async function runAddOwner(name: string, options: OutputOptions): Promise<void> {
  const life = await atDatabase(readOwnersConfig(), HOME_CELL, ({ database: { db } }) =>
    inTransaction(db, tx => addOwner(tx, named(name))),
  )
  tell(life, options, one => `${one.owner} is served here. Next: usher authority owner enrol ${one.owner}\n`)
}

/** `usher authority owner list`. */
export async function runListOwners(options: OutputOptions): Promise<void> {
  const all = await atEachDatabase(readOwnersConfig(), ({ database: { db } }) => allLives(db))
  // An owner who is being moved is in two cells.
  const byName = new Map(all.flat().map(one => [one.owner, one]))
  const lives = [...byName.values()].sort((one, other) => (one.owner < other.owner ? -1 : 1))
  tell(lives, options, (all, columns) =>
    all.length === 0
      ? 'No owner is served here.\n'
      : table(
          ['owner', 'state', 'since', 'credential'],
          all.map(one => [one.owner, one.state, printableTime(one.created_at), credentialOf(one)]),
          columns,
        ),
  )
}

async function allLives(db: Db): Promise<OwnerLife[]> {
  const all: OwnerLife[] = []
  for (;;) {
    const page = await listOwnerLives(db, { after: all.at(-1)?.owner, limit: OWNERS_PER_PAGE })
    all.push(...page)
    if (page.length < OWNERS_PER_PAGE) return all
  }
}

/** `usher authority owner show <owner>`. */
export async function runShowOwner(name: string, options: OutputOptions): Promise<void> {
  tell(
    await atOwner(readOwnersConfig(), named(name), ({ database: { db } }) => showOwner(db, named(name))),
    options,
    lines,
  )
}

/** `usher authority owner suspend|resume <owner>`. */
export async function runSuspendOwner(
  name: string,
  options: OutputOptions,
  suspended: boolean,
): Promise<void> {
  const life = await runAndAwaitLeases(() =>
    atOwner(readOwnersConfig(), named(name), ({ database: { db } }) =>
      inTransaction(db, tx => setSuspended(tx, named(name), { suspended, actor: BY_COMMAND })),
    ),
  )
  tell(life, options, one =>
    suspended
      ? `No agent reaches the resources of ${one.owner} any more, and every grant has ended. To undo it: usher authority owner resume ${one.owner}\n${leasesSentence(one)}`
      : `Agents that ${one.owner} lets in may ask for new grants.\n`,
  )
}

/**
 * `usher authority owner enrol <owner>`, also as `usher authority enrol --owner <owner>`: prints a one-time
 * code.
 */
export async function runEnrolOwner(
  name: string,
  { recover = false, json }: OutputOptions & { recover?: boolean },
): Promise<void> {
  const settings = readOwnersConfig()
  const issued = await atOwner(settings, named(name), ({ database: { db }, config }) => {
    const { enrolmentSeconds, recoverySeconds, ownerAuth, oidcIssuer } = config
    const acceptance = {
      deviceKeys: ownerAuth.includes('device-key'),
      issuer: ownerAuth.includes('oidc') ? oidcIssuer : undefined,
    }
    const enrolling = { enrolmentSeconds, recoverySeconds, accepted: acceptance }
    const enrolment = { owner: named(name), recover, actor: BY_COMMAND }
    return inTransaction(db, tx => issueCode(tx, enrolling, enrolment))
  })
  const { owner, code, in_force_at, expires_at } = issued
  if (json === true) return processTerminal.out(`${JSON.stringify(issued)}\n`)
  const from = in_force_at === undefined ? '' : `from ${in_force_at}, unless she ends it, `
  // A client keeps the issuer that stands behind its code.
  const at = settings.issuer === undefined ? '' : `@${settings.issuer}`
  processTerminal.err(
    `For ${owner} alone, once, ${from}until ${expires_at}. She runs: usher owner enrol --code <code>${at}\n`,
  )
  processTerminal.out(`${code}\n`)
}

/** `usher authority owner remove <owner>`: her access ends, her archive is written, her rows go. */
export async function runRemoveOwner(
  name: string,
  options: OutputOptions & { archives?: string },
): Promise<void> {
  const removed = await atOwner(readOwnersConfig(), named(name), async ({ database, config, directory }) => {
    const archives = options.archives ?? config.archives
    if (archives === undefined)
      throw new UsageError('Say where her archive goes: give --archives, or set UMA_AS_ARCHIVES.')
    const removing = runAndAwaitLeases(() =>
      removeOwner(database, { owner: named(name), actor: BY_COMMAND, archives }),
    )
    const removal = await removing.catch(async (error: unknown) => {
      // A run before this one was killed before it told the directory.
      if (directory !== undefined && (await isRemoved(database.db, named(name))))
        await releaseAllIn(directory.db, named(name))
      throw error
    })
    processTerminal.err(`The access of ${name} has ended; her archive is being written.\n`)
    const done = await removal.finish()
    const { leases } = removal
    if (directory !== undefined) await releaseAllIn(directory.db, named(name))
    return leases === undefined ? done : { ...done, leases }
  })
  tell<Removed & LeaseWaitMember>(removed, options, one => {
    const where = one.archive === null ? '' : ` Her data is in ${one.archive}.`
    return `${one.owner} is removed (${one.rows} rows), and her name is never given again.${where}\n${leasesSentence(one)}`
  })
}

type LeaseWaitMember = Pick<StillWaiting, 'leases'>

/** For whom an act waited; empty if for nobody. */
function leasesSentence({ leases }: LeaseWaitMember): string {
  if (leases === undefined) return ''
  const { holders, acknowledged, waited_ms, silent = [] } = leases
  const unanswered = silent.length === 0 ? '' : `; no answer came from those of ${silent.join(', ')}`
  return `Sidecars that let go of her grants in ${waited_ms} ms: ${acknowledged} of ${holders}${unanswered}.\n`
}

const isRemoved = async (db: Db, owner: Owner): Promise<boolean> =>
  (await readOwnerLife(db, owner))?.state === 'removed'

/**
 * `usher authority plan`: what a start would do with the provisioning file, and what it would leave as it is.
 */
export async function runPlan(options: OutputOptions): Promise<void> {
  const { owners } = readAuthorityConfig()
  const all = await atEachDatabase(readOwnersConfig(), async ({ database: { db }, placed }) =>
    planOf(db, await placed(owners, ({ owner }) => owner)),
  )
  const planned = all.flat()
  tell(planned, options, (all, columns) =>
    all.length === 0
      ? 'The provisioning file changes nothing, and nothing differs from it.\n'
      : table(
          ['plan', 'owner', 'kind', 'item', 'because'],
          all.map(one => [PLANNED[one.plan], one.owner, one.kind, one.item, one.because ?? '']),
          columns,
        ),
  )
  if (planned.some(({ plan }) => plan === 'refused')) throw new Exit(EXIT.refused)
}

/** `usher authority after-restore --at <time>`: after its database was restored as of that time. */
export async function runAfterRestore({
  at,
  cell,
  ...options
}: OutputOptions & { at: string; cell?: string }): Promise<void> {
  const restoredTo = readTime(at)
  const config = readOwnersConfig()
  if (cell === undefined && config.cells !== undefined)
    throw new UsageError('Say which cell was restored: give --cell, `home` for that of DATABASE_URL.')
  const ended = await atDatabase(config, cell ?? HOME_CELL, ({ database: { db } }) =>
    endAfterRestore(db, restoredTo),
  )
  tell(
    ended,
    options,
    ({ owners, connections }) =>
      `Every grant has ended, with ${connections} connections of ${owners} owners; each agent is a first contact again. Each owner reads in her ledger that what she decided after ${restoredTo.toISOString()} is lost.\n`,
  )
}

/** `usher authority audit --since <time>`. */
export function runAudit(options: AuditOptions): Promise<void> {
  return printAudit(readOwnersConfig(), options, processTerminal)
}

function readTime(text: string): Date {
  const time = new Date(text)
  const [, year, month, day] = /^(\d{4})-(\d{2})-(\d{2})T.*(?:Z|[+-]\d{2}:\d{2})$/.exec(text) ?? []
  // What is read of the 30th of February is a day of March.
  const isDay = Number(day) <= new Date(Date.UTC(Number(year), Number(month), 0)).getUTCDate()
  if (!isDay || Number.isNaN(time.getTime()))
    throw new UsageError('Give --at as a time with its zone, such as 2026-11-23T20:15:00Z.')
  if (time.getTime() > Date.now())
    throw new UsageError('--at is in the future: give the time that the backup is of.')
  return time
}

const PLANNED = {
  made: 'make',
  changed: 'change',
  skipped: 'skip',
  differs: 'leave',
  refused: 'refuse',
} as const

/** `usher authority owner move <owner> --to <cell>`. */
export async function runMoveOwner(
  name: string,
  { to, ...options }: OutputOptions & { to: string },
): Promise<void> {
  const moved = await moveTo(readOwnersConfig(), { owner: named(name), to }, line =>
    processTerminal.err(`${line}\n`),
  )
  tell(moved, options, one =>
    one.from === one.to
      ? `${one.owner} is in ${one.to}; what was left of a move is gone.\n`
      : `${one.owner} is in ${one.to} now (${one.rows} rows). Her requests were answered 503 for ${one.down_ms} ms.\n`,
  )
}

function named(name: string): Owner {
  if (!NAME_PATTERN.test(name))
    throw new UsageError(
      'Name an owner by 1 to 64 letters, digits, ".", "_" or "-", beginning with a letter or digit.',
    )
  return asOwner(name)
}

function tell<T>(
  value: T,
  { json }: OutputOptions,
  words: (value: T, columns?: number) => string,
  terminal: Terminal = processTerminal,
): void {
  terminal.out(json === true ? `${JSON.stringify(value)}\n` : words(value, terminal.columns))
}

function credentialOf({ enrolled, recovery_at }: OwnerLife): string {
  if (recovery_at !== null) return `recovery at ${printableTime(recovery_at)}`
  return enrolled ? 'enrolled' : 'none'
}

function lines(one: OwnerLife): string {
  const rows = [
    ['owner', one.owner],
    ['state', one.state],
    ['since', printableTime(one.created_at)],
    ...(one.suspended_at === null ? [] : [['suspended', printableTime(one.suspended_at)]]),
    ...(one.removed_at === null ? [] : [['removed', printableTime(one.removed_at)]]),
    ['credential', credentialOf(one)],
  ]
  return rows.map(([name, value]) => `${name!.padEnd(12)}${printable(value!)}\n`).join('')
}
