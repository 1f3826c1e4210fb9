/**
 * Owns what a holder's authorization server answers to a tally: her terms over one resource, and the state of
 * her verdict. Contract: "Tally for a jointly held resource" (`/joint/quote`, `/joint/verdict`). The requests
 * and the signed verdict are verdict.ts.
 */
import { asFamily, type Family, type Owner } from '../identifiers.ts'
import {
  asObject,
  compactMember,
  integerMember,
  member,
  objectMember,
  textMember,
  textsMember,
  wordMember,
  booleanMember,
} from '../json-members.ts'
import { refuse } from '../refusal.ts'

/** Why she offers or allows nothing. Her rules, her record and what is attested about her stay with her. */
export const WITHHELD = [
  'not_agreed',
  'mandate_changed',
  'no_tier',
  'terms',
  'operator',
  'clearance',
  'policy',
  'denied',
  'expired',
] as const
export type Withheld = (typeof WITHHELD)[number]

/** Her terms over the one resource in question; `expires_in` in seconds. */
export type QuotedTier = {
  name: string
  resources: string[]
  ask_me: boolean
  terms: { expires_in: number; scope: string[]; prohibited: string[]; per_operation: boolean }
}

export type Quote =
  | { owner: Owner; tier_id: string; tier: QuotedTier }
  | { owner: Owner; tier: null; because: Withheld }

/**
 * A received quote of one holder for one resource, each member of its type; unknown members are dropped.
 * Refuses (`invalid_request`) a quote of another holder or for another resource.
 */
export function parseQuote(json: unknown, of: { owner: Owner; resource_id: string }): Quote {
  const object = asObject(json, 'a quote')
  const { owner } = of
  if (textMember(object, 'owner') !== owner) refuse('invalid_request', 'Quote for the holder who was asked.')
  if (member(object, 'tier') === null)
    return { owner, tier: null, because: wordMember(object, 'because', WITHHELD) }
  const tier = objectMember(object, 'tier')
  const resources = textsMember(tier, 'resources')
  if (resources.length !== 1 || resources[0] !== of.resource_id)
    refuse('invalid_request', 'Quote for the one resource that was asked about.')
  const terms = objectMember(tier, 'terms')
  return {
    owner,
    tier_id: textMember(object, 'tier_id'),
    tier: {
      name: textMember(tier, 'name'),
      resources,
      ask_me: booleanMember(tier, 'ask_me'),
      terms: {
        expires_in: integerMember(terms, 'expires_in', 1),
        scope: textsMember(terms, 'scope'),
        prohibited: textsMember(terms, 'prohibited'),
        per_operation: booleanMember(terms, 'per_operation'),
      },
    },
  }
}

/**
 * The state of a verdict: her signed verdict; or nothing yet, with `ready` if she would allow it at the final
 * question. `family` is the name under which she is asked, and only her own negotiation has it.
 */
export type VerdictAnswer =
  | { verdict: string }
  | { pending: true; family: Family; ready: boolean }
  | { closed: true }

/**
 * A received answer to a question for a verdict, each member of its type. Refuses (`invalid_request`) any
 * other form. The verdict in it is not verified.
 */
export function parseVerdictAnswer(json: unknown): VerdictAnswer {
  const object = asObject(json, 'the answer')
  if (member(object, 'verdict') !== undefined) return { verdict: compactMember(object, 'verdict') }
  if (member(object, 'closed') === true) return { closed: true }
  if (member(object, 'pending') !== true)
    refuse('invalid_request', 'Answer with a verdict, or that it is pending.')
  return {
    pending: true,
    family: asFamily(textMember(object, 'family')),
    ready: booleanMember(object, 'ready'),
  }
}
