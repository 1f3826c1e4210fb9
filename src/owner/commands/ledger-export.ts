/**
 * Owns `usher owner ledger export`: her ledger as a file that others can verify. Contract: "Events" (row 5),
 * "Owner API".
 */
import { basename, dirname } from 'node:path'
import type { Command } from 'commander'
import { writePiecesDurably } from '../../files/durable-file.ts'
import { UsageError } from '../../terminal/command.ts'
import { printable } from '../../terminal/printable.ts'
import { ledgerFileLines, type LedgerExtent } from '../ledger-file.ts'
import { tell, type OwnerAction, type OwnerSession } from '../session.ts'

/** Adds it below `usher owner ledger`. */
export function addLedgerExport(ledger: Command, action: OwnerAction): void {
  const run = action(exportTo)
  ledger
    .command('export')
    .argument('<file>', 'the file to write, for you alone; - writes it to the output')
    .description('the ledger with its tree and its signed head, for `usher verify ledger`')
    .action(async (...args: Parameters<typeof run>) => {
      // A filter would be the parent's, and the file has the whole ledger.
      const [name] = Object.keys(ledger.opts())
      if (name !== undefined)
        throw new UsageError(`Leave out --${name}: usher owner ledger export writes the whole ledger.`)
      await run(...args)
    })
}

async function exportTo(session: OwnerSession, file: string): Promise<void> {
  const lines = ledgerFileLines(session.client.access)
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
  tell(session, { file, ...read.extent! }, ({ entries, size, origin }) => {
    const left = entries === size ? `${size} entries` : `${entries} of ${size} entries`
    return `${left} of ${printable(origin)} are in ${file}. Verify it where you keep the keys of the log: usher verify ledger ${file} --keys <file>\n`
  })
}
