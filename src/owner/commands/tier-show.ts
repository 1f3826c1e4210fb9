/**
 * Owns `usher owner tier show`: one complete tier, in words. Contract: "Owner API" (`/owner/policies`).
 */
import { yamlText } from '../../client/object-file.ts'
import { printable, record } from '../../terminal/printable.ts'
import type { JsonObject } from '../../wire/json.ts'
import type { Tier } from '../../wire/owner/owner-api.ts'
import { ruleText, secondsText } from '../../rules/words/rule-words.ts'
import { tell, type OwnerSession } from '../session.ts'
import { tierOf, withoutVersion } from '../tier-file.ts'

/**
 * Shows one tier: as JSON the member of `policies --json`, which `tier edit` takes back. Fails with
 * `not_found` if she has no tier of that name.
 */
export async function showTier(
  session: OwnerSession,
  name: string,
  { yaml = false }: { yaml?: boolean } = {},
): Promise<void> {
  const tier = await tierOf(session.client, name)
  if (yaml && !session.json)
    return session.terminal.out(await yamlText(withoutVersion(tier as Tier & JsonObject)))
  tell(session, tier, tierText)
}

function tierText(tier: Tier): string {
  const { terms } = tier
  const clearance = Object.entries(tier.clearance ?? {})
  const rules = tier.rules.map(rule => `  - ${printable(ruleText(rule))}\n`)
  return (
    record({
      tier: `${tier.name} (${tier.id})`,
      version: terms.template_id,
      governs: tier.resources.length > 0 ? tier.resources : 'nothing',
      purpose: terms.purpose,
      allows: terms.scope,
      lasts: `at most ${secondsText(terms.expires_in)}`,
      'good for': terms.per_operation ? 'one operation, once' : 'any number of calls until then',
      'must promise': terms.prohibited.length > 0 ? `not: ${terms.prohibited.join(', ')}` : 'nothing more',
      'must prove': clearance.map(([claim, values]) => `${claim}: ${values.join(' or ')}`).join('; '),
      'asks you': tier.ask_me
        ? 'about each operation, unless a rule lets it through'
        : 'about an agent that you do not know, and when a rule says so',
    }) +
    (rules.length === 0
      ? '\nIt has no rules.\n'
      : `\nRules; of those that fit, the strictest decides:\n${rules.join('')}`)
  )
}
