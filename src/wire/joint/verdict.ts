/**
 * Owns what passes between a tally and the authorization server of a holder: the tally's request, her signed
 * verdict, and her withdrawal of verdicts. Contract: "Tally for a jointly held resource" (a verdict is bound
 * to one negotiation and to the exact agreement digest). rules/joint/mandate.ts counts verdicts.
 */
import { asFamily, asOwner, type Family, type Owner } from '../identifiers.ts'
import type { JsonObject } from '../json.ts'
import {
  checkClaims,
  findByKid,
  isExpectedTyp,
  parseJws,
  signJws,
  verifyJws,
  type UnverifiedJws,
  type Verified,
} from '../signatures/jws.ts'
import type { PrivateKey } from '../signatures/keys.ts'
import { withoutSlash } from './mandate.ts'
import {
  booleanMember,
  compactMember,
  digestMember,
  idMember,
  idsMember,
  integerMember,
  member,
  objectMember,
  optionalText,
  storableMember,
  textMember,
  textsMember,
  urlMember,
  wordMember,
} from '../json-members.ts'
import { TYP } from '../names.ts'
import { refuse } from '../refusal.ts'
import type { RptOperation, VerificationKeys } from '../negotiation/tokens.ts'

/** The claims of one verdict; `iss` and `holder` are the holder, `aud` the tally, times in seconds. */
export type VerdictBinding = {
  iss: string
  aud: string
  iat: number
  /** Until when a tally may collect it; a grant may live on until `iat` + `expires_in`. */
  exp: number
  holder: Owner
  account: Owner
  negotiation: Family
  resource_id: string
  /** Digest of the agreement. */
  contract: string
}

/** The terms that she allows, which may be wider than the agreement; `expires_in` in seconds from `iat`. */
export type Allowance = {
  mandate_s256: string
  /** Thumbprint of the agent's key. */
  cnf_jkt: string
  scope: string[]
  expires_in: number
  /** The one operation that she allows; if left out, any. */
  operation?: RptOperation
}

export type Verdict = VerdictBinding &
  (({ effect: 'allow' } & Allowance) | { effect: 'deny'; because?: string })

/** How many bytes a verdict may have. */
const VERDICT_BYTES_MAX = 2_048
/** How long a withdrawal, and a tally's request, are valid. */
export const WITHDRAWAL_SECONDS = 300
export const TALLY_REQUEST_SECONDS = 120
/** The bound of /perm: nobody can ask a tally for a longer name. */
const RESOURCE_ID_LENGTH_MAX = 400
/** How many negotiations one withdrawal names at most. */
const NEGOTIATIONS_MAX = 100

/**
 * The compact verdict. Refuses (`invalid_request`) a verdict that would be larger than any reader accepts.
 */
export function signVerdict(verdict: Verdict, key: PrivateKey): string {
  const compact = signJws({ typ: TYP.verdict, payload: verdict }, key)
  if (compact.length > VERDICT_BYTES_MAX)
    refuse('invalid_request', `Allow less at once: a verdict has at most ${VERDICT_BYTES_MAX} bytes.`)
  return compact
}

/**
 * The holder and key that a verdict claims, not verified: used to find that key. Refuses (`invalid_request`)
 * anything that is no verdict by form, size and `typ`.
 */
export function verdictSigner(jwt: string, typAlias?: string): NamedSigner {
  const jws = parseJws(jwt, VERDICT_BYTES_MAX)
  if (!isExpectedTyp(jws.header['typ'], { typ: TYP.verdict, typAlias }))
    refuse('invalid_request', 'Send a signed verdict.')
  return namedSigner(jws)
}

/** The holder's authority that a document names as its signer, and the key. */
export interface NamedSigner {
  issuer: string
  holder: Owner
  kid: string | undefined
}

/** The same for a document as its text has it, not verified. */
export function namedSigner({ header, payload }: UnverifiedJws): NamedSigner {
  return {
    issuer: withoutSlash(urlMember(payload, 'iss')),
    holder: asOwner(idMember(payload, 'holder')),
    kid: optionalText(header, 'kid'),
  }
}

/**
 * Verifies a verdict by `issuer` to the tally `audience`: size, `typ`, signature by one of the keys, `iss`,
 * `aud` (which one under `typAlias` may leave out), and every member of its type. Refuses with
 * `invalid_request`. It checks neither the time nor whether the holder counts and with what weight:
 * `countVerdicts` does that.
 */
