/**
 * Owns `usher owner tier remove`: a person sees what she denies before she is asked, and everybody is given
 * what would bring the tier back. Contract: "Owner API" (`/owner/policies*`).
 */
import { yamlText } from '../../client/object-file.ts'
import { EXIT, Exit, UsageError } from '../../terminal/command.ts'
import { printable } from '../../terminal/printable.ts'
import { isJsonObject, type JsonObject } from '../../wire/json.ts'
import type { StillWaiting, Tier } from '../../wire/owner/owner-api.ts'
import { tell, type OwnerSession } from '../session.ts'
import { waitingSentence } from '../display/show.ts'
import { tierOf, withoutVersion } from '../tier-file.ts'

interface RemoveOptions {
  /** The version; that which is read and shown, if left out. */
  ifMatch?: string
  /** Asks nobody. */
  yes?: boolean
}

/**
 * Removes the tier of that name, or the only one whose id begins with it. Asks first at a terminal; a script
 * is not asked. Fails with `not_found` if there is none, and with `conflict` if it was changed meanwhile.
 */
export async function removeTier(
  session: OwnerSession,
  name: string,
  { ifMatch, yes = false }: RemoveOptions,
): Promise<void> {
  const { client, terminal, json } = session
  const tier = await tierOf(client, name)
  if (!yes && !json && terminal.confirm !== undefined) {
    terminal.err(`Denied from then on: ${listed(tier.resources)}. Grants under ${printable(tier.id)} end.\n`)
    if (!(await terminal.confirm(`Remove the tier ${tier.id}?`))) {
      terminal.err('Nothing was removed.\n')
      throw new Exit(EXIT.refused)
    }
  }
  const removal = await client.ask({
    method: 'DELETE',
    path: `/owner/policies/${encodeURIComponent(tier.id)}`,
    headers: { 'if-match': `"${ifMatch ?? tier.terms.template_id}"` },
  })
  if (removal === undefined || !isJsonObject(removal))
    throw new UsageError('The authority answered with something else than a removal: is this its owner API?')
  const before = withoutVersion(tier as Tier & JsonObject)
  const yaml = await yamlText(before)
  tell(
    session,
    { ...removal, tier: before },
    () =>
      `Removed. Denied from now on: ${listed(removal['ungoverned'] as string[])}.\n` +
      waitingSentence(removal as StillWaiting) +
      `To bring it back, save this as tier.yaml and run: usher owner tier add tier.yaml\n\n${yaml}`,
  )
}

function listed(names: readonly string[]): string {
  return names.length === 0 ? 'nothing' : names.map(printable).join(', ')
}
