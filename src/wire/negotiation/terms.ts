/**
 * Owns an owner's terms: the template that an agent is offered, and the terms document in its three
 * representations. Contract: "need_info answer (beat 2)" (terms_template), "Terms document"; ODRL 2.2.
 */
import type { Json, JsonObject } from '../json.ts'
import { escapeHtml } from '../html.ts'
import { asObject, integerMember, member, textMember, textsMember, urlMember } from '../json-members.ts'
import { AUTHORITY_PATH, specNames } from '../names.ts'
import { refuse } from '../refusal.ts'
import { asFamily, asOwner, type Family, type Owner } from '../identifiers.ts'

/**
 * The `terms_template` of a need_info answer; `expires_in` in seconds. Its members reappear in the agreement.
 */
export type TermsTemplate = {
  template_id: string
  terms_uri: string
  proffered_by: string
  purpose: string
  scope: string[]
  expires_in: number
  prohibited: string[]
  resource_id: string
  family: Family
  nonce: string
  /** Present, and true, if the owner is asked about each use; the agreement then needs an `operation`. */
  per_operation?: true
}

/**
 * Members of a template that an agreement may leave out: `template_id`, `terms_uri`, `family` and `nonce`
 * already name one offer, by one authority, of one resource. Some agents leave these out; a value that
 * differs from the offer is refused.
 */
export const OPTIONAL_ECHOES = ['proffered_by', 'resource_id'] as const
export type OptionalEcho = (typeof OPTIONAL_ECHOES)[number]

/** One immutable version of a tier's terms. `expires_in` in seconds, `published_at` in ISO 8601. */
export interface TermsVersion {
  readonly owner: Owner
  readonly tier_id: string
  readonly version: number
  readonly name: string
  readonly purpose: string
  readonly scope: readonly string[]
  readonly expires_in: number
  readonly prohibited: readonly string[]
  readonly per_operation: boolean
  readonly published_at: string
  /**
   * The owners whose terms were folded into these, if several hold the resource; `owner` is the account then.
   */
  readonly holders?: readonly { readonly owner: Owner; readonly issuer: string }[]
}

/**
 * What enforces a prohibition. `scope`: the enforcement point lets no call pass that needs a scope of this
 * name. `operation`: the grant is for one other call. `promise`: only the agent's signed promise, kept with
 * the receipt.
 */
export type EnforcedProhibition = { prohibition: string; by: 'scope' | 'operation' | 'promise' }

/** The Content-Security-Policy of the HTML representation, which loads, runs and submits nothing. */
export const TERMS_HTML_POLICY =
  "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

/** `<owner>/<tier>/v<n>` (contract: namespaced by owner, versioned). */
export function templateId(owner: Owner, tier: string, version: number): string {
  return `${owner}/${tier}/v${version}`
}

/** The parts of a template id; undefined if the text is not one. */
export function parseTemplateId(
  text: string,
): { owner: Owner; tier_id: string; version: number } | undefined {
  const [, owner, tier_id, digits] = /^([^/]+)\/([^/]+)\/v([1-9]\d{0,8})$/.exec(text) ?? []
  if (owner === undefined || tier_id === undefined || digits === undefined) return undefined
  return { owner: asOwner(owner), tier_id, version: Number(digits) }
}

/**
 * The URL at which a version stays dereferenceable, `{issuer}/terms/<owner>/<tier>/v<n>`, each segment
 * encoded.
 */
export function termsUri(issuer: string, template_id: string): string {
  return `${issuer}${AUTHORITY_PATH.terms}/${template_id.split('/').map(encodeURIComponent).join('/')}`
}

/** The offer of a version in one negotiation. */
export function offerTemplate(
  version: TermsVersion,
  of: { issuer: string; resource_id: string; family: Family; nonce: string },
): TermsTemplate {
  return {
    ...profferedTerms(version, of.issuer),
    resource_id: of.resource_id,
    family: of.family,
    nonce: of.nonce,
    ...(version.per_operation ? { per_operation: true } : {}),
  }
}

/**
 * A received terms template, each member of its type; members that it does not know are dropped. Refuses
 * others.
 */