export function verifyVerdict(
  jwt: string,
  keys: VerificationKeys,
  expected: { issuer: string; audience: string; typAlias?: string | undefined },
): Verified<Verdict> {
  const { issuer, audience, typAlias } = expected
  const { header, payload } = verifyJws(jwt, findByKid(keys), {
    typ: TYP.verdict,
    typAlias,
    maxBytes: VERDICT_BYTES_MAX,
  })
  const mayLackAud = !isExpectedTyp(header['typ'], { typ: TYP.verdict })
  const aud = mayLackAud && member(payload, 'aud') === undefined ? undefined : audience
  checkClaims(payload, { ...(aud && { aud }), now: 0, skewSeconds: Infinity, requireExp: true })
  if (withoutSlash(textMember(payload, 'iss')) !== issuer)
    refuse('invalid_request', `Send a verdict issued by ${issuer}.`)
  const binding: VerdictBinding = {
    iss: issuer,
    aud: audience,
    iat: integerMember(payload, 'iat'),
    exp: integerMember(payload, 'exp'),
    holder: asOwner(idMember(payload, 'holder')),
    account: asOwner(idMember(payload, 'account')),
    negotiation: asFamily(idMember(payload, 'negotiation')),
    resource_id: textMember(payload, 'resource_id'),
    contract: textMember(payload, 'contract'),
  }
  const verdict: Verdict =
    wordMember(payload, 'effect', ['allow', 'deny']) === 'allow'
      ? { ...binding, effect: 'allow', ...readAllowance(payload) }
      : { ...binding, effect: 'deny', ...readBecause(payload) }
  return verdict as Verified<Verdict>
}

/** The expected signer and audience, and the time (seconds); `typAlias`: another `typ` of it. */
interface Expected {
  issuer: string
  audience: string
  now: number
  typAlias?: string | undefined
}

/** A holder's withdrawal; `jti` is the same at every attempt to deliver it. */
export type Withdrawal = {
  iss: string
  aud: string
  holder: Owner
  account: Owner
  iat: number
  exp: number
  jti: string
} & ({ negotiations: Family[] } | { all: true })

/** The compact withdrawal. */
export function signWithdrawal(withdrawal: Withdrawal, key: PrivateKey): string {
  return signJws({ typ: TYP.verdictWithdrawal, payload: withdrawal }, key)
}

/**
 * Verifies a withdrawal by `issuer` to the tally `audience` at `now` (seconds): `typ`, signature by one of
 * the keys, `iss`, `aud`, `iat`, an `exp` at most 300 s after it, and that it names either 1 to 100
 * negotiations or all. Refuses with `invalid_request`. It does not check whether it was received before.
 */
export function verifyWithdrawal(
  jwt: string,
  keys: VerificationKeys,
  expected: Expected,
): Verified<Withdrawal> {
  const { typAlias } = expected
  const { payload } = verifyJws(jwt, findByKid(keys), { typ: TYP.verdictWithdrawal, typAlias })
  const withdrawal: Withdrawal = {
    ...readShortLived(payload, { ...expected, what: 'withdrawal', secondsMax: WITHDRAWAL_SECONDS }),
    holder: asOwner(idMember(payload, 'holder')),
    account: asOwner(idMember(payload, 'account')),
    jti: idMember(payload, 'jti'),
    ...readExtent(payload),
  }
  return withdrawal as Verified<Withdrawal>
}

/** A tally's question to a holder about one resource of an account. */
export type QuoteRequest = {
  iss: string
  aud: string
  owner: Owner
  account: Owner
  resource_id: string
  iat: number
  exp: number
}

/** A tally's question to her about one negotiation. */
export type VerdictRequest = QuoteRequest & {
  negotiation: Family
  /** Digest of the agreement. */
  contract: string
  /** The agreement as the agent signed it. */
  agreement: string
  /** Whether an answer should be signed now; if left out, it should. */
  final?: boolean
  /** Whether nothing more will be asked about it. */
  closed?: true
}

/**
 * The compact request.
 */
export function signTallyRequest(request: QuoteRequest | VerdictRequest, key: PrivateKey): string {
  return signJws({ typ: TYP.tallyRequest, payload: request }, key)
}

/**
 * The tally that a request names as its sender, not verified: used to find its keys. Refuses
 * (`invalid_request`) anything that is no request by `typ`, `iss` and the form of its members, so that a
 * fault of form is told as one, whoever signed it.
 */
export function tallyRequestIssuer(jwt: string, typAlias?: string): string {
  const { header, payload } = parseJws(jwt)
  if (!isExpectedTyp(header['typ'], { typ: TYP.tallyRequest, typAlias }))
    refuse('invalid_request', 'Send the signed request of a tally.')
  readRequest(payload)
  return withoutSlash(urlMember(payload, 'iss'))
}

