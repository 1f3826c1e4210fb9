/**
 * Owns an allowance as an owner writes it in a file: the record, and for each tier what happens beyond it.
 * Contract: "Policy vocabulary and tiers", "Owner API"; an addition (docs/details/owner-api.md). The schema
 * and the rules that check it here are those of the authority, so that she hears of a fault before anything
 * is saved.
 */
import { readObjectFile } from '../../client/object-file.ts'
import { allowanceFault } from '../../rules/allowance/allowance.ts'
import { UsageError } from '../../terminal/command.ts'
import {
  ALLOWANCE_CONTENT,
  type AllowanceContent,
  type OwnerAllowance,
} from '../../wire/documents/allowance.ts'
import { canonicalize, isJsonObject, type Json, type JsonObject } from '../../wire/json.ts'
import { ALLOWANCE_ID } from '../../wire/names.ts'

/** What a tier does with an operation that is beyond the allowance. */
export type BeyondEffect = 'ask' | 'refuse'

/** A file that was read and checked; `beyond` has each of its tiers. */
interface AllowanceFile {
  id: string
  content: AllowanceContent
  beyond: ReadonlyMap<string, BeyondEffect>
}

/** The members that say what it allows, of a record or of a file. */
const CONTENT = ['zone', 'among', 'until', 'hold_s', 'amounts', 'windows', 'tiers'] as const

/** The allowance in `file`; `-` reads standard input. Throws `UsageError` with what to correct. */
export async function readAllowanceFile(file: string): Promise<AllowanceFile> {
  const { use: _use, more: _more, ...members } = await readObjectFile(file, 'an allowance')
  const { id, tiers } = members
  if (typeof id !== 'string' || !ALLOWANCE_ID.test(id))
    throw new UsageError(
      `Give the allowance in ${file} an \`id\`: small letters, digits or \`-\`, at most 32, such as weekend.`,
    )
  const beyond = new Map<string, BeyondEffect>()
  const bare: JsonObject = isJsonObject(tiers) ? { tiers: withoutEffects(tiers, beyond) } : {}
  return { id, content: checkedContent({ ...members, ...bare }, file), beyond }
}

/** The tiers without their `beyond`, which is put into `effects`: `ask` if it is left out. */
function withoutEffects(tiers: JsonObject, effects: Map<string, BeyondEffect>): JsonObject {
  const bare = Object.entries(tiers).map(([id, at]): [string, Json] => {
    if (!isJsonObject(at)) return [id, at]
    const { beyond = 'ask', ...rest } = at
    if (beyond !== 'ask' && beyond !== 'refuse')
      throw new UsageError(`Give \`beyond\` at ${id} as ask or refuse; if it is left out, you are asked.`)
    effects.set(id, beyond)
    return [id, rest]
  })
  return Object.fromEntries(bare)
}

/** The content, if the authority would take it; otherwise a `UsageError` says what to correct in `file`. */
export function checkedContent(members: JsonObject, file: string): AllowanceContent {
  const read = ALLOWANCE_CONTENT.safeParse(members)
  if (!read.success) {
    const { path, message } = read.error.issues[0]!
    const at = path.length === 0 ? '' : `${path.map(String).join('.')}: `
    throw new UsageError(`Correct ${file}: ${at}${message}.`)
  }
  const fault = allowanceFault(read.data)
  if (fault !== undefined) throw new UsageError(`Correct ${file}: ${fault}`)
  return read.data
}

/** The content as the authority would store it, in place of `before` if there is one. */
export function allowanceFrom(
  id: string,
  content: AllowanceContent,
  before?: OwnerAllowance,
): OwnerAllowance {
  const { hold_s, amounts, windows, tiers } = content
  return {
    id,
    version: before === undefined ? 1 : before.version + 1,
    zone: content.zone ?? before?.zone ?? 'UTC',
    among: content.among ?? before?.among ?? 'all',
    until: content.until === null ? null : new Date(content.until).toISOString(),
    hold_s,
    amounts,
    windows,
    tiers,
  }
}

/** What is sent to save the allowance. An answer shows the `ceiling` of a window, which she does not set. */
export function contentOf(allowance: OwnerAllowance): JsonObject {
  const windows = allowance.windows.map(({ of, per, max }) => ({ of, per, max }))
  return { ...Object.fromEntries(CONTENT.map(name => [name, allowance[name] as Json])), windows }
}

/** Whether two allowances allow the same, whatever their versions. */
export function isSameAllowance(one: OwnerAllowance, other: OwnerAllowance): boolean {
  return canonicalize(contentOf(one)) === canonicalize(contentOf(other))
}
