/**
 * Owns the subcommands of `usher owner` about her credentials. Contract: "Authentication": device keys and
 * logins, each sufficient and each revocable on its own.
 */
import { readFile } from 'node:fs/promises'
import { text } from 'node:stream/consumers'
import type { Command } from 'commander'
import { UsageError } from '../terminal/command.ts'
import { printable, printableTime, table } from '../terminal/printable.ts'
import { isJsonObject, parseJson, type JsonObject } from '../wire/json.ts'
import { Refusal } from '../wire/refusal.ts'
import { readAll } from '../client/exchange.ts'
import { tell, type Action } from './session.ts'
import type { DeviceKey, Login } from '../wire/owner-api.ts'

const NAME = ['--name <name>', 'what you call it'] as const

/** Adds `keys`, `add-key`, `remove-key`, `logins`, `add-login` and `remove-login`. */
export function addCredentialCommands(program: Command, action: Action): void {
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
        const added = await session.client.addDeviceKey({ name, jwk: readJwk(await readText(file)) })
        tell(session, added, one => `${printable(one.name)} may decide for you now: ${printable(one.kid)}.\n`)
      }),
    )
  program
    .command('remove-key')
    .argument('<kid>', 'the key, as `keys` names it, or what you called it')
    .description('revoke a device key, at once and for ever')
    .action(
      action(async (session, kid: string) => tell(session, await session.client.removeDeviceKey(kid), gone)),
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
        const access_token = (await readText(file)).trim()
        const added = await session.client.addLogin({ name, access_token })
        tell(session, added, one => `${printable(one.name)} may decide for you now: ${printable(one.id)}.\n`)
      }),
    )
  program
    .command('remove-login')
    .argument('<id>', 'the login, as `logins` names it')
    .description('unbind a login, at once')
    .action(action(async (session, id: string) => tell(session, await session.client.removeLogin(id), gone)))
}

function keyTable(keys: DeviceKey[], columns?: number): string {
  if (keys.length === 0) return 'No device key of yours is enrolled.\n'
  const rows = keys.map(key => [
    key.kid,
    key.name,
    printableTime(key.enrolled_at),
    key.revoked_at ? `revoked ${printableTime(key.revoked_at)}` : 'in force',
  ])
  return table(['kid', 'name', 'enrolled', 'status'], rows, columns)
}

function loginTable(logins: Login[], columns?: number): string {
  if (logins.length === 0) return 'No login is bound to you.\n'
  const rows = logins.map(one => [one.id, one.name, one.subject, one.issuer, printableTime(one.bound_at)])
  return table(['id', 'name', 'subject', 'realm', 'bound'], rows, columns)
}

function gone({ deleted }: { deleted: string }): string {
  return `${printable(deleted)} decides for you no more.\n`
}

function readJwk(source: string): JsonObject {
  try {
    const jwk = parseJson(source)
    if (!isJsonObject(jwk)) throw new UsageError('Give the public key as one JWK, a JSON object.')
    if (Object.hasOwn(jwk, 'd'))
      throw new UsageError(
        'Give the public half alone, as `usher owner key` prints it: a private key stays put.',
      )
    return jwk
  } catch (cause) {
    if (!(cause instanceof Refusal)) throw cause
    throw new UsageError(`This is no JWK: ${cause.detail ?? cause.code}`, { cause })
  }
}

/** The text of a file, or of the standard input for `-`: secrets given as arguments show in process lists. */
async function readText(path: string): Promise<string> {
  try {
    return path === '-' ? await text(process.stdin) : await readFile(path, 'utf8')
  } catch (cause) {
    throw new UsageError(`${path} cannot be read.`, { cause })
  }
}
