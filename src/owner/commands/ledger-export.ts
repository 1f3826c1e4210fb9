/**
 * Owns `usher owner ledger export`: her ledger, or the record of one agent in it, as a file that others can
 * verify. Contract: "Events" (row 5), "Owner API".
 */
import { basename, dirname } from 'node:path'
import type { Command } from 'commander'
import { writePiecesDurably } from '../../files/durable-file.ts'
import { UsageError } from '../../terminal/command.ts'
import { printable } from '../../terminal/printable.ts'
import { handleOf } from '../display/labels.ts'
import { ledgerFileLines, type LedgerExtent } from '../ledger-file.ts'
import { tell, type OwnerAction, type OwnerSession } from '../session.ts'

/** Adds it below `usher owner ledger`, which has `--handle`, too. */
export function addLedgerExport(ledger: Command, action: OwnerAction): void {
  const run = action(exportTo)
  ledger
    .command('export')
    .argument('<file>', 'the file to write, for you alone; - writes it to the output')
    .option(
      '--handle <handle>',
      'the record of this agent alone; the beginning of its handle, or your name for it, will do',
    )
    .option('--witnessed', 'as far as the newest head that a witness has cosigned, with the cosignatures')
    .description('the ledger with its tree and its signed head, for `usher verify ledger`')
    .action(async (file: string, own: { handle?: string; witnessed?: boolean }) => {
      // An option of both commands goes to the parent.
      const { handle = own.handle, ...filters } = ledger.opts<{ handle?: string }>()
      const [name] = Object.keys(filters)
      if (name !== undefined)
        throw new UsageError(
          `Leave out --${name}: usher owner ledger export writes the whole ledger, or with --handle the whole record of an agent.`,
        )
      await run(file, handle, own.witnessed)
    })
}

async function exportTo(
  session: OwnerSession,
  file: string,
  name: string | undefined,
  witnessed: boolean | undefined,
): Promise<void> {
  // An agent without a connection has entries, too, so an unlisted handle is used as it was given.
  const handle = name === undefined ? undefined : ((await handleOf(session, name)) ?? name)
  const lines = ledgerFileLines(session.client.access, handle, { witnessed })
  if (file === '-') {
    for await (const line of lines) {
      session.terminal.out(line)
      await session.terminal.ready?.()
    }
    return
  }
  const read: { extent?: LedgerExtent } = {}
  const pieces = async function* (): AsyncGenerator<string> {
    read.extent = yield* lines
  }
  await writePiecesDurably(dirname(file), basename(file), pieces())
  const extent = handle === undefined ? read.extent! : { ...read.extent!, handle }
  tell(session, { file, ...extent }, ({ entries, size, origin }) => {
    const left = entries === size ? `${size} entries` : `${entries} of ${size} entries`
    const whose = handle === undefined ? '' : `, those of ${printable(handle)},`
    return `${left} of ${printable(origin)}${whose} are in ${file}. Verify it where you keep the keys of the log: usher verify ledger ${file} --keys <file>\n`
  })
}
