/**
 * Owns a new allowance while she writes it: the fields of its form, and the allowance that they make.
 * Contract: "Owner API" (`/owner/allowances/{id}`), "Policy vocabulary and tiers".
 */
import { allowanceFault } from '../../rules/allowance/allowance.ts'
import { CALLS } from '../../rules/allowance/judge-operation.ts'
import type { AllowancePeriod, TierAllowance } from '../../wire/documents/allowance.ts'
import { jsonIn, type Json } from '../../wire/json.ts'
import { WORDS } from '../words.ts'
import type { AllowanceMembers } from './record.ts'

const W = WORDS.allowances

/** An amount, and where it stands at the tier; a field that is left empty is left out. */
export interface AmountFields {
  name: string
  pointer: string
  as: TierAllowance['amounts'][string]['as']
  eachMax: string
  unit: string
  unitPointer: string
}
export interface WindowFields {
  of: string
  per: AllowancePeriod
  max: string
}
/** `values` has one value a line. */
export interface OnlyFields {
  pointer: string
  kind: 'text' | 'json'
  values: string
}

/** `until` is local time, as an input of a browser writes it; empty for no end. */
export interface AllowanceForm {
  id: string
  tier: string
  tools: string[]
  amounts: AmountFields[]
  windows: WindowFields[]
  only: OnlyFields[]
  free: string[]
  among: AllowanceMembers['among']
  zone: string
  until: string
}

export const NEW_AMOUNT: AmountFields = {
  name: '',
  pointer: '',
  as: 'number',
  eachMax: '',
  unit: '',
  unitPointer: '',
}
export const NEW_WINDOW: WindowFields = { of: CALLS, per: 'day', max: '' }
export const NEW_ONLY: OnlyFields = { pointer: '', kind: 'text', values: '' }

/** One tool, and one window: what nobody bounds is never the default. */
export function newForm(tier: string, zone: string): AllowanceForm {
  const lists = { tools: [''], amounts: [], windows: [NEW_WINDOW], only: [], free: [] }
  return { id: '', tier, ...lists, among: 'all', zone, until: '' }
}

/** How long a grant of a new allowance may live. */
const HOLD_SECONDS = 300

/**
 * What the form makes, or why nothing can be made of it, in a sentence. The authority checks it again.
 */
export function membersIn(form: AllowanceForm): { members: AllowanceMembers } | { fault: string } {
  const until = form.until === '' ? null : instantOf(form.until)
  if (until === undefined) return { fault: W.badUntil }
  const only: TierAllowance['only'] = []
  for (const fields of form.only) {
    const read = valuesIn(fields)
    if ('fault' in read) return read
    only.push({ pointer: fields.pointer.trim(), one_of: read.values })
  }
  const tier: TierAllowance = {
    tools: form.tools,
    amounts: Object.fromEntries(form.amounts.map(one => [one.name.trim(), placeOf(one)])),
    only,
    free: form.free.map(one => one.trim()),
  }
  const members: AllowanceMembers = {
    zone: form.zone.trim(),
    among: form.among,
    until,
    hold_s: HOLD_SECONDS,
    amounts: form.amounts.map(amountOf),
    windows: form.windows.map(({ of, per, max }) => ({ of, per, max: max.trim() })),
    tiers: { [form.tier]: tier },
  }
  const fault = allowanceFault(members)
  return fault === undefined ? { members } : { fault }
}

function amountOf({ name, unit, eachMax }: AmountFields): AllowanceMembers['amounts'][number] {
  return {
    name: name.trim(),
    ...(unit.trim() === '' ? {} : { unit: unit.trim() }),
    ...(eachMax.trim() === '' ? {} : { each_max: eachMax.trim() }),
  }
}

function placeOf({ pointer, as, unitPointer }: AmountFields): TierAllowance['amounts'][string] {
  const unit_pointer = unitPointer.trim()
  return { pointer: pointer.trim(), as, ...(unit_pointer === '' ? {} : { unit_pointer }) }
}

/** The ISO 8601 text of a local time; undefined if it is none. */
function instantOf(local: string): string | undefined {
  const at = new Date(local)
  return Number.isNaN(at.getTime()) ? undefined : at.toISOString()
}

/** A text is taken as it stands, with its blanks, because it is compared byte for byte. */
function valuesIn({ pointer, kind, values }: OnlyFields): { values: Json[] } | { fault: string } {
  const lines = values.split('\n').filter(line => line.trim() !== '')
  if (kind === 'text') return { values: lines }
  const read: Json[] = []
  for (const line of lines) {
    const value = jsonIn(line)
    if (value === undefined) return { fault: W.badValue(pointer, line) }
    read.push(value)
  }
  return { values: read }
}
