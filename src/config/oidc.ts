/**
 * Owns the settings of an OIDC realm, part of those of `usher authority` and `usher organization`. Contract:
 * "Authentication" (owner at the owner API): access tokens are validated with her realm's published keys.
 */
import { z } from 'zod'
import { ACCESS_TOKEN_TYPES, type RealmPolicy } from '../rules/owner-token.ts'
import {
  choices,
  commaSeparated,
  defaulted,
  insecureUrlFault,
  optional,
  text,
  type Kind,
  type Values,
} from './settings.ts'

/** No `none` and no HMAC: anybody who could verify such a token could make one. */
const ALGORITHMS = [
  'RS256',
  'RS384',
  'RS512',
  'PS256',
  'PS384',
  'PS512',
  'ES256',
  'ES384',
  'ES512',
  'EdDSA',
] as const

/**
 * An issuer as its realm writes it. Unlike our own URLs, it may end in a slash, and it is compared byte for
 * byte.
 */
export function isRealmIssuer(text: string): boolean {
  const parsed = URL.parse(text)
  if (parsed === null || !['http:', 'https:'].includes(parsed.protocol)) return false
  const bare = parsed.search === '' && parsed.hash === '' && parsed.username === '' && parsed.password === ''
  return bare && !/[?#\s]/.test(text) && text.length <= 2048
}

const realmIssuer: Kind<string> = {
  type: 'URL',
  schema: z
    .string()
    .refine(
      isRealmIssuer,
      'Give the issuer exactly as the realm writes it: an absolute URL without query or fragment.',
    ),
  json: { type: 'string', pattern: String.raw`^https?://[^?#\s]+$`, maxLength: 2048 },
}

/** Several of them, separated by commas, each once. */
export const realmIssuers: Kind<string[]> = {
  type: 'list of URLs',
  schema: commaSeparated.refine(
    list => list.every(isRealmIssuer) && new Set(list).size === list.length,
    'Give each issuer exactly as the realm writes it, separated by commas, each once.',
  ),
  json: {
    type: 'array',
    items: { type: 'string', pattern: String.raw`^https?://[^?#\s,]+$` },
    uniqueItems: true,
  },
}

const names: Kind<string[]> = {
  type: 'list',
  schema: commaSeparated.refine(list => list.every(name => name !== ''), 'Give names separated by commas.'),
  json: { type: 'array', items: { type: 'string', pattern: '^[^,]+$' }, minItems: 1 },
}

/** The settings of a realm, by the prefix of their variables; `what` accepts the tokens of `who`. */
export function oidcSettings(
  prefix: 'UMA_AS' | 'UMA_AS_ADMIN' | 'UMA_ORG',
  { who, what }: { who: string; what: string },
) {
  return {
    oidcIssuer: optional(`${prefix}_OIDC_ISSUER`, realmIssuer, {
      description: `The issuer of the realm whose access tokens ${who} may use, exactly as it writes itself; needed for \`oidc\`.`,
    }),
    oidcAudience: optional(`${prefix}_OIDC_AUDIENCE`, text, {
      description: `The audience that such a token must name: this ${what}; needed for \`oidc\`.`,
    }),
    oidcAlgorithms: defaulted(`${prefix}_OIDC_ALGORITHMS`, choices(ALGORITHMS), 'RS256,PS256,ES256,EdDSA', {
      description:
        'Algorithms that such a token may be signed with; `EdDSA` admits its newer name `Ed25519`.',
    }),
    oidcTypes: defaulted(`${prefix}_OIDC_TYPES`, choices(ACCESS_TOKEN_TYPES), 'at+jwt,JWT', {
      description:
        'Header `typ` of such a token. A token with `JWT`, or without a `typ`, must show by its claims that it is an access token. Leave this out if the realm writes `at+jwt`.',
    }),
    oidcAuthorizedParties: optional(`${prefix}_OIDC_AUTHORIZED_PARTIES`, names, {
      description:
        'Clients (`azp`, else `client_id`) whose tokens are accepted if the realm sets no audience, separated by commas. None when left out.',
    }),
  }
}

type OidcValues = Values<ReturnType<typeof oidcSettings>>

/**
 * The faults of the settings of the realm, if `oidc` is among the credentials that the variable `accepts`
 * names.
 */
export function oidcFaults(
  values: OidcValues & { issuer: string; devLoopback: boolean },
  prefix: string,
  accepts: string,
): string[] {
  const { oidcIssuer, oidcAudience, issuer, devLoopback } = values
  return [
    ...(oidcIssuer === undefined ? [`Set ${prefix}_OIDC_ISSUER: ${accepts} names oidc.`] : []),
    ...(oidcAudience === undefined ? [`Set ${prefix}_OIDC_AUDIENCE: ${accepts} names oidc.`] : []),
    ...(oidcIssuer === undefined ? [] : insecureUrlFault(`${prefix}_OIDC_ISSUER`, oidcIssuer, devLoopback)),
    ...(oidcIssuer?.replace(/\/$/, '') === issuer
      ? [
          `${prefix}_OIDC_ISSUER: the realm cannot be the issuer of this process itself, which issues none of these tokens.`,
        ]
      : []),
  ]
}

/** Requirements for the realm's tokens; undefined if the settings name no realm. */
export function realmPolicy(values: OidcValues): RealmPolicy | undefined {
  const { oidcIssuer, oidcAudience } = values
  if (oidcIssuer === undefined || oidcAudience === undefined) return undefined
  return {
    issuer: oidcIssuer,
    audience: oidcAudience,
    authorizedParties: values.oidcAuthorizedParties ?? [],
    algorithms: values.oidcAlgorithms,
    types: values.oidcTypes,
  }
}
