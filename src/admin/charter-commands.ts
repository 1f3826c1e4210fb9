/**
 * Owns the subcommands of `usher admin` about the charter and its groups. Contract: "The organization's
 * authority": each change publishes the next version, and is refused if another was published meanwhile.
 */
import { Option, type Command } from 'commander'
import { readAll } from '../client/exchange.ts'
import { readObjectFile } from '../client/object-file.ts'
import { wholeNumber } from '../client/program.ts'
import { UsageError } from '../terminal/command.ts'
import { printable, printableJson, printableTime, record, table } from '../terminal/printable.ts'
import { DELEGATIONS } from '../wire/organization/charter.ts'
import { isJsonObject } from '../wire/json.ts'
import type { CharterVersion, Groups, PublishedCharter } from './client.ts'
import { tell, type AdminAction, type AdminSession } from './session.ts'

/** Adds `charter show|versions|put`. */
export function addCharterCommands(program: Command, action: AdminAction): void {
  const charter = program.command('charter').description('what the organization claims, and on which terms')
  charter
    .command('show', { isDefault: true })
    .option('--version <number>', 'an earlier version', wholeNumber)
    .description('the charter in force')
    .action(
      action(async (session, { version }: { version?: number }) =>
        tell(session, await session.client.charter(version), charterText),
      ),
    )
  charter
    .command('versions')
    .description('every version that was published')
    .action(
      action(async session => tell(session, await readAll(session.client.charterVersions()), versionTable)),
    )
  charter
    .command('put')
    .argument(
      '<file>',
      'a charter as JSON, or all that `charter show --json` prints; `-` reads standard input',
    )
    .option(
      '--base-version <number>',
      'the version that you changed; the file says it otherwise',
      wholeNumber,
    )
    .description('publish another charter; refused if another was published since the version you changed')
    .action(action(putCharter))
}

/** Adds `groups list|set|remove|default`. */
export function addGroupCommands(program: Command, action: AdminAction): void {
  const groups = program.command('groups').description('what is shared with whom')
  groups
    .command('list', { isDefault: true })
    .description('every group, and who is in it')
    .action(action(async session => tell(session, await session.client.groups(), groupTable)))
  groups
    .command('set')
    .argument('<id>', 'the group')
    .requiredOption('--name <name>', 'its name for people')
    .option('--grant <pattern...>', 'resources that are shared with it, within the claims', [])
    .addOption(
      new Option('--delegation <kind>', 'which agents its members may let in')
        .choices(DELEGATIONS)
        .makeOptionMandatory(),
    )
    .description('make a group, or replace what it says')
    .action(
      action(async (session, id: string, options: { name: string; grant: string[]; delegation: string }) => {
        const { version } = await session.client.groups()
        const { name, grant: grants, delegation } = options
        const body = { name, grants, delegation, base_version: version }
        published(session, await session.client.ask({ method: 'PUT', path: roleOf(id), body }))
      }),
    )
  groups
    .command('remove')
    .argument('<id>', 'a group that nobody is in, and that is not the default one')
    .description('delete a group')
    .action(
      action(async (session, id: string) => {
        const { version } = await session.client.groups()
        const headers = { 'if-match': `"${version}"` }
        published(session, await session.client.ask({ method: 'DELETE', path: roleOf(id), headers }))
      }),
    )
  groups
    .command('default')
    .argument('[id]', 'the group of new members; without it nothing is shared with them')
    .option('--none', 'share nothing with new members')
    .description('choose the group of new members')
    .action(
      action(async (session, id: string | undefined, { none }: { none?: true }) => {
        if ((id === undefined) === (none === undefined))
          throw new UsageError('Name one group, or give --none.')
        const { version } = await session.client.groups()
        const body = { role: id ?? null, base_version: version }
        published(session, await session.client.ask({ method: 'POST', path: '/admin/roles/default', body }))
      }),
    )
}

function roleOf(id: string): string {
  return `/admin/roles/${encodeURIComponent(id)}`
}

async function putCharter(
  session: AdminSession,
  file: string,
  { baseVersion }: { baseVersion?: number },
): Promise<void> {
  const contents = await readObjectFile(file, 'a charter')
  const { charter = contents, version } = contents
  if (!isJsonObject(charter)) throw new UsageError(`Give a charter as a JSON object: ${file} holds none.`)
  const base_version = baseVersion ?? version
  if (typeof base_version !== 'number')
    throw new UsageError('Say which version you changed: --base-version <number> (0 if there is none).')
  const body = { charter, base_version }
  published(session, await session.client.ask({ method: 'PUT', path: '/admin/charter', body }))
}

/** The answer to a change of the charter, of a group or of a member. */
export function published(session: AdminSession, answer: object): void {
  tell(
    session,
    answer as Pick<CharterVersion, 'version'>,
    ({ version }) => `Version ${version} is in force.\n`,
  )
}

function charterText({ version, published_at, by, s256, charter }: PublishedCharter): string {
  const head = record({ version, published: printableTime(published_at), by, s256 })
  return `${head}\n${printableJson(charter)}\n`
}

function versionTable(versions: CharterVersion[], columns?: number): string {
  const rows = versions.map(one => [one.version, printableTime(one.published_at), one.by, one.s256])
  return table(['version', 'published', 'by', 's256'], rows, columns)
}

function groupTable({ roles, default_role, members }: Groups, columns?: number): string {
  const rows = Object.entries(roles).map(([id, { name, grants, delegation }]) => [
    id,
    name,
    grants,
    delegation,
    members[id] ?? [],
  ])
  const joiners =
    default_role === null
      ? 'New members are in no group: nothing is shared with them.\n'
      : `New members join the group ${printable(default_role)}.\n`
  if (rows.length === 0) return joiners
  return table(['group', 'name', 'shares', 'delegation', 'members'], rows, columns) + joiners
}