export function parseTermsTemplate(json: unknown): TermsTemplate {
  const object = asObject(json, 'terms_template')
  const scope = textsMember(object, 'scope')
  if (scope.length === 0) refuse('invalid_request', 'Offer at least one scope.')
  return {
    template_id: textMember(object, 'template_id'),
    terms_uri: urlMember(object, 'terms_uri'),
    proffered_by: urlMember(object, 'proffered_by'),
    purpose: textMember(object, 'purpose'),
    scope,
    expires_in: integerMember(object, 'expires_in', 1),
    prohibited: textsMember(object, 'prohibited'),
    resource_id: textMember(object, 'resource_id'),
    family: asFamily(textMember(object, 'family')),
    nonce: textMember(object, 'nonce'),
    ...readPerOperation(object),
  }
}

/** The JSON representation of one version. */
export function termsDocument(version: TermsVersion, issuer: string): JsonObject {
  return {
    ...profferedTerms(version, issuer),
    name: version.name,
    tier: version.tier_id,
    published_at: version.published_at,
    ...(version.per_operation ? { per_operation: true } : {}),
    ...(version.holders === undefined ? {} : { holders: version.holders.map(holder => ({ ...holder })) }),
    enforced: enforcedTerms(version),
  }
}

/** The roster of an owner's current terms, `GET /terms`. */
export function termsRoster(owner: Owner, issuer: string, versions: readonly TermsVersion[]): JsonObject {
  return { owner, proffered_by: issuer, terms: versions.map(version => termsDocument(version, issuer)) }
}

/**
 * The plain-language representation: a whole HTML page, every value escaped, no script, no style, no agent
 * named.
 */
export function termsHtml(version: TermsVersion, issuer: string): string {
  const { owner, name, purpose, scope, prohibited } = version
  const id = templateId(owner, version.tier_id, version.version)
  return `<!doctype html>
<html lang="en">
<head><meta charset="utf-8"><title>${escapeHtml(name)}: terms of ${escapeHtml(owner)}</title></head>
<body>
<h1>${escapeHtml(name)}</h1>
<p>These are terms of ${escapeHtml(owner)}. Whoever signs them may use what they cover, and promises to keep to them.</p>
<h2>What it may be used for</h2>
<p>${escapeHtml(purpose)}</p>
<h2>What is allowed</h2>
${htmlList(scope, 'Nothing.')}
<h2>What is prohibited</h2>
${htmlList(prohibited, 'Nothing is prohibited beyond what is not allowed.')}
<h2>For how long</h2>
<p>Each grant ends after ${plainDuration(version.expires_in)} at the latest, or as soon as ${escapeHtml(owner)} revokes it.</p>
${holdersText(version)}
<h2>What is enforced</h2>
<p>What is allowed and for how long is enforced at every use. Purpose and prohibitions are promises, kept with the signature.</p>
<p>Version ${escapeHtml(id)}, published ${escapeHtml(version.published_at)} by ${escapeHtml(issuer)}.</p>
</body>
</html>
`
}

/** Who is asked, and how often. */
function holdersText({ owner, per_operation, holders }: TermsVersion): string {
  if (holders === undefined)
    return per_operation
      ? `<p>${escapeHtml(owner)} is asked before every single use, and approves it with its exact parameters.</p>`
      : `<p>${escapeHtml(owner)} decides once about an agent, and as a rule not again at each use.</p>`
  const names = holders.map(holder => `${holder.owner} at ${holder.issuer}`)
  return `<h2>Who holds it</h2>
${htmlList(names, 'Nobody.')}
<p>These terms are what theirs have in common. ${
    per_operation
      ? 'They are asked before every single use, and approve it with its exact parameters.'
      : 'Each of them answers for herself, through her own authorization server.'
  }</p>`
}

/**
 * The JSON-LD representation (`?format=jsonld`, `application/ld+json`): an ODRL 2.2 Offer by the owner, one
 * permission per scope within the purpose and duration, one prohibition per prohibited item; where they meet,
 * the prohibition wins.
 */
