/**
 * Owns an authorization server of holders, for tests of a tally: it quotes and signs as it is told, with its
 * own keys, over real sockets.
 */
import { asOwner } from '../../src/wire/identifiers.ts'
import { parseJson } from '../../src/wire/json.ts'
import { importPublicJwk, publicJwk, type PrivateKey } from '../../src/wire/signatures/keys.ts'
import {
  signVerdict,
  signWithdrawal,
  type Verdict,
  type VerdictRequest,
} from '../../src/wire/joint/verdict.ts'
import { TALLY } from './joint.ts'
import { startScriptedServer, type Reply, type Scripted, type ScriptedServer } from './scripted-http.ts'
import { newKey } from './wire-samples.ts'

export interface TestHolder {
  issuer: string
  key: PrivateKey
  server: ScriptedServer
  /** What each owner offers; `null`: nothing. A change applies to later requests. */
  terms: Record<string, object | null>
  /** What she answers once she is asked finally: `ask` keeps everybody waiting. */
  says: Record<string, 'allow' | 'deny' | 'ask'>
  /** Members of her allowances that are exchanged. */
  allowance: object
  /** For how many seconds an owner allows it, where not for 600. */
  lifetimes: Record<string, number>
  /** Makes another document of each verdict. */
  resigned: ((compact: string) => string) | undefined
  /** Digest of the mandate that she agreed to. */
  mandate_s256: string
  /** The questions for a verdict that came, as their claims. */
  questions(): VerdictRequest[]
  /** A withdrawal as she would send it. */
  withdrawal(owner: string, extent: object, changes?: object): string
  close(): Promise<void>
}

export const OFFER = {
  expires_in: 600,
  scope: ['read', 'trade'],
  prohibited: ['resale'],
  per_operation: false,
}

/** Starts one on a port of its own, whose owners offer the same and allow. */
export async function startTestHolder(): Promise<TestHolder> {
  const key = newKey()
  const signed = new Map<string, string>()
  const plain: Scripted = received => {
    switch (received.path) {
      case '/.well-known/agents-configuration':
        return { body: metadataOf(holder.issuer) }
      case '/jwks':
        return { body: { keys: [publicJwk(key)] } }
      case '/joint/quote':
        return { body: quote(holder, claimsOf(received.body)) }
      case '/joint/verdict':
        return verdict(holder, claimsOf(received.body), signed)
      default:
        return undefined
    }
  }
  const server = await startScriptedServer(plain)
  const holder: TestHolder = {
    issuer: server.origin,
    key,
    server,
    terms: {},
    says: {},
    allowance: {},
    lifetimes: {},
    resigned: undefined,
    mandate_s256: '',
    questions: () => server.to('/joint/verdict').map(({ body }) => claimsOf(body)),
    withdrawal: (owner, extent, changes = {}) => {
      const iat = Math.floor(Date.now() / 1000)
      const jti = `wd_${crypto.randomUUID()}`
      const claims = {
        iss: server.origin,
        aud: TALLY,
        holder: asOwner(owner),
        account: asOwner('family-1'),
        iat,
        exp: iat + 300,
        jti,
        ...extent,
        ...changes,
      }
      return signWithdrawal(claims as Parameters<typeof signWithdrawal>[0], key)
    },
    close: () => server.close(),
  }
  return holder
}

function metadataOf(issuer: string): object {
  return {
    issuer,
    token_endpoint: `${issuer}/token`,
    jwks_uri: `${issuer}/jwks`,
    joint_quote_endpoint: `${issuer}/joint/quote`,
    joint_verdict_endpoint: `${issuer}/joint/verdict`,
  }
}

/** What a tally's request says, not verified. */
export function claimsOf(body: Buffer): VerdictRequest {
  const { request } = parseJson(body) as { request: string }
  return parseJson(Buffer.from(request.split('.')[1]!, 'base64url')) as unknown as VerdictRequest
}

function quote({ terms }: TestHolder, { owner, resource_id }: VerdictRequest): object {
  const offered = terms[owner] === undefined ? OFFER : terms[owner]
  if (offered === null) return { owner, tier: null, because: 'no_tier' }
  const { ask_me = false, ...rest } = offered as { ask_me?: boolean }
  return {
    owner,
    tier_id: 'joint-tier',
    tier: { name: 'Joint', resources: [resource_id], ask_me, terms: { ...OFFER, ...rest } },
  }
}

/** Signed once for each question; asked again, the same bytes. */
function verdict(holder: TestHolder, question: VerdictRequest, signed: Map<string, string>): Reply {
  const { owner, account, resource_id, negotiation, contract, agreement } = question
  if (question.closed === true) return { body: { closed: true } }
  const says = holder.says[owner] ?? 'allow'
  const pending = { pending: true, family: `fam_of_${owner}`, ready: says === 'allow' }
  if (says === 'ask' || (says === 'allow' && question.final === false)) return { body: pending }
  const iat = Math.floor(Date.now() / 1000)
  const binding = { iss: holder.issuer, aud: TALLY, iat, exp: iat + 300, holder: owner }
  const about = { account, negotiation, resource_id, contract }
  const { jwk } = parseJson(Buffer.from(agreement.split('.')[0]!, 'base64url')) as { jwk: object }
  const claims = {
    ...binding,
    ...about,
    ...(says === 'deny'
      ? { effect: 'deny', because: 'policy' }
      : {
          effect: 'allow',
          mandate_s256: holder.mandate_s256,
          cnf_jkt: thumbprintOf(jwk),
          scope: ['read', 'trade'],
          expires_in: holder.lifetimes[owner] ?? 600,
          ...holder.allowance,
        }),
  }
  const name = `${owner} ${negotiation}`
  const compact = signed.get(name) ?? signVerdict(claims as Verdict, holder.key)
  signed.set(name, compact)
  return { body: { verdict: holder.resigned?.(compact) ?? compact } }
}

function thumbprintOf(jwk: object): string {
  return importPublicJwk(jwk).thumbprint
}
