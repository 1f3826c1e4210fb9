/**
 * Owns beat 1: the challenge in its two encodings, and the remediation inside. Contract: "Challenge (beat
 * 1)"; RFC 9396; RFC 6750 §3.
 */
import { formatAuthChallenge, parseAuthChallenges } from './auth-challenges.ts'
import { decodeBase64url, encodeBase64url, s256Json } from '../encoding.ts'
import { parseJson, type Json, type JsonObject } from '../json.ts'
import { asObject, member, objectMember, textMember, textsMember, urlMember } from '../json-members.ts'
import { CHALLENGE_ERROR, specNames, UMA_SCHEME } from '../names.ts'
import { refuse } from '../refusal.ts'
import type { Owner } from '../identifiers.ts'

/** One RFC 9396 object: the tool call that was refused. */
export type AuthorizationDetail = {
  type: string
  locations: string[]
  /** `<owner>/<tool>`. */
  identifier: string
  actions: string[]
  /** Scopes. */
  datatypes: string[]
}

/**
 * What the agent may do after the refusal. `authorization_reference` is the s256 of `authorization_details`.
 */
export type Remediation = {
  authorization_details: AuthorizationDetail[]
  authorization_reference: string
  authorization_server: string
  ticket: string
}

/** A challenge; `scope` is a space-delimited list (RFC 6750 §3). */
export type Challenge = {
  realm: string
  as_uri: string
  ticket: string
  resource_metadata: string
  scope: string
  authorization_remediation: Remediation
}

/** The longest WWW-Authenticate value that common servers and proxies pass on. */
export const CHALLENGE_BYTES_MAX = 8192

/** RFC 6749 §3.3: scope tokens, separated by single spaces. */
const SCOPE_LIST = /^[\x21\x23-\x5b\x5d-\x7e]+(?: [\x21\x23-\x5b\x5d-\x7e]+)*$/
const DETAIL_MEMBERS = ['type', 'locations', 'identifier', 'actions', 'datatypes']

/** The remediation of one refused tool call. */
export function buildRemediation(call: {
  specNs: string
  owner: Owner
  tool: string
  resourceUrl: string
  scopes: readonly string[]
  ticket: string
  as_uri: string
}): Remediation {
  const detail: AuthorizationDetail = {
    type: specNames(call.specNs).toolCall,
    locations: [call.resourceUrl],
    identifier: `${call.owner}/${call.tool}`,
    actions: ['call'],
    datatypes: [...call.scopes],
  }
  return {
    authorization_details: [detail],
    authorization_reference: s256Json([detail]),
    authorization_server: call.as_uri,
    ticket: call.ticket,
  }
}

/**
 * The WWW-Authenticate value of a challenge. Refuses (`temporarily_unavailable`: nothing the caller sent is
 * at fault) what cannot be written as printable ASCII within 8 KiB, and a scope that is no scope list.
 */
export function encodeChallenge(challenge: Challenge): string {
  if (!SCOPE_LIST.test(challenge.scope)) {
    refuse(
      'temporarily_unavailable',
      'The challenge cannot be written: its scope is no list of scope tokens.',
    )
  }
  const value = formatAuthChallenge(UMA_SCHEME, {
    realm: challenge.realm,
    error: CHALLENGE_ERROR,
    as_uri: challenge.as_uri,
    ticket: challenge.ticket,
    resource_metadata: challenge.resource_metadata,
    scope: challenge.scope,
    authorization_remediation: encodeBase64url(JSON.stringify(challenge.authorization_remediation)),
  })
  return value.length < CHALLENGE_BYTES_MAX
    ? value
    : refuse('temporarily_unavailable', `The challenge does not fit into ${CHALLENGE_BYTES_MAX} bytes.`)
}

/** What a reader may require of a challenge: the `{spec_ns}` that it knows; any if absent. */
export interface ChallengeOptions {
  specNs?: string | undefined
}

/**
 * The one UMA challenge among the WWW-Authenticate field lines; challenges of other schemes are skipped.
 * Refuses (`invalid_request`) if there is none or several, and for a malformed line, a missing or mistyped
 * parameter, and a remediation that contradicts the parameters. Whether to trust `as_uri` is decided by the
 * resource's metadata, not here.
 */
