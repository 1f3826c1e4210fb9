/**
 * Owns `usher owner profile`, and how `enrol` keeps where it enrolled. Contract: "Authorization server
 * metadata members" (`owner_endpoint`), "Authentication".
 */
import type { Command } from 'commander'
import type { ClientPlace } from '../../client/program.ts'
import { UsageError, type Terminal } from '../../terminal/command.ts'
import { printableJson, record } from '../../terminal/printable.ts'
import { removeProfile, writeProfile } from '../../terminal/profile-file.ts'

/** What separates a code from the issuer that it is of: `enrol_abc@https://as.example.com`. */
const AT = '@'

/** The parts of a code as the operator printed it; without an issuer, it is the code alone. */
export function readCode(text: string): { code: string; issuer: string | undefined } {
  const at = text.indexOf(AT)
  if (at < 0) return { code: text, issuer: undefined }
  return { code: text.slice(0, at), issuer: text.slice(at + 1) }
}

/** Adds `profile`. `placeOf` says what the other commands would ask now. */
export function addProfile(program: Command, placeOf: () => Promise<ClientPlace>, terminal: Terminal): void {
  program
    .command('profile')
    .description('which authority the commands ask, and where that is from; `enrol` keeps it beside your key')
    .option('--save', 'keep what --issuer and --api (or their variables) say now')
    .option('--forget', 'remove what is kept')
    .action(async (options: { save?: boolean; forget?: boolean }) => {
      if (options.save === true && options.forget === true)
        throw new UsageError('Give --save or --forget, not both.')
      const place = await placeOf()
      if (options.forget === true) await removeProfile(place.path)
      else if (options.save === true) await writeProfile(place.path, profileOf(place))
      const now = options.forget === true || options.save === true ? await placeOf() : place
      const { json } = program.opts<{ json?: boolean }>()
      terminal.out(json === true ? `${printableJson(now)}\n` : placeText(now))
    })
}

function profileOf({ issuer, api, apiFrom }: ClientPlace): { issuer: string; api?: string | undefined } {
  if (issuer === undefined) throw new UsageError('Give --issuer, or set UMA_OWNER_ISSUER, to save it.')
  return { issuer, ...(apiFrom === 'metadata' ? {} : { api }) }
}

const FROM: Readonly<Record<NonNullable<ClientPlace['issuerFrom']>, string>> = {
  option: 'the command line',
  variable: 'the environment',
  profile: 'the profile',
}

function placeText({ issuer, issuerFrom, api, apiFrom, key, path }: ClientPlace): string {
  if (issuer === undefined || issuerFrom === undefined)
    return `${record({ key })}No authority is named: enrol, or give --issuer or UMA_OWNER_ISSUER.\n`
  return record({
    authority: issuer,
    'named by': FROM[issuerFrom],
    'owner API': apiFrom === 'metadata' ? 'as the metadata of the authority says' : api,
    key,
    profile: issuerFrom === 'profile' ? path : undefined,
  })
}
