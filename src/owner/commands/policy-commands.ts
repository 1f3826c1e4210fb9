/**
 * Owns the subcommands of `usher owner` that change policy and deal with operators. Contract: "Owner API"
 * (`/owner/policies*`, `/owner/policy-vocabulary`, `/owner/operators*`).
 */
import type { Command } from 'commander'
import { UsageError } from '../../terminal/command.ts'
import { printable, table } from '../../terminal/printable.ts'
import { isJsonObject, type Json, type JsonObject } from '../../wire/json.ts'
import { readAll } from '../../client/exchange.ts'
import { named } from '../../client/names.ts'
import { namedResource, NO_RESOURCE_NAMES, type ResourceNames } from '../../rules/words/resource-words.ts'
import { conditionForm, RULE_HELP } from '../../rules/words/rule-words.ts'
import { applyTiers, diffTiers } from './tier-apply.ts'
import { readTier } from '../tier-file.ts'
import { removeTier } from './tier-remove.ts'
import { resourceNamesOf } from '../display/labels.ts'
import { waitingSentence } from '../display/show.ts'
import { showTier } from './tier-show.ts'
import { tell, type OwnerAction, type OwnerSession } from '../session.ts'
import type {
  Operator,
  StillWaiting,
  TierPreview,
  TriedRequest,
  VocabularyWord,
} from '../../wire/owner/owner-api.ts'
import type { ApiRequest } from '../../client/signed-fetch.ts'

const FILE = 'a tier as YAML or JSON, as `tier show --yaml` prints one; `-` reads standard input'

/**
 * Adds `tier show|add|edit|apply|diff|remove|preview`, `vocabulary`, `operators`, `claim` and `disclaim`.
 */
export function addPolicyCommands(program: Command, action: OwnerAction): void {
  const tier = program.command('tier').description('your policy, one tier at a time')
  tier
    .command('show')
    .argument('<id>', 'the tier, as `policies` names it')
    .option('--yaml', 'as YAML, which `tier apply`, `add` and `edit` take back')
    .description('one tier whole: its terms, when it asks you, and its rules, in words')
    .action(action((session, id: string, options: { yaml?: boolean }) => showTier(session, id, options)))
  tier
    .command('add')
    .argument('<file>', FILE)
    .description('govern resources that no tier governs yet')
    .addHelpText('after', RULE_HELP)
    .action(action(addTier))
  tier
    .command('edit')
    .argument('<id>', 'the tier, as `policies` names it; the beginning of its id will do')
    .argument('<file>', FILE)
    .option('--if-match <template_id>', 'only while this is its version')
    .description('replace its content; its terms get a new version')
    .addHelpText('after', RULE_HELP)
    .action(action(editTier))
  const files = [
    '-f, --file <file>',
    'one tier, or `tiers:` with a list of them, as YAML or JSON; `-` reads standard input',
  ] as const
  tier
    .command('apply')
    .requiredOption(...files)
    .description('make your tiers equal to the file; tiers that it does not name stay')
    .addHelpText('after', RULE_HELP)
    .action(action((session, { file }: { file: string }) => applyTiers(session, file)))
  tier
    .command('diff')
    .requiredOption(...files)
    .description('show what `tier apply` would change; changes nothing')
    .action(action((session, { file }: { file: string }) => diffTiers(session, file)))
  tier
    .command('remove')
    .argument('<id>', 'the tier, as `policies` names it; the beginning of its id will do')
    .option('--if-match <template_id>', 'only while this is its version')
    .option('--yes', 'without being asked at a terminal')
    .description(
      'its resources are denied from now on, and grants under it end; asks you first at a terminal',
    )
    .action(action(removeTier))
  tier
    .command('preview')
    .argument('<file>', FILE)
    .description('show what it would have answered to each request in your ledger; changes nothing')
    .action(action(preview))
  program.command('vocabulary').description('the words rules are written in').action(action(vocabulary))
  program
    .command('operators')
    .description('who runs the agents you know, and whether you blocked them')
    .action(action(operators))
  for (const [verb, says] of [
    ['claim', 'say that this operator is your own'],
    ['disclaim', 'take that back'],
  ] as const) {
    program
      .command(verb)
      .argument('<origin>', 'the operator, as https://operator.example')
      .description(says)
      .action(action((session, origin: string) => actOn(session, verb, origin)))
  }
}

interface Match {
  ifMatch?: string
}

async function addTier(session: OwnerSession, file: string): Promise<void> {
  const saved = await ask(session, { method: 'POST', path: '/owner/policies', body: await readTier(file) })
  report(session, saved, `Added: ${printable(templateOf(saved))} is offered from now on.\n`)
}

