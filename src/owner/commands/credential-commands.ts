/**
 * Owns the subcommands of `usher owner` about her credentials. Contract: "Authentication": device keys and
 * logins, each sufficient and each revocable on its own.
 */
import type { Command } from 'commander'
import { readInput, UsageError, type Terminal } from '../../terminal/command.ts'
import { printable, printableJson, printableTime, table } from '../../terminal/printable.ts'
import { isJsonObject, parseJson, type JsonObject } from '../../wire/json.ts'
import { publicJwk, type PrivateKey } from '../../wire/signatures/keys.ts'
import { Refusal } from '../../wire/refusal.ts'
import { readAll } from '../../client/exchange.ts'
import { named } from '../../client/names.ts'
import { tell, type OwnerAction } from '../session.ts'
import type { DeviceKey, Login } from '../../wire/owner/owner-credentials.ts'

const NAME = ['--name <name>', 'your name for it'] as const

/** Adds `keys`, `add-key`, `remove-key`, `logins`, `add-login` and `remove-login`. */
export function addCredentialCommands(program: Command, action: OwnerAction): void {
  program
    .command('keys')
    .description('your device keys')
    .action(action(async session => tell(session, await readAll(session.client.deviceKeys()), keyTable)))
  program
    .command('add-key')
    .argument('<file>', 'its public JWK, as `usher owner key` prints it there; - reads it from the input')
    .requiredOption(...NAME)
    .description('let another device of yours decide for you')
    .action(
      action(async (session, file: string, { name }: { name: string }) => {
        const added = await session.client.addDeviceKey({ name, jwk: readJwk(await readInput(file)) })
        tell(session, added, one => `${printable(one.name)} may decide for you now: ${printable(one.kid)}.\n`)
      }),
    )
  program
    .command('remove-key')
    .argument('<kid>', 'the key, as `keys` names it, the beginning of that, or what you called it')
    .description('revoke a device key, at once and for ever')
    .action(
      action(async ({ client, ...session }, target: string) => {
        const kids = async () => (await readAll(client.deviceKeys())).map(({ kid }) => kid)
        tell(session, await named(target, kid => client.removeDeviceKey(kid), kids), removalText)
      }),
    )
  program
    .command('logins')
    .description('your logins')
    .action(action(async session => tell(session, await readAll(session.client.logins()), loginTable)))
  program
    .command('add-login')
    .argument('<file>', 'an access token that this login got from your realm; - reads it from the input')
    .requiredOption(...NAME)
    .description('let a login of yours decide for you')
    .action(
      action(async (session, file: string, { name }: { name: string }) => {
        const access_token = (await readInput(file)).trim()
        const added = await session.client.addLogin({ name, access_token })
        tell(session, added, one => `${printable(one.name)} may decide for you now: ${printable(one.id)}.\n`)
      }),
    )
  program
    .command('remove-login')
    .argument('<id>', 'the login, as `logins` names it; the beginning of that will do')
    .description('unbind a login, at once')
    .action(
      action(async ({ client, ...session }, target: string) => {
        const ids = async () => (await readAll(client.logins())).map(({ id }) => id)
        tell(session, await named(target, id => client.removeLogin(id), ids), removalText)
      }),
    )
}

/** Adds `key export`: the key of this machine as others pin it (`owner_approval` of a resource's tool). */
export function addKeyExport(program: Command, ownKey: () => Promise<PrivateKey>, terminal: Terminal): void {
  program
    .command('export')
    .description('print it for the keys_file of a resource that asks for your signature')
    .action(async () => {
      const own = await ownKey()
      terminal.out(`${printableJson({ keys: [publicJwk(own, own.thumbprint)] })}\n`)
    })
}

function keyTable(keys: DeviceKey[], columns?: number): string {
  if (keys.length === 0) return 'No device key of yours is enrolled.\n'
  const rows = keys.map(key => [
    key.kid,
    key.name,
    printableTime(key.enrolled_at),
    key.surface === 'served' || key.let_in !== undefined ? 'a page' : '-',
    statusOf(key),
  ])
  return table(['kid', 'name', 'enrolled', 'made in', 'status'], rows, columns)
}

function statusOf({ revoked_at, let_in }: DeviceKey): string {
  if (revoked_at) return `revoked ${printableTime(revoked_at)}`
  return let_in ? `until ${printableTime(let_in.expires_at)}` : 'in force'
}

function loginTable(logins: Login[], columns?: number): string {
  if (logins.length === 0) return 'No login is bound to you.\n'
  const rows = logins.map(one => [one.id, one.name, one.subject, one.issuer, printableTime(one.bound_at)])
  return table(['id', 'name', 'subject', 'realm', 'bound'], rows, columns)
}

function removalText({ deleted }: { deleted: string }): string {
  return `${printable(deleted)} decides for you no more.\n`
}

function readJwk(source: string): JsonObject {
  try {
    const jwk = parseJson(source)
    if (!isJsonObject(jwk)) throw new UsageError('Give the public key as one JWK, a JSON object.')
    if (Object.hasOwn(jwk, 'd'))
      throw new UsageError(
        'Give the public half alone, as `usher owner key` prints it. A private key stays on its own machine.',
      )
    return jwk
  } catch (cause) {
    if (!(cause instanceof Refusal)) throw cause
    throw new UsageError(`This is no JWK: ${cause.detail ?? cause.code}`, { cause })
  }
}
