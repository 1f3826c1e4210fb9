/**
 * Owns whether terms may be signed: a person was shown them and agreed, or named their hash beforehand, or
 * agreed to exactly these terms before. Contract: "Terms document", "Agreement (claim_token, beat
 * 3)": terms that changed are other terms.
 */
import { readFile } from 'node:fs/promises'
import { s256Json } from '../../../wire/encoding.ts'
import type { Json } from '../../../wire/json.ts'
import type { TermsTemplate } from '../../../wire/negotiation/terms.ts'
import { fail } from '../../agent-error.ts'
import { UsageError } from '../../../terminal/command.ts'
import { fetchDocument } from '../../transports/transport.ts'
import { foreignWhole } from '../answers/foreign-text.ts'
import type { BridgeState } from './state.ts'

/** Terms as a person is asked about them. */
export interface TermsOffer {
  resource: string
  tool: string
  template: TermsTemplate
  /** Hash of the tool as it was listed when the offer was made. */
  definition: string
  /** `terms_s256` of the owner's console: of the JSON document at `terms_uri`. */
  terms_s256: string
  /** Everything that she is shown, and what it is shown for: she agrees to all of this. */
  consent: Json
}

/** Hashes of terms that somebody accepted beforehand. */
export type AcceptedBeforehand = ReadonlySet<string>

const S256 = /^(?:s256:)?([A-Za-z0-9_-]{43})$/

/**
 * The hashes of `--accept-terms`: one, or `any-of` and a file with one on each line. A `UsageError` for
 * anything else.
 */
export async function readAcceptedTerms(option: readonly string[] | undefined): Promise<AcceptedBeforehand> {
  const [first, file, ...rest] = option ?? []
  if (first === undefined) return new Set()
  if (first !== 'any-of') {
    if (file !== undefined)
      throw new UsageError(
        'Give --accept-terms one hash. For several, write each on a line of a file (usher owner terms --hashes prints them) and give: --accept-terms any-of FILE',
      )
    return new Set([hashIn(first)])
  }
  if (file === undefined || rest.length > 0) throw new UsageError('Give --accept-terms any-of one file.')
  const text = await readFile(file, 'utf8').catch((cause: unknown) => {
    throw new UsageError(`${file} cannot be read.`, { cause })
  })
  return new Set(
    text
      .split(/\r\n|\r|\n/)
      .map(line => line.trim())
      .filter(line => line !== '')
      .map(hashIn),
  )
}

function hashIn(text: string): string {
  const [, hash] = S256.exec(text.trim()) ?? []
  if (hash === undefined) throw new UsageError(`${text} is no hash of terms.`)
  return hash
}

/**
 * The whole offer: its document is read, and must say what the template says. Fails with `terms_untrusted` if
 * they do not, or if the terms are too long to be shown whole.
 */
export async function readOffer(
  of: { resource: string; tool: string; definition: string; template: TermsTemplate },
  signal: AbortSignal | undefined,
): Promise<TermsOffer> {
  const { template, resource, tool, definition } = of
  const document = await fetchDocument(new URL(template.terms_uri), 'terms document', signal)
  for (const name of PUBLISHED) {
    if (s256Json(document[name] ?? null) !== s256Json(template[name]))
      fail('terms_untrusted', `The terms offered and the terms published differ in ${name}.`)
  }
  if ((document['per_operation'] ?? false) !== (template.per_operation ?? false))
    fail('terms_untrusted', 'The terms offered and the terms published differ in per_operation.')
  if (termsText({ template }).length > TERMS_LENGTH_MAX)
    fail('terms_untrusted', 'The terms are too long to be shown whole, so nobody can agree to them.')
  const terms_s256 = s256Json(document)
  const { proffered_by, resource_id } = template
  const consent = { resource, tool, definition, proffered_by, resource_id, terms_s256 }
  return { resource, tool, template, definition, terms_s256, consent }
}

/**
 * The parts that offer and document must have in common. One part says whose terms they are, because a copy
 * that another authority publishes has the same hash.
 */
const PUBLISHED = [
  'template_id',
  'terms_uri',
  'proffered_by',
  'purpose',
  'scope',
  'expires_in',
  'prohibited',
] as const
const TERMS_LENGTH_MAX = 8000

/** Whether the terms were agreed to already, for the tool as it is listed now. */
export async function isAgreed(
  offer: TermsOffer,
  beforehand: AcceptedBeforehand,
  state: BridgeState,
): Promise<boolean> {
  return beforehand.has(hashIn(offer.terms_s256)) || (await state.agreed(offer.consent))
}

/** The terms in lines, each value escaped, so that nothing in one line can look like another line. */
export function termsText({ template }: Pick<TermsOffer, 'template'>): string {
  const { purpose, scope, expires_in, prohibited, per_operation, template_id, proffered_by } = template
  const words = (texts: readonly string[]): string => texts.map(foreignWhole).join('; ')
  const notice =
    per_operation === true ? 'The owner is asked each time, with the exact arguments.' : undefined
  return [
    `Purpose: ${foreignWhole(purpose)}`,
    `Allowed: ${words(scope)}`,
    `Prohibited: ${prohibited.length === 0 ? 'nothing more' : words(prohibited)}`,
    `Lasts: ${expires_in} seconds`,
    ...(notice === undefined ? [] : [notice]),
    `Terms ${foreignWhole(template_id)} of ${foreignWhole(proffered_by)}`,
  ].join('\n')
}