/**
 * Verifies a request by the tally `issuer` to the authorization server `audience` at `now` (seconds): `typ`,
 * signature by one of the keys, `iss`, `aud`, `iat`, an `exp` at most 120 s after it, and every member of its
 * type; without a negotiation it asks for a quote. Refuses with `invalid_request`. It does not verify the
 * agreement.
 */
export function verifyTallyRequest(
  jwt: string,
  keys: VerificationKeys,
  expected: Expected,
): Verified<QuoteRequest | VerdictRequest> {
  const { payload } = verifyJws(jwt, findByKid(keys), {
    typ: TYP.tallyRequest,
    typAlias: expected.typAlias,
    maxBytes: REQUEST_BYTES_MAX,
  })
  const times = readShortLived(payload, { ...expected, what: 'request', secondsMax: TALLY_REQUEST_SECONDS })
  return { ...times, ...readRequest(payload) } as Verified<QuoteRequest | VerdictRequest>
}

/** An agreement of the largest size, in base64url, and the claims around it. */
const REQUEST_BYTES_MAX = 48 * 1_024

type RequestClaim = 'iss' | 'aud' | 'iat' | 'exp'

function readRequest(
  payload: JsonObject,
): Omit<QuoteRequest, RequestClaim> | Omit<VerdictRequest, RequestClaim> {
  const quote = {
    owner: asOwner(idMember(payload, 'owner')),
    account: asOwner(idMember(payload, 'account')),
    resource_id: storableMember(payload, 'resource_id', RESOURCE_ID_LENGTH_MAX),
  }
  return member(payload, 'negotiation') === undefined ? quote : { ...quote, ...readQuestion(payload) }
}

function readQuestion(payload: JsonObject): Omit<VerdictRequest, keyof QuoteRequest> {
  return {
    negotiation: asFamily(idMember(payload, 'negotiation')),
    contract: digestMember(payload, 'contract'),
    agreement: compactMember(payload, 'agreement'),
    ...(member(payload, 'final') === undefined ? {} : { final: booleanMember(payload, 'final') }),
    ...(member(payload, 'closed') !== undefined && booleanMember(payload, 'closed') ? { closed: true } : {}),
  }
}

function readAllowance(payload: JsonObject): Allowance {
  const allowance = {
    mandate_s256: textMember(payload, 'mandate_s256'),
    cnf_jkt: textMember(payload, 'cnf_jkt'),
    scope: textsMember(payload, 'scope'),
    expires_in: integerMember(payload, 'expires_in', 1),
  }
  if (member(payload, 'operation') === undefined) return allowance
  const operation = objectMember(payload, 'operation')
  return {
    ...allowance,
    operation: { tool: textMember(operation, 'tool'), params_s256: textMember(operation, 'params_s256') },
  }
}

function readBecause(payload: JsonObject): { because?: string } {
  const because = optionalText(payload, 'because')
  return because === undefined ? {} : { because }
}

function readExtent(payload: JsonObject): { negotiations: Family[] } | { all: true } {
  const all = member(payload, 'all')
  const isNamed = member(payload, 'negotiations') !== undefined
  if (isNamed === (all !== undefined) || (all !== undefined && all !== true))
    refuse('invalid_request', 'Withdraw either the negotiations that are listed or, by all: true, every one.')
  if (!isNamed) return { all: true }
  return { negotiations: idsMember(payload, 'negotiations', NEGOTIATIONS_MAX).map(asFamily) }
}

/**
 * The registered claims of a document that must be signed afresh at every use. Refuses (`invalid_request`) a
 * document of another issuer or audience, out of its time, or valid for longer than `secondsMax`.
 */
export function readShortLived(
  payload: JsonObject,
  expected: { issuer: string; audience: string; now: number; what: string; secondsMax: number },
): { iss: string; aud: string; iat: number; exp: number } {
  const { issuer, audience, now, what, secondsMax } = expected
  checkClaims(payload, { aud: audience, now, requireExp: true })
  if (withoutSlash(textMember(payload, 'iss')) !== issuer)
    refuse('invalid_request', `Send a ${what} issued by ${issuer}.`)
  const iat = integerMember(payload, 'iat')
  const exp = integerMember(payload, 'exp')
  if (exp > iat + secondsMax)
    refuse('invalid_request', `Sign the ${what} again, for at most ${secondsMax} s.`)
  return { iss: issuer, aud: audience, iat, exp }
}
