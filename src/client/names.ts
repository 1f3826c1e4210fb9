/**
 * How a person names one of her things without typing all of it: by the beginning of its name, as long as
 * only one begins so. Contract: "Owner API": a handle or a family is named whole on the wire.
 */
import { UsageError } from '../terminal/command.ts'
import { ApiError } from './api-error.ts'

/**
 * Fewer characters name whatever happens to be there today: a handle begins with `jkt:`, a family with
 * `fam_`.
 */
const PREFIX_MIN = 8
const SHOWN_MAX = 5

/**
 * The one of `names` that is `given`, or that alone begins with it; undefined if none does. Several are a
 * `UsageError`.
 */
export function nameOf(given: string, names: readonly string[]): string | undefined {
  if (names.includes(given)) return given
  // A table shortens a name with this character: what is copied from it is taken.
  const start = given.replace(/…$/, '')
  if (start.length < PREFIX_MIN) return undefined
  const found = [...new Set(names)].filter(name => name.startsWith(start))
  if (found.length <= 1) return found[0]
  const shown = found.slice(0, SHOWN_MAX).join(', ')
  throw new UsageError(
    `${given} may be any of ${found.length}: ${shown}${found.length > SHOWN_MAX ? ', …' : ''}. Give more of it.`,
  )
}

/**
 * Does `act` with the name as it was given, and where the server knows none of that name, with the one of
 * `list` that begins so. The whole name thus costs one request, and is never taken for the beginning of
 * another.
 */
export async function named<T>(
  given: string,
  act: (name: string) => Promise<T>,
  list: () => Promise<readonly string[]>,
): Promise<T> {
  try {
    return await act(given)
  } catch (error) {
    if (!(error instanceof ApiError) || error.status !== 404) throw error
    const name = nameOf(given, await list())
    if (name === undefined || name === given) throw error
    return act(name)
  }
}