async function editTier(session: OwnerSession, name: string, file: string, options: Match): Promise<void> {
  const body = await readTier(file)
  const saved = await ofTier(session, name, path =>
    ask(session, { method: 'PUT', path, body, ...matching(options) }),
  )
  report(session, saved, `Edited: ${printable(templateOf(saved))} is offered from now on.\n`)
}

/** Acts on the tier with that name, or the only one that begins with it. */
function ofTier<T>({ client }: OwnerSession, name: string, act: (path: string) => Promise<T>): Promise<T> {
  return named(
    name,
    id => act(`/owner/policies/${encodeURIComponent(id)}`),
    async () => (await client.policies()).map(({ id }) => id),
  )
}

async function preview(session: OwnerSession, file: string): Promise<void> {
  const tier = await readTier(file)
  const requests: TriedRequest[] = []
  let [after, warnings]: [number | null, string[]] = [0, []]
  while (after !== null) {
    const answer = await ask(session, {
      method: 'POST',
      path: '/owner/policies/preview',
      body: { tier, after },
    })
    const page = answer as unknown as TierPreview
    requests.push(...page.requests)
    ;({ warnings, next: after } = page)
  }
  const changed = requests.filter(one => one.was !== one.would).length
  const names = session.columns === undefined ? NO_RESOURCE_NAMES : await resourceNamesOf(session)
  tell(session, { requests, changed, warnings }, (all, columns) => previewText(all, columns, names))
}

function previewText(
  { requests, changed, warnings }: Pick<TierPreview, 'requests' | 'warnings'> & { changed: number },
  columns: number | undefined,
  names: ResourceNames,
): string {
  const rows = requests.map(one => [
    one.seq,
    namedResource(one.resource_id, names) ?? one.resource_id,
    one.handle,
    one.was,
    one.was === one.would ? 'the same' : one.would,
    one.because,
  ])
  const head = ['seq', 'resource', 'agent', 'was', 'would be', 'because']
  return (
    (rows.length === 0 ? '' : table(head, rows, columns)) +
    `${changed} of ${requests.length} requests in your ledger would have been answered otherwise.\n` +
    warningLines(warnings)
  )
}

async function vocabulary(session: OwnerSession): Promise<void> {
  const words = (await session.client.ask({
    method: 'GET',
    path: '/owner/policy-vocabulary',
  })) as unknown as VocabularyWord[]
  tell(session, words, (found, columns) => {
    const rows = found.map(word => [conditionForm(word), word.may_relax ? 'yes' : 'no', word.label])
    return table(['write', 'may relax', 'it holds if'], rows, columns)
  })
}

async function operators(session: OwnerSession): Promise<void> {
  tell(session, await readAll(session.client.operators()), operatorTable)
}

function operatorTable(list: Operator[], columns?: number): string {
  if (list.length === 0) return 'No agent you know names an operator.\n'
  const rows = list.map(one => [
    one.origin,
    one.name,
    one.agents,
    one.active,
    one.blocked ? 'blocked' : '-',
    one.mine ? 'yours' : '-',
  ])
  return table(['operator', 'calls itself', 'agents', 'active', 'blocked', 'yours'], rows, columns)
}

/** Blocks, unblocks, claims or disclaims an operator. */
export async function actOn(session: OwnerSession, verb: string, origin: string): Promise<void> {
  const done = await ask(session, { method: 'POST', path: `/owner/operators/${verb}`, body: { origin } })
  const ended = done['connections_revoked'] as number | undefined
  const sentence = ended === undefined || ended === 0 ? '' : ` Connections ended: ${ended}.`
  report(session, done, `${verb} ${printable(origin)}: done.${sentence}\n`)
}

async function ask(session: OwnerSession, request: ApiRequest): Promise<JsonObject> {
  const answer: Json | undefined = await session.client.ask(request)
  if (answer !== undefined && isJsonObject(answer)) return answer
  throw new UsageError('The authority answered with something else than a record: is this its owner API?')
}

function matching({ ifMatch }: Match): { headers?: Record<string, string> } {
  return ifMatch === undefined ? {} : { headers: { 'if-match': `"${ifMatch}"` } }
}

function templateOf(saved: JsonObject): string {
  return (saved['terms'] as { template_id: string }).template_id
}

function report(session: OwnerSession, answer: JsonObject, sentence: string): void {
  tell(
    session,
    answer,
    ({ warnings }) =>
      sentence +
      waitingSentence(answer as StillWaiting) +
      warningLines((warnings as string[] | undefined) ?? []),
  )
}

function warningLines(warnings: readonly string[]): string {
  return warnings.map(warning => `Note: ${printable(warning)}\n`).join('')
}
