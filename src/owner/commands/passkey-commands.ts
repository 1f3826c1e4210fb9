/**
 * Owns the subcommands of `usher owner` about her passkeys, which are made in the page. Contract:
 * "Authentication" (owner at the owner API).
 */
import type { Command } from 'commander'
import { readAll } from '../../client/exchange.ts'
import { nameOf, named } from '../../client/names.ts'
import { UsageError } from '../../terminal/command.ts'
import { printable, printableJson, printableTime, table } from '../../terminal/printable.ts'
import type { Passkey } from '../../wire/owner/owner-credentials.ts'
import { pinnedPasskeys } from '../../wire/passkeys/passkey-claims.ts'
import { tell, type OwnerAction } from '../session.ts'

/** Adds `passkeys`, `remove-passkey` and `export-passkey`. */
export function addPasskeyCommands(program: Command, action: OwnerAction): void {
  program
    .command('passkeys')
    .description('your passkeys, which your page adds')
    .action(action(async session => tell(session, await readAll(session.client.passkeys()), passkeyTable)))
  program
    .command('remove-passkey')
    .argument('<id>', 'the passkey, as `passkeys` names it; the beginning of that will do')
    .description('remove a passkey and every browser that it signed in, at once and for ever')
    .action(
      action(async ({ client, ...session }, target: string) => {
        const ids = async () => (await readAll(client.passkeys())).map(({ id }) => id)
        const removal = await named(target, id => client.removePasskey(id), ids)
        tell(session, removal, ({ deleted }) => `${printable(deleted)} is no passkey of yours any more.\n`)
      }),
    )
  program
    .command('export-passkey')
    .argument('<id>', 'the passkey, as `passkeys` names it; the beginning of that will do')
    .description('print its public half for the keys_file of a resource that asks for your signature')
    .action(
      action(async ({ client, ...session }, target: string) => {
        const all = await readAll(client.passkeys())
        const id = nameOf(
          target,
          all.map(one => one.id),
        )
        const found = all.find(one => one.id === id && one.removed_at === null && one.origins.length > 0)
        if (found === undefined)
          throw new UsageError(`You have no passkey ${target} that signs decisions here.`)
        const entry = pinnedPasskeys(found)
        tell(session, entry, () => `${printableJson(entry)}\n`)
      }),
    )
}

function passkeyTable(passkeys: Passkey[], columns?: number): string {
  if (passkeys.length === 0) return 'You have no passkey.\n'
  const rows = passkeys.map(one => [
    one.id,
    one.name,
    one.rp_id,
    printableTime(one.added_at),
    one.removed_at ? `removed ${printableTime(one.removed_at)}` : 'in force',
  ])
  return table(['id', 'name', 'for', 'added', 'status'], rows, columns)
}
