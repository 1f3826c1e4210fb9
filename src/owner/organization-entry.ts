/**
 * Owns the means by which an owner joins an organization: the code that it gave her, or an identity assertion
 * that a program of hers fetches. Contract: "The organization's authority" (join by invitation, identity
 * provider or shared code).
 */
import { ApiError } from '../client/api-error.ts'
import { UsageError } from '../terminal/command.ts'
import { outputOf, ProgramEnded } from '../terminal/program-output.ts'

export interface EntryOptions {
  organization?: string
  identityCommand?: string
}

/** The argument and the options of commands that accept an entry. */
export const CODE = ['[code]', 'the code that the organization gave you'] as const
export const IDENTITY_COMMAND = [
  '--identity-command <command>',
  'instead of a code, with --organization: a program that reads {"audience": …} and prints an identity assertion',
] as const

/**
 * The code or assertion that lets her in, as it is sent. An assertion is fetched for the organization that
 * she names herself, and for none that a server names. Refuses with `UsageError` anything but one of the two;
 * fails with `identity_unusable`.
 */
export async function readEntry(
  code: string | undefined,
  { organization: audience, identityCommand }: EntryOptions,
): Promise<{ code: string } | { assertion: string }> {
  if (code !== undefined && identityCommand === undefined) return { code }
  if (code !== undefined || identityCommand === undefined)
    throw new UsageError('Give a code or --identity-command, and not both.')
  if (audience === undefined)
    throw new UsageError('Name the organization that should learn who you are: --organization <issuer>.')
  const assertion = await outputOf(identityCommand, { audience }).catch(unusable)
  return assertion === '' ? unusable(new ProgramEnded('and printed nothing')) : { assertion }
}

/** Her input, as it is given again on a command line. */
export function entryWords(
  code: string | undefined,
  { organization, identityCommand }: EntryOptions,
): string {
  return [
    ...(code === undefined ? [] : [quoted(code)]),
    ...(organization === undefined ? [] : [`--organization ${quoted(organization)}`]),
    ...(identityCommand === undefined ? [] : [`--identity-command ${quoted(identityCommand)}`]),
  ].join(' ')
}

/** A word, quoted for a command line. */
export function quoted(text: string): string {
  return /^[\w.:/=@-]+$/.test(text) ? text : `'${text.replaceAll("'", `'\\''`)}'`
}

function unusable(cause: unknown): never {
  if (!(cause instanceof ProgramEnded)) throw cause
  const detail = `The identity command ended ${cause.message}, so there is no identity assertion.`
  throw new ApiError('identity_unusable', detail, { cause })
}
