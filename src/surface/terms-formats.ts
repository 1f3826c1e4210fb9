/**
 * The three representations of one version of terms, and which of them a reader is given.
 * Contract: "Terms document".
 */
import { termsDocument, termsHtml, termsOdrl, type TermsVersion } from '../wire/negotiation/terms.ts'
import type { Issuer } from './issuer.ts'

export const FORMATS = ['json', 'html', 'jsonld'] as const
export type Format = (typeof FORMATS)[number]

export const MEDIA_TYPES: Record<Format, string> = {
  json: 'application/json; charset=utf-8',
  html: 'text/html; charset=utf-8',
  jsonld: 'application/ld+json',
}

/** The text of one representation. */
export function renderTerms(
  { issuer, specNs }: Pick<Issuer, 'issuer' | 'specNs'>,
  version: TermsVersion,
  format: Format,
): string {
  switch (format) {
    case 'json':
      return JSON.stringify(termsDocument(version, issuer))
    case 'html':
      return termsHtml(version, issuer)
    case 'jsonld':
      return JSON.stringify(termsOdrl(version, { issuer, specNs }))
  }
}

/**
 * Chooses by `Accept` (RFC 9110 §12.5.1): the type with the highest weight that we have, and JSON in every
 * other case.
 */
export function preferredFormat(accept: string | undefined): Format {
  const weights = new Map<string, number>()
  for (const part of (accept ?? '').split(',')) {
    const [type = '', ...parameters] = part.split(';').map(text => text.trim().toLowerCase())
    const weight = parameters.find(text => text.startsWith('q='))?.slice(2)
    weights.set(type, weight === undefined ? 1 : Number(weight) || 0)
  }
  const any = weights.get('*/*') ?? 0
  const offered = [
    { format: 'json', weight: weights.get('application/json') ?? weights.get('application/*') ?? any },
    { format: 'html', weight: weights.get('text/html') ?? weights.get('text/*') ?? any },
    { format: 'jsonld', weight: weights.get('application/ld+json') ?? weights.get('application/*') ?? any },
  ] as const
  return offered.reduce((best, next) => (next.weight > best.weight ? next : best)).format
}
