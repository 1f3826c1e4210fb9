/**
 * How a person names one of her things without typing all of it: by the beginning of its name, if only one
 * name begins so. Contract: "Owner API": the wire always has the whole handle or family.
 */
import { UsageError } from '../terminal/command.ts'
import { CUT } from '../terminal/printable.ts'
import { ApiError } from './api-error.ts'

/**
 * With fewer characters, a random item would match: a handle begins with `jkt:`, a family with `fam_`. The
 * scheme of a URL does not count.
 */
const PREFIX_MIN = 8
const SHOWN_MAX = 5

/** What is shown of a long name: eight characters of what is random in it, which `nameOf` takes back. */
const SHORT = 12

/** The beginning of a long name, as a sentence has it: `jkt:VWo19Q8H`. A name with a meaning stays whole. */
export function shortName(name: string): string {
  return /^(jkt:|fam_)/.test(name) ? name.slice(0, SHORT) : name
}

/**
 * The name in `names` that is `input`, or the only one that begins with it; undefined if there is none.
 * Several are a `UsageError`.
 */
export function nameOf(input: string, names: readonly string[]): string | undefined {
  if (names.includes(input)) return input
  // A table shortens a name with this character, so a name that was copied from a table is accepted.
  const start = input.endsWith(CUT) ? input.slice(0, -CUT.length) : input
  if (start.replace(/^https?:\/\//, '').length < PREFIX_MIN) return undefined
  const found = [...new Set(names)].filter(name => name.startsWith(start))
  if (found.length <= 1) return found[0]
  const shown = found.slice(0, SHOWN_MAX).join(', ')
  throw new UsageError(
    `${input} may be any of ${found.length}: ${shown}${found.length > SHOWN_MAX ? ', …' : ''}. Give more of it.`,
  )
}

/**
 * Does `act` with the name as it was given. If the server does not know that name, it uses the one in `list`
 * that begins with it. So the whole name costs only one request, and is never mistaken for the beginning of
 * another.
 */
export async function named<T>(
  input: string,
  act: (name: string) => Promise<T>,
  list: () => Promise<readonly string[]>,
): Promise<T> {
  try {
    return await act(input)
  } catch (error) {
    if (!(error instanceof ApiError) || error.status !== 404) throw error
    const name = nameOf(input, await list())
    if (name === undefined || name === input) throw error
    return act(name)
  }
}

/**
 * Does `act`, of a command that shows nothing before it opens something (`--yes`), with whole names alone:
 * nobody would see which of her things a beginning stands for. If the server does not know a name, the
 * refusal also says that `list`, a command, has the whole one.
 */
export async function withWholeNames<T>(list: string, act: () => Promise<T>): Promise<T> {
  try {
    return await act()
  } catch (error) {
    if (!(error instanceof ApiError) || error.status !== 404 || error.reason === 'not_served') throw error
    const { code, detail, status, reason } = error
    throw new ApiError(
      code,
      `${detail} With --yes nothing is shown, so give the whole name, as \`${list} --json\` has it; without --yes its beginning will do.`,
      { status, reason, cause: error },
    )
  }
}

/** Like `named`, for several at once. */
export function namedAll<T>(
  inputs: readonly string[],
  act: (names: string[]) => Promise<T>,
  list: () => Promise<readonly string[]>,
): Promise<T> {
  return act([...inputs]).catch(async (error: unknown) => {
    if (!(error instanceof ApiError) || error.status !== 404) throw error
    const known = await list()
    const names = inputs.map(one => nameOf(one, known) ?? one)
    if (names.every((name, at) => name === inputs[at])) throw error
    return act(names)
  })
}
