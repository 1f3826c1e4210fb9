/**
 * Owns who an agent is, and what it says about itself in every agreement. Contract: "Agreement (claim_token,
 * beat 3)": key or agent token, operator, reason, mission, introduction; none of them can widen anything.
 */
import { claimedToken } from '../wire/agents/agent-identity.ts'
import type { Json, JsonObject } from '../wire/json.ts'
import {
  importPrivateJwk,
  importPublicJwk,
  type PrivateJwk,
  type PrivateKey,
  type PublicJwk,
} from '../wire/signatures/keys.ts'
import { INTRODUCTION_SECONDS_MAX, signIntroduction } from '../wire/agents/introduction.ts'
import { parseJws } from '../wire/signatures/jws.ts'
import { DEFAULT_SPEC_NS, specNames, type SpecNames } from '../wire/names.ts'
import type { TermsTemplate } from '../wire/negotiation/terms.ts'
import { fail, reading } from './agent-error.ts'
import type { AgentEvent } from './events.ts'
import type { IdentitySource } from './negotiation/identity.ts'
import type { McpVersion } from './transports/mcp.ts'
import { memoryStore, type AgentStore } from './store.ts'

/** The parts of an agent. Wire names are the contract's; everything but the key may be left out. */
export interface AgentOptions {
  /** The key that signs agreements and calls: a private JWK, or one already imported. */
  key: PrivateJwk | PrivateKey
  /** URL of the operator's client identity document. */
  client_id?: string | undefined
  /** URL of the operator's key directory; it attests nothing at another origin than that of `client_id`. */
  signature_agent?: string | undefined
  /** An `aa-agent+jwt` for this key, or where to get a current one: sent in place of the bare key. */
  agent_token?: string | (() => string | Promise<string>) | undefined
  /** Issuers that may vouch for this agent, exactly as they write their own names: no other is ever asked. */
  identity_issuers?: readonly string[] | undefined
  /**
   * Fetches an identity assertion (a compact `oauth-id-jag+jwt` bound to the agent's key) by one of them, if
   * an authority asks for it.
   */
  identityAssertion?: IdentitySource['assertion'] | undefined
  /** Free text for the owner. */
  reason?: string | undefined
  mission?: { approver: string; s256: string } | undefined
  /** What the program that uses this agent calls itself, for the owner to read as a claim. */
  client_name?: string | undefined
  /** An introduction of this agent's key, already signed by the agent that introduces it. */
  introduction?: string | undefined
  /**
   * The agent that introduces this one, if its key is at hand: a fresh introduction goes into every
   * agreement.
   */
  sign_introduction?: { key: PrivateJwk | PrivateKey; agent_token?: string | undefined } | undefined
  /** Where receipts and standing grants are kept; in memory if left out. */
  store?: AgentStore | undefined
  /**
   * Called before terms are signed; false declines them. If left out, everything that passes the checks is
   * signed.
   */
  confirmTerms?: ((template: TermsTemplate, documentUrl: string) => boolean | Promise<boolean>) | undefined
  onEvent?: ((event: AgentEvent) => void) | undefined
  /** The longest wait for the owner's decision, seconds; 600 if left out. */
  waitSecondsMax?: number | undefined
  /** The longest wait for a tool's answer, seconds; 120 if left out. */
  callSecondsMax?: number | undefined
  /** The revision of MCP to speak; if left out, each server is asked for it before a grant is used there. */
  mcpVersion?: McpVersion | undefined
  /**
   * How the JSON of a tool's answer is parsed; throws for what is none. If left out, as `JSON.parse` does,
   * which makes doubles of numbers.
   */
  parseAnswer?: ((text: string) => Json) | undefined
  /** Development only: admits http to literal loopback hosts. */
  allowLoopback?: boolean | undefined
  /** `{spec_ns}`, if it is not the default. */
  specNs?: string | undefined
  /** Seconds since the epoch. */
  now?: (() => number) | undefined
}

