/** Owns requests for tests of signatures: made, signed, and signed wrongly on purpose. */
import {
  verifyRequest,
  signRequest,
  type SignedMessage,
  type SigningOptions,
  type VerificationOptions,
  type VerifiedSignature,
} from '../../src/wire/signatures/http-signature.ts'
import {
  generatePrivateJwk,
  importPrivateJwk,
  signEd25519,
  type PrivateKey,
} from '../../src/wire/signatures/keys.ts'

/** The second at which all these requests are signed. */
export const SIGNED_AT = 1_700_000_000
/** What an authorized call covers at least. */
export const CALL_COMPONENTS = ['@method', '@authority', '@path', 'authorization']

export const agentKey = importPrivateJwk(generatePrivateJwk())
export const strangerKey = importPrivateJwk(generatePrivateJwk())

/** A request of an agent; a `SignedMessage` whose headers can be changed. */
export type TestMessage = SignedMessage & { headers: Map<string, string[]> }

/** An authorized call as the enforcement point sees it, not signed yet. */
export function callMessage(more: Partial<SignedMessage> = {}): TestMessage {
  const headers = new Map([['authorization', ['PoP header.payload.signature']]])
  return {
    method: 'POST',
    scheme: 'https',
    authority: 'tools.example.com',
    path: '/mcp/alice',
    ...more,
    headers,
  }
}

/** The message with the signature our signer puts on it. */
export function signed(
  message: TestMessage,
  options: Partial<SigningOptions> = {},
  key: PrivateKey = agentKey,
): TestMessage {
  const fields = signRequest(message, key, { components: CALL_COMPONENTS, created: SIGNED_AT, ...options })
  return withFields(message, fields['signature-input'], fields.signature)
}

/**
 * The message with a true signature over the given base, under the given `Signature-Input` member: what a
 * hostile or odd signer could send, whose base was not made by our code.
 */
export function signedOver(message: TestMessage, member: string, lines: readonly string[]): TestMessage {
  const base = [...lines, `"@signature-params": ${member}`].join('\n')
  return withFields(
    message,
    `sig1=${member}`,
    `sig1=:${signEd25519(Buffer.from(base), agentKey).toString('base64')}:`,
  )
}

/** A copy of the message with these two fields. */
export function withFields(message: TestMessage, signatureInput: string, signature: string): TestMessage {
  const headers = new Map(message.headers)
  headers.set('signature-input', [signatureInput])
  headers.set('signature', [signature])
  return { ...message, headers }
}

/** The lines of the base of `callMessage()`, by component, as RFC 9421 section 2.5 has them. */
export const CALL_LINES = [
  '"@method": POST',
  '"@authority": tools.example.com',
  '"@path": /mcp/alice',
  '"authorization": PoP header.payload.signature',
]

/** `verifyRequest` as for an agent's call: any keyid, the bound key is `agentKey`. */
export function verifyCall(
  message: SignedMessage,
  more: Partial<VerificationOptions> = {},
): VerifiedSignature {
  return verifyRequest(message, {
    requiredComponents: CALL_COMPONENTS,
    now: SIGNED_AT,
    keyidRequired: false,
    findKey: keyid => (keyid === undefined || keyid === agentKey.thumbprint ? agentKey : undefined),
    ...more,
  })
}
