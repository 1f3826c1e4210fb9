/**
 * Owns the subcommands of `usher admin` about members and invited people. Contract: "The organization's
 * authority" (group management, clearances, invitations, activity).
 */
import type { Command } from 'commander'
import { readAll } from '../client/exchange.ts'
import { wholeNumber } from '../client/program.ts'
import { UsageError } from '../terminal/command.ts'
import { printable, printableTime, printableValue, table } from '../terminal/printable.ts'
import { published } from './charter-commands.ts'
import type { Activity, EmergencyWindow, PendingInvitation, MemberSummary } from './client.ts'
import { tell, type AdminAction, type AdminSession } from './session.ts'

/** Adds `members list|move|remove` and `clearance`. */
export function addMemberCommands(program: Command, action: AdminAction): void {
  const members = program.command('members').description('who joined, and which group each is in')
  members
    .command('list', { isDefault: true })
    .description('every member, and what her authority reported last')
    .action(action(async session => tell(session, await readAll(session.client.members()), memberTable)))
  members
    .command('move')
    .argument('<owner>', 'the member')
    .argument('[group]', 'the group that she comes into')
    .option('--none', 'take her out of every group: nothing is shared with her')
    .description('move one member into another group')
    .action(
      action(async (session, owner: string, group: string | undefined, { none }: { none?: true }) => {
        if ((group === undefined) === (none === undefined))
          throw new UsageError('Name one group, or give --none.')
        const body = { role: group ?? null }
        const path = `${memberOf(owner)}/role`
        published(session, await session.client.ask({ method: 'POST', path, body }))
      }),
    )
  members
    .command('remove')
    .argument('<owner>', 'the member')
    .description('end a membership: what the organization shares with her ends now')
    .action(
      action(async (session, owner: string) => {
        const answer = await session.client.ask({ method: 'DELETE', path: memberOf(owner) })
        tell(session, answer, ({ removed }) => `${printableValue(removed)} is a member no more.\n`)
      }),
    )
  program
    .command('clearance')
    .argument('<owner>', 'the member')
    .argument('[facts...]', 'the attested facts, each as name=value; they replace the former ones')
    .option('--withdraw', 'attest nothing of her any more')
    .description('attest facts of a member, which her terms may ask for')
    .action(action(attest))
}

/** Adds `break-glass`, `windows` and `close-window`. */
export function addBreakGlass(program: Command, action: AdminAction): void {
  program
    .command('break-glass')
    .argument('<owner>', 'the member whose resources are needed')
    .requiredOption('--reason <text>', 'what the emergency is; she reads it')
    .option(
      '--window <seconds>',
      'how long the voucher may be redeemed (default 300, at most 3600)',
      wholeNumber,
    )
    .description(
      'open an emergency window at a member, who is notified; prints the voucher for one call, once',
    )
    .action(
      action(async (session, owner: string, { reason, window }: { reason: string; window?: number }) => {
        const body = { owner, reason, window_s: window }
        const opened = await session.client.ask({ method: 'POST', path: '/admin/break-glass', body })
        const notice = `For one call at ${printable(owner)}, within ${printableValue(opened['expires_in'])} s. She is notified now, and of its use.\n`
        if (!session.json) session.terminal.err(notice)
        tell(session, opened, ({ voucher }) => `${printableValue(voucher)}\n`)
      }),
    )
  program
    .command('windows')
    .description('emergency windows that can still be redeemed, without their vouchers')
    .action(action(async session => tell(session, await readAll(session.client.windows()), windowTable)))
  program
    .command('close-window')
    .argument('<window_id>', 'the window, as `windows` names it')
    .description('close an emergency window: its voucher is dead')
    .action(
      action(async (session, id: string) => {
        const path = `/admin/break-glass/${encodeURIComponent(id)}`
        const answer = await session.client.ask({ method: 'DELETE', path })
        tell(session, answer, ({ closed }) => `${printableValue(closed)} is closed.\n`)
      }),
    )
}