/** An agent's options with all defaults filled in and all secrets imported: what its parts work with. */
export interface Profile {
  readonly key: PrivateKey
  readonly client_id: string | undefined
  readonly signature_agent: string | undefined
  readonly identity: IdentitySource | undefined
  readonly reason: string | undefined
  readonly client_name: string | undefined
  readonly mission: { approver: string; s256: string } | undefined
  readonly store: AgentStore
  readonly waitSecondsMax: number
  readonly callSecondsMax: number
  /** Undefined if each server is asked. */
  readonly mcpVersion: McpVersion | undefined
  readonly parseAnswer: (text: string) => Json
  readonly allowLoopback: boolean
  readonly specNs: string
  readonly names: SpecNames
  readonly now: () => number
  readonly tell: (event: AgentEvent) => void
  readonly confirmTerms: (template: TermsTemplate) => Promise<boolean>
  /** The agent token to send now, if this agent has one. */
  readonly agentToken: () => Promise<string | undefined>
  /** The introduction to send to an authority now, if this agent has one. */
  readonly introductionTo: (authority: string) => string | undefined
}

/** Reads the options of an agent. Fails with `request_invalid` for a key that cannot be used. */
export function readProfile(options: AgentOptions): Profile {
  const key = importKey(options.key)
  const specNs = options.specNs ?? DEFAULT_SPEC_NS
  const now = (): number => Math.floor(options.now?.() ?? Date.now() / 1000)
  const introducer = options.sign_introduction && {
    key: importKey(options.sign_introduction.key),
    agent_token: options.sign_introduction.agent_token,
  }
  return {
    key,
    client_id: options.client_id,
    signature_agent: options.signature_agent,
    identity: options.identityAssertion && {
      issuers: options.identity_issuers ?? [],
      assertion: options.identityAssertion,
    },
    reason: options.reason,
    client_name: options.client_name,
    mission: options.mission,
    store: options.store ?? memoryStore(),
    waitSecondsMax: options.waitSecondsMax ?? 600,
    callSecondsMax: options.callSecondsMax ?? 120,
    mcpVersion: options.mcpVersion,
    parseAnswer: options.parseAnswer ?? (text => JSON.parse(text) as Json),
    allowLoopback: options.allowLoopback ?? false,
    specNs,
    names: specNames(specNs),
    now,
    tell: event => options.onEvent?.(event),
    confirmTerms: async template => (await options.confirmTerms?.(template, template.terms_uri)) ?? true,
    agentToken: async () => checkAgentToken(await readToken(options.agent_token), key),
    introductionTo: authority =>
      introducer
        ? introduce({ ...introducer, newcomer: key.jwk, authority, now: now() })
        : options.introduction,
  }
}

/** The parts of an introduction; `authority` is the issuer it is for, `now` in seconds. */
export interface IntroductionRequest {
  key: PrivateKey
  agent_token?: string | undefined
  newcomer: PublicJwk | JsonObject
  authority: string
  now: number
}

/**
 * An `ext-introduction-v1+jws` for a newcomer's key, by an agent that holds a connection, valid for 300 s
 * (the most that is accepted). Fails with `introduction_failed` for a key that cannot be used.
 */
export function introduce(request: IntroductionRequest): string {
  const { key, agent_token, newcomer, authority, now } = request
  return reading('introduction_failed', 'The introduction cannot be signed', () =>
    signIntroduction(
      {
        newcomer: importPublicJwk(newcomer),
        aud: authority,
        iat: now,
        exp: now + INTRODUCTION_SECONDS_MAX,
        jti: `int_${crypto.randomUUID()}`,
        agent_token,
      },
      key,
    ),
  )
}

/** The key, read if it is a JWK. Fails with `request_invalid` for one that cannot be used. */
export function importKey(key: PrivateJwk | PrivateKey): PrivateKey {
  if ('privateKeyObject' in key) return key
  return reading('request_invalid', 'The key of the agent cannot be used', () => importPrivateJwk(key))
}

async function readToken(token: AgentOptions['agent_token']): Promise<string | undefined> {
  return typeof token === 'function' ? token() : token
}

/**
 * The authority would only find out later that a token is for another key, and that would cost a negotiation.
 */
function checkAgentToken(token: string | undefined, key: PrivateKey): string | undefined {
  if (token === undefined) return undefined
  const bound = reading('request_invalid', 'The agent token cannot be used', () => {
    claimedToken(token)
    const { cnf } = parseJws(token).payload as { cnf?: { jwk?: unknown } }
    return importPublicJwk(cnf?.jwk)
  })
  if (bound.thumbprint !== key.thumbprint)
    fail('request_invalid', 'The agent token is bound to another key than the agent signs with.')
  return token
}
