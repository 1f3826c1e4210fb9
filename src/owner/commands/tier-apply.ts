/**
 * Owns `usher owner tier apply|diff`: tiers from a file, which an owner can keep under version control.
 * Contract: "Owner API" (`/owner/policies*`). A tier is replaced only in the version that it was compared
 * with.
 */
import { UsageError } from '../../terminal/command.ts'
import { printable, printableValue } from '../../terminal/printable.ts'
import { isJsonObject, type Json, type JsonObject } from '../../wire/json.ts'
import type { Tier } from '../../wire/owner/owner-api.ts'
import { tell, type OwnerSession } from '../session.ts'
import { waitingSentence } from '../display/show.ts'
import { readTiers, withoutVersion } from '../tier-file.ts'

/** One member that differs: its path, and both values; undefined if one side has none. */
interface TierDifference {
  member: string
  is: Json | undefined
  becomes: Json | undefined
}

interface TierPlan {
  id: string
  change: 'add' | 'edit' | 'none'
  differences: TierDifference[]
  tier: JsonObject
  /** The version that it was compared with. */
  version: string | undefined
}

/** Says what `applyTiers` would do. */
export async function diffTiers(session: OwnerSession, file: string): Promise<void> {
  const plan = await planOf(session, file)
  const report = plan.map(({ id, change, differences }) => ({ id, change, differences }))
  tell(session, report, all => all.map(planText).join(''))
}

/** Adds and edits tiers until they are as the file says. Stops at the first that the authority refuses. */
export async function applyTiers(session: OwnerSession, file: string): Promise<void> {
  const done: { id: string; change: TierPlan['change']; saved: JsonObject | null }[] = []
  for (const planned of await planOf(session, file))
    done.push({ id: planned.id, change: planned.change, saved: await apply(session, planned) })
  tell(session, done, all => all.map(({ id, change, saved }) => doneText(id, change, saved)).join(''))
}

async function planOf({ client }: OwnerSession, file: string): Promise<TierPlan[]> {
  const tiers = await readTiers(file)
  const current = await client.policies()
  return tiers.map(tier => {
    const before = current.find(({ id }) => id === tier.id)
    if (before === undefined) return { id: tier.id, change: 'add', differences: [], tier, version: undefined }
    const differences = differencesOf(withoutVersion(before as Tier & JsonObject), tier)
    const change = differences.length === 0 ? 'none' : 'edit'
    return { id: tier.id, change, differences, tier, version: before.terms.template_id }
  })
}

async function apply(
  { client }: OwnerSession,
  { id, change, tier, version }: TierPlan,
): Promise<JsonObject | null> {
  if (change === 'none') return null
  const answer = await client.ask(
    change === 'add'
      ? { method: 'POST', path: '/owner/policies', body: tier }
      : {
          method: 'PUT',
          path: `/owner/policies/${encodeURIComponent(id)}`,
          body: tier,
          headers: { 'if-match': `"${version}"` },
        },
  )
  if (answer !== undefined && isJsonObject(answer)) return answer
  throw new UsageError('The authority answered with something else than a tier: is this its owner API?')
}

/** A missing and an empty member are the same, because the authority fills in what is missing. */
function differencesOf(is: Json | undefined, becomes: Json | undefined, member = ''): TierDifference[] {
  if (isJsonObject(is) && isJsonObject(becomes)) {
    const names = [...new Set([...Object.keys(is), ...Object.keys(becomes)])]
    return names.flatMap(name =>
      differencesOf(is[name], becomes[name], member === '' ? name : `${member}.${name}`),
    )
  }
  if (isEmpty(is) && isEmpty(becomes)) return []
  return JSON.stringify(is) === JSON.stringify(becomes) ? [] : [{ member, is, becomes }]
}

function isEmpty(value: Json | undefined): boolean {
  if (Array.isArray(value)) return value.length === 0
  return value === undefined || value === false || (isJsonObject(value) && Object.keys(value).length === 0)
}

const CHANGES = { add: 'is added', edit: 'is edited', none: 'is as the file says' }

function planText({ id, change, differences }: Pick<TierPlan, 'id' | 'change' | 'differences'>): string {
  const lines = differences.map(
    ({ member, is, becomes }) =>
      `  ${printable(member)}: ${printableValue(is)} → ${printableValue(becomes)}\n`,
  )
  return `${printable(id)} ${CHANGES[change]}${lines.length === 0 ? '.' : ':'}\n${lines.join('')}`
}

function doneText(id: string, change: TierPlan['change'], saved: JsonObject | null): string {
  if (saved === null) return `${printable(id)} ${CHANGES[change]}.\n`
  const { template_id } = saved['terms'] as { template_id: string }
  const warnings = ((saved['warnings'] as string[] | undefined) ?? []).map(one => `Note: ${printable(one)}\n`)
  const offered = `${printable(id)} ${CHANGES[change]}: ${printable(template_id)} is offered from now on.\n`
  return offered + waitingSentence(saved) + warnings.join('')
}
