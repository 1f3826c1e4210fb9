/**
 * Owns `usher owner terms`: the terms that agents are offered, each with the hash by which somebody accepts
 * them beforehand. Contract: "Terms document": every version stays dereferenceable, and terms that changed
 * are other terms.
 */
import type { Command } from 'commander'
import { ApiError } from '../../client/api-error.ts'
import { printable, table } from '../../terminal/printable.ts'
import { s256Json } from '../../wire/encoding.ts'
import type { JsonObject } from '../../wire/json.ts'
import type { Tier } from '../../wire/owner/owner-api.ts'
import { tell, type OwnerAction, type OwnerSession } from '../session.ts'
import { tierOf } from '../tier-file.ts'

/** Adds the command. */
export function addTermsCommand(program: Command, action: OwnerAction): void {
  program
    .command('terms')
    .argument('[tier]', 'of this tier only, as `policies` names it')
    .option('--hashes', 'the hashes alone, one on each line, as `--accept-terms any-of <file>` reads them')
    .description('the terms that agents are offered, with the hashes to accept them beforehand')
    .action(
      action((session, tier: string | undefined, options: { hashes?: boolean }) =>
        showTerms(session, tier, options),
      ),
    )
}

interface ShownTerms {
  tier: string
  template_id: string
  terms_s256: string
  ask_me: boolean
  terms: JsonObject
}

/**
 * The hash is that of the document at `terms_uri`, which the bridge fetches and compares. Fails with
 * `not_found` if she has no such tier, and with `answer_malformed` if the published document is another one.
 */
async function showTerms(
  session: OwnerSession,
  name: string | undefined,
  { hashes = false }: { hashes?: boolean },
): Promise<void> {
  const offered: ShownTerms[] = []
  const { client } = session
  const tiers = name === undefined ? await client.policies() : [await tierOf(client, name)]
  for (const tier of tiers) offered.push(await offeredBy(session, tier))
  if (hashes && !session.json)
    return session.terminal.out(offered.map(({ terms_s256 }) => `${terms_s256}\n`).join(''))
  tell(session, offered, termsTable)
}

async function offeredBy({ client }: OwnerSession, { id, ask_me, terms }: Tier): Promise<ShownTerms> {
  const { template_id } = terms
  const document = await client.publishedTerms(template_id)
  if (document['template_id'] !== template_id)
    throw new ApiError('answer_malformed', `The authority publishes other terms under ${template_id}.`)
  return { tier: id, template_id, terms_s256: s256Json(document), ask_me, terms: document }
}

function termsTable(offered: readonly ShownTerms[], columns?: number): string {
  if (offered.length === 0) return 'You offer no terms: you have no tier.\n'
  const rows = offered.map(one => [
    one.tier,
    one.template_id,
    one.terms_s256,
    one.ask_me ? 'about each call' : 'about new agents',
  ])
  const head = ['tier', 'terms', 'hash', 'asks you']
  const [first] = offered
  const example = printable(first!.terms_s256)
  return `${table(head, rows, columns)}\nSomebody who accepts terms beforehand names their hash: usher agent bridge <resource> --accept-terms ${example}\n`
}
