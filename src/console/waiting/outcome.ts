/**
 * How a waiting request ended, in words. Contract: "Owner API" (who decided: `by`, `actor`).
 */
import { isJsonObject, type Json } from '../../wire/json.ts'
import { WORDS } from '../words.ts'

/** `here`: this page decided it. */
export interface ItemOutcome {
  what: 'approved' | 'denied' | 'withdrawn'
  by?: string
  actor?: Json | undefined
  here?: true
}

export function outcomeText({ what, by = '', actor, here }: ItemOutcome): string {
  const W = WORDS.waiting
  if (what === 'withdrawn') return W.withdrawn
  if (here === true) return `${W.decided[what]} ${W.byYouHere}`
  const { kind, admin, name } = isJsonObject(actor) ? actor : {}
  if (kind === 'organization') return `${W.decided[what]} ${W.byAdmin(textOf(admin), textOf(name))}`
  return `${W.decided[what]} ${kind === 'owner' ? W.byYouElsewhere : W.bySomebody(by)}`
}

function textOf(value: Json | undefined): string {
  return typeof value === 'string' ? value : '?'
}
