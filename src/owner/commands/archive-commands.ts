/**
 * Owns `usher owner export` and `usher owner recovery`: everything that the authority has about her, and
 * whether somebody is about to enrol a credential for her. Contract: "Owner API", "Authentication".
 */
import { basename, dirname } from 'node:path'
import type { Command } from 'commander'
import { writePiecesDurably } from '../../files/durable-file.ts'
import { printableTime } from '../../terminal/printable.ts'
import { tell, type OwnerAction, type OwnerSession } from '../session.ts'
import type { Recovery } from '../../wire/owner/owner-api.ts'

/** Adds both. */
export function addArchiveCommands(program: Command, action: OwnerAction): void {
  program
    .command('export')
    .argument(
      '<file>',
      'the file to write, one JSON object on each line, for you alone; - writes it to the output',
    )
    .description('all that the authority has of you: tiers, agents, ledger, receipts, …; no secrets')
    .action(action(exportTo))
  const recovery = program
    .command('recovery')
    .description('whether somebody is about to get a credential of yours by a recovery')
    .action(action(async session => tell(session, (await session.client.recovery()).recovery, words)))
  recovery
    .command('cancel')
    .description('end it: its code no longer works')
    .action(
      action(async session =>
        tell(session, (await session.client.cancelRecovery()).cancelled, () => 'The recovery is ended.\n'),
      ),
    )
}

async function exportTo(session: OwnerSession, file: string): Promise<void> {
  if (file === '-') {
    for await (const line of session.client.export()) {
      session.terminal.out(`${JSON.stringify(line)}\n`)
      await session.terminal.ready?.()
    }
    return
  }
  let rows = 0
  const text = async function* (): AsyncGenerator<string> {
    for await (const line of session.client.export()) {
      rows += 1
      yield `${JSON.stringify(line)}\n`
    }
  }
  await writePiecesDurably(dirname(file), basename(file), text())
  tell(session, { file, rows }, () => `${rows} rows are in ${file}.\n`)
}

function words(recovery: Recovery | null): string {
  if (recovery === null) return 'No recovery waits.\n'
  const { in_force_at, expires_at } = recovery
  return `Somebody may enrol a credential of yours from ${printableTime(in_force_at)} until ${printableTime(expires_at)}. If that is not you: usher owner recovery cancel\n`
}