export function parseChallenge(fieldLines: readonly string[], options: ChallengeOptions = {}): Challenge {
  const scheme = UMA_SCHEME.toLowerCase()
  const [challenge, ...others] = parseAuthChallenges(fieldLines).filter(one => one.scheme === scheme)
  if (!challenge || others.length > 0) {
    refuse('invalid_request', `Send exactly one ${UMA_SCHEME} challenge in WWW-Authenticate.`)
  }
  const parameters: JsonObject = Object.fromEntries(challenge.parameters)
  const encoded = textMember(parameters, 'authorization_remediation')
  return readChallenge(
    { ...parameters, authorization_remediation: parseJson(decodeBase64url(encoded)) },
    options,
  )
}

/** The challenge as `data` of a JSON-RPC error -32001, the remediation as an object. */
export function challengeData(challenge: Challenge): JsonObject {
  const { realm, as_uri, ticket, resource_metadata, scope, authorization_remediation } = challenge
  return {
    error: CHALLENGE_ERROR,
    realm,
    as_uri,
    ticket,
    resource_metadata,
    scope,
    authorization_remediation: { ...authorization_remediation },
  }
}

/**
 * Whether JSON-RPC error data is meant as a challenge. Its shape decides, because others use -32001 for a
 * timeout.
 */
export function isChallengeData(data: unknown): boolean {
  if (typeof data !== 'object' || data === null) return false
  return ['as_uri', 'ticket', 'authorization_remediation'].every(name => Object.hasOwn(data, name))
}

/** The challenge in JSON-RPC error data; refuses as `parseChallenge` does. */
export function parseChallengeData(data: unknown, options: ChallengeOptions = {}): Challenge {
  return readChallenge(asObject(data, 'the challenge'), options)
}

/**
 * `authorization_details`, read as RFC 9396 §5 requires: an array of objects of our type, with every member
 * there and of its type, and no others. Refuses with `invalid_request`.
 */
function parseAuthorizationDetails(
  json: Json | undefined,
  options: ChallengeOptions = {},
): AuthorizationDetail[] {
  if (!Array.isArray(json) || json.length === 0 || json.length > 16) {
    refuse('invalid_request', 'Give authorization_details as an array of 1 to 16 objects.')
  }
  return json.map(one => readDetail(asObject(one, 'each of authorization_details'), options))
}

function readChallenge(object: JsonObject, options: ChallengeOptions): Challenge {
  if (member(object, 'error') !== CHALLENGE_ERROR) {
    refuse('invalid_request', `Send the challenge with error ${CHALLENGE_ERROR}.`)
  }
  const challenge: Challenge = {
    realm: textMember(object, 'realm'),
    as_uri: urlMember(object, 'as_uri'),
    ticket: textMember(object, 'ticket'),
    resource_metadata: urlMember(object, 'resource_metadata'),
    scope: textMember(object, 'scope'),
    authorization_remediation: readRemediation(objectMember(object, 'authorization_remediation'), options),
  }
  const { authorization_remediation: remediation } = challenge
  if (!SCOPE_LIST.test(challenge.scope)) refuse('invalid_request', 'Give scope as a list of scope tokens.')
  if (remediation.ticket !== challenge.ticket || remediation.authorization_server !== challenge.as_uri) {
    refuse(
      'invalid_request',
      'Name one ticket and one authorization server, inside the remediation and beside it.',
    )
  }
  return challenge
}

function readRemediation(object: JsonObject, options: ChallengeOptions): Remediation {
  const remediation: Remediation = {
    authorization_details: parseAuthorizationDetails(member(object, 'authorization_details'), options),
    authorization_reference: textMember(object, 'authorization_reference'),
    authorization_server: urlMember(object, 'authorization_server'),
    ticket: textMember(object, 'ticket'),
  }
  if (remediation.authorization_reference !== s256Json(remediation.authorization_details)) {
    refuse('invalid_request', 'Give authorization_reference as the s256 of authorization_details.')
  }
  return remediation
}

function readDetail(object: JsonObject, options: ChallengeOptions): AuthorizationDetail {
  const unknown = Object.keys(object).find(name => !DETAIL_MEMBERS.includes(name))
  if (unknown !== undefined) {
    refuse('invalid_request', 'Give authorization_details no members beside those of its type.')
  }
  const type = textMember(object, 'type')
  const known = options.specNs === undefined ? undefined : specNames(options.specNs).toolCall
  if (known === undefined ? !type.endsWith(specNames('').toolCall) : type !== known) {
    refuse('invalid_request', 'Give authorization_details of the tool-call type.')
  }
  return {
    type,
    locations: textsMember(object, 'locations'),
    identifier: textMember(object, 'identifier'),
    actions: textsMember(object, 'actions'),
    datatypes: textsMember(object, 'datatypes'),
  }
}
