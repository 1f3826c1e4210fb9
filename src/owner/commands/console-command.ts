/** Owns `usher owner console`. Contract: "Owner API": her page, from her own machine, until she ends it. */
import type { Command } from 'commander'
import { wholeNumber } from '../../client/program.ts'
import { serveConsole } from '../console.ts'
import { untilInterrupted } from '../interrupt.ts'
import type { OwnerAction } from '../session.ts'

/** Adds the command. */
export function addConsole(program: Command, action: OwnerAction): void {
  program
    .command('console')
    .option('--port <port>', 'the address on the loopback; any free port when left out', wholeNumber)
    .description(
      'serve the page on this machine and print its link; your key signs here and never reaches the page',
    )
    .action(
      action(async ({ client, terminal, json }, { port }: { port?: number }) => {
        const served = await serveConsole(client.access, port)
        const { link } = served
        terminal.out(
          json
            ? `${JSON.stringify({ link })}\n`
            : `Open ${link}\nIt decides as you, until you press Ctrl-C.\n`,
        )
        await untilInterrupted(
          signal => new Promise(resolve => signal.addEventListener('abort', () => resolve(), { once: true })),
        )
        await served.close()
      }),
    )
}
