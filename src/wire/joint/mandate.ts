/**
 * Owns the form of a mandate: who holds an account jointly, with what weight, and how many must agree.
 * Contract: "Tally for a jointly held resource" (`/mandate/{account}`). Which mandates are lawful is
 * rules/joint/mandate.ts.
 */
import { s256Json } from '../encoding.ts'
import { asOwner, type Owner } from '../identifiers.ts'
import type { JsonObject } from '../json.ts'
import {
  asObject,
  integerMember,
  member,
  objectMember,
  textMember,
  textsMember,
  wordMember,
} from '../json-members.ts'
import { refuse } from '../refusal.ts'

/** One holder: an owner, at the authorization server that signs for her. `issuer` ends without a slash. */
export type MandateHolder = { owner: Owner; issuer: string; weight: number }

const KINDS = ['all', 'any', 'threshold'] as const

/** `threshold` is the weight that is needed, whatever the kind. */
export type MandateRule = { kind: (typeof KINDS)[number]; threshold: number }

/**
 * rules/joint/mandate.ts says what a mandate means; other members of its document (`total_weight`, `summary`)
 * follow from it.
 */
export type Mandate = {
  account: Owner
  /** Issuer of the tally, without a slash at its end. */
  tally: string
  /** Patterns of resource ids. */
  resources: string[]
  holders: MandateHolder[]
  rule: MandateRule
}

/**
 * A mandate as somebody wrote or sent it. `threshold` may be left out if the kind implies it. Refuses
 * (`invalid_request`) a member of another type, and a `total_weight` or a `threshold` that is not the one
 * that follows from the rest. It does not judge whether the mandate is lawful: `mandateFault` does that.
 */
export function parseMandate(value: unknown): Mandate {
  const mandate = asObject(value, 'a mandate')
  const holders = readHolders(mandate)
  const total = totalWeight({ holders })
  if (member(mandate, 'total_weight') !== undefined && integerMember(mandate, 'total_weight') !== total)
    refuse('invalid_request', 'Give total_weight as the sum of the weights, or leave it out.')
  return {
    account: asOwner(textMember(mandate, 'account')),
    tally: withoutSlash(textMember(mandate, 'tally')),
    resources: textsMember(mandate, 'resources'),
    holders,
    rule: readRule(objectMember(mandate, 'rule'), total),
  }
}

/** The weight of all holders together. */
export function totalWeight({ holders }: Pick<Mandate, 'holders'>): number {
  return holders.reduce((sum, { weight }) => sum + weight, 0)
}

/**
 * The digest by which holders agree to a mandate and enforcement points pin it: over holders, resources and
 * rule, in one order, so that two spellings of one mandate have the same digest.
 */
export function mandateDigest({ holders, resources, rule }: Mandate): string {
  const inOrder = holders
    .map(({ owner, issuer, weight }) => ({ owner, issuer: withoutSlash(issuer), weight }))
    .toSorted((a, b) => compareText(a.owner, b.owner) || compareText(a.issuer, b.issuer))
  return s256Json({
    holders: inOrder,
    resources: resources.toSorted(compareText),
    rule: { kind: rule.kind, threshold: rule.threshold },
  })
}

/**
 * The purpose of folded terms. It is made only from the account. Holders' servers do not quote it, but
 * recognize it in an agreement.
 */
export function jointPurpose(account: Owner): string {
  return `Use of ${account}, as its holders allow it together.`
}

/** An issuer as mandates name it: `https://as.example/` is `https://as.example`. */
export function withoutSlash(issuer: string): string {
  return issuer.endsWith('/') ? issuer.slice(0, -1) : issuer
}

function readHolders(mandate: JsonObject): MandateHolder[] {
  const holders = member(mandate, 'holders')
  if (!Array.isArray(holders)) refuse('invalid_request', 'Give holders as a list.')
  return holders.map(one => {
    const holder = asObject(one, 'each of holders')
    return {
      owner: asOwner(textMember(holder, 'owner')),
      issuer: withoutSlash(textMember(holder, 'issuer')),
      weight: integerMember(holder, 'weight'),
    }
  })
}

function readRule(rule: JsonObject, total: number): MandateRule {
  const kind = wordMember(rule, 'kind', KINDS)
  const implied = kind === 'all' ? total : kind === 'any' ? 1 : undefined
  const isLeftOut = implied !== undefined && member(rule, 'threshold') === undefined
  const threshold = isLeftOut ? implied : integerMember(rule, 'threshold')
  if (implied !== undefined && threshold !== implied)
    refuse('invalid_request', `Give the threshold of "${kind}" as ${implied}, or leave it out.`)
  return { kind, threshold }
}

/** Compares by code points, which is the order of the UTF-8 bytes. */
function compareText(a: string, b: string): number {
  return Buffer.compare(Buffer.from(a), Buffer.from(b))
}