export function termsOdrl(version: TermsVersion, where: { issuer: string; specNs: string }): JsonObject {
  const { termsProfile } = specNames(where.specNs)
  const uid = termsUri(where.issuer, templateId(version.owner, version.tier_id, version.version))
  const target = `${uid}#resources`
  const constraint = [
    { leftOperand: 'purpose', operator: 'eq', rightOperand: version.purpose },
    {
      leftOperand: 'elapsedTime',
      operator: 'lteq',
      rightOperand: { '@value': `PT${version.expires_in}S`, '@type': 'xsd:duration' },
    },
  ]
  const duty = version.per_operation ? { duty: [{ action: 'obtainConsent' }] } : {}
  return {
    '@context': ['http://www.w3.org/ns/odrl.jsonld', { description: 'http://purl.org/dc/terms/description' }],
    '@type': 'Offer',
    uid,
    profile: termsProfile,
    conflict: 'prohibit',
    assigner: assigners(version, where.issuer),
    description: version.name,
    permission: version.scope.map(scope => ({
      target,
      action: actionIri(termsProfile, 'scope', scope),
      description: scope,
      constraint,
      ...duty,
    })),
    prohibition: version.prohibited.map(item => ({
      target,
      action: actionIri(termsProfile, 'prohibited', item),
      description: item,
    })),
  }
}

/** The owners of the terms, each at her own server. */
function assigners({ owner, holders }: TermsVersion, issuer: string): string | string[] {
  const named = (at: string, who: Owner): string =>
    `${at}${AUTHORITY_PATH.terms}?owner=${encodeURIComponent(who)}`
  return holders === undefined
    ? named(issuer, owner)
    : holders.map(holder => named(holder.issuer, holder.owner))
}

/** The members that every representation of a version shares with the template. */
function profferedTerms(
  version: TermsVersion,
  issuer: string,
): Omit<TermsTemplate, 'resource_id' | 'family' | 'nonce'> {
  const id = templateId(version.owner, version.tier_id, version.version)
  return {
    template_id: id,
    terms_uri: termsUri(issuer, id),
    proffered_by: issuer,
    purpose: version.purpose,
    scope: [...version.scope],
    expires_in: version.expires_in,
    prohibited: [...version.prohibited],
  }
}

/**
 * The part of the terms that is enforced at every use, in the words of a pending item; the agent promises the
 * rest. The document is of no resource in particular, so it claims no check for a prohibition: what the
 * scopes and tools of one resource enforce is said when somebody asks for that resource.
 */
function enforcedTerms({ scope, expires_in, per_operation, prohibited }: TermsVersion): JsonObject {
  const promised = prohibited.map((prohibition): EnforcedProhibition => ({ prohibition, by: 'promise' }))
  return {
    scope: [...scope],
    expires_in,
    single_use: per_operation,
    operation_bound: per_operation,
    prohibited: promised,
  }
}

/** Absent and false mean the same, so that the template has one spelling. */
function readPerOperation(object: JsonObject): { per_operation?: true } {
  const value: Json | undefined = member(object, 'per_operation')
  if (value === undefined || value === false) return {}
  return value === true
    ? { per_operation: true }
    : refuse('invalid_request', 'Give per_operation as true or false.')
}

/** Scopes and prohibitions are the owner's own words; as IRIs they live in the profile's namespace. */
function actionIri(profile: string, kind: string, word: string): string {
  // toWellFormed: a half surrogate pair would make encodeURIComponent throw.
  return `${profile}#${kind}:${encodeURIComponent(word.toWellFormed())}`
}

function htmlList(items: readonly string[], none: string): string {
  if (items.length === 0) return `<p>${none}</p>`
  return `<ul>\n${items.map(item => `<li>${escapeHtml(item)}</li>`).join('\n')}\n</ul>`
}

const SPANS: readonly (readonly [number, string])[] = [
  [86_400, 'day'],
  [3600, 'hour'],
  [60, 'minute'],
]

/** 5400 is `90 minutes`: the largest unit that divides it. */
function plainDuration(seconds: number): string {
  const [size, unit] = SPANS.find(([size]) => seconds % size === 0) ?? [1, 'second']
  const count = seconds / size
  return `${count} ${unit}${count === 1 ? '' : 's'}`
}