/** Adds `invite`, `invites`, `uninvite`, `join-code` and `activity`. */
export function addInvitationCommands(program: Command, action: AdminAction): void {
  program
    .command('invite')
    .argument('<owner>', 'the name by which her authority knows her')
    .requiredOption('--authority <issuer>', 'the authority that serves her')
    .option('--note <text>', 'what she reads beside it')
    .description('invite one person; prints the code that she joins with, once')
    .action(action(invite))
  program
    .command('invites')
    .description('invitations that wait, without their codes')
    .action(
      action(async session => tell(session, await readAll(session.client.invitations()), invitationTable)),
    )
  program
    .command('uninvite')
    .argument('<code_id>', 'the invitation, as `invites` names it')
    .description('withdraw an invitation: its code is dead')
    .action(
      action(async (session, id: string) => {
        const path = `/admin/invites/${encodeURIComponent(id)}`
        const answer = await session.client.ask({ method: 'DELETE', path })
        tell(session, answer, ({ withdrawn }) => `${printableValue(withdrawn)} is withdrawn.\n`)
      }),
    )
  program
    .command('join-code')
    .description('make a code that anybody of a listed authority may join with; the one before is dead')
    .action(
      action(async session => {
        const made = await session.client.ask({ method: 'POST', path: '/admin/join-code/rotate' })
        tell(session, made, ({ code }) => `${printableValue(code)}\n`)
      }),
    )
  program
    .command('activity')
    .option('--after <seq>', 'only entries after this number', wholeNumber)
    .option('--limit <number>', 'maximum number of entries', wholeNumber)
    .description('what administrators and members did, oldest first')
    .action(
      action(async (session, query: { after?: number; limit?: number }) =>
        tell(session, await readAll(session.client.activity(query)), activityTable),
      ),
    )
}

/** The path of a member. */
export function memberOf(owner: string): string {
  return `/admin/members/${encodeURIComponent(owner)}`
}

async function attest(
  session: AdminSession,
  owner: string,
  facts: string[],
  { withdraw }: { withdraw?: true },
): Promise<void> {
  if ((facts.length === 0) === (withdraw === undefined))
    throw new UsageError('Give the facts, each as name=value, or --withdraw.')
  const pairs = facts.map(fact => {
    const at = fact.indexOf('=')
    if (at < 1) throw new UsageError(`Give each fact as name=value, not ${fact}.`)
    return [fact.slice(0, at), fact.slice(at + 1)] as const
  })
  const clearance = Object.fromEntries(pairs)
  if (Object.keys(clearance).length < pairs.length) throw new UsageError('Give each fact once.')
  const path = `${memberOf(owner)}/clearance`
  published(session, await session.client.ask({ method: 'PUT', path, body: { clearance } }))
}

async function invite(
  session: AdminSession,
  owner: string,
  { authority, note }: { authority: string; note?: string },
): Promise<void> {
  const body = { owner, as_uri: authority, ...(note === undefined ? {} : { note }) }
  const made = await session.client.ask({ method: 'POST', path: '/admin/invites', body })
  tell(session, made, ({ code, expires_at }) => {
    session.terminal.err(
      `For ${printable(owner)} alone, once, until ${printableTime(expires_at)}. She reads what it binds her to by: usher owner organization preview <code>\n`,
    )
    return `${printableValue(code)}\n`
  })
}

function memberTable(members: MemberSummary[], columns?: number): string {
  if (members.length === 0) return 'Nobody has joined.\n'
  const rows = members.map(one => [
    one.owner,
    one.role ?? 'none',
    one.as_uri,
    printableTime(one.joined),
    one.agreed_version,
    Object.entries(one.clearance).map(([name, value]) => `${name}=${value}`),
    printableTime(one.compliance?.['reported_at']),
    printableNotices(one),
  ])
  const heads = ['owner', 'group', 'authority', 'joined', 'agreed to', 'clearance', 'reported', 'notices']
  return table(heads, rows, columns)
}

/** The notices that her server has not received: those that wait, and those that it did not accept. */
function printableNotices({ notices_waiting, notices_stopped }: MemberSummary): string {
  const waiting = notices_waiting === 0 ? [] : [`${notices_waiting} waiting`]
  const stopped = notices_stopped.length === 0 ? [] : [`${notices_stopped.length} not taken`]
  return [...waiting, ...stopped].join(', ')
}

function invitationTable(invitations: PendingInvitation[], columns?: number): string {
  if (invitations.length === 0) return 'No invitation waits.\n'
  const rows = invitations.map(one => [
    one.code_id,
    one.owner,
    one.as_uri,
    printableTime(one.expires_at),
    one.note,
  ])
  return table(['code_id', 'owner', 'authority', 'expires', 'note'], rows, columns)
}

function windowTable(windows: EmergencyWindow[], columns?: number): string {
  if (windows.length === 0) return 'No window is open.\n'
  const rows = windows.map(one => [
    one.window_id,
    one.owner,
    one.by,
    printableTime(one.expires_at),
    one.redeeming ? 'yes' : 'no',
    one.reason,
  ])
  return table(['window_id', 'member', 'opened by', 'expires', 'redeeming', 'reason'], rows, columns)
}

function activityTable(entries: Activity[], columns?: number): string {
  if (entries.length === 0) return 'Nothing was done.\n'
  const rows = entries.map(one => [
    one.seq,
    printableTime(one.ts),
    one.kind,
    one.admin ?? '-',
    one.owner ?? '-',
    one.data,
  ])
  return table(['seq', 'when', 'what', 'administrator', 'member', 'data'], rows, columns)
}
