/**
 * Owns what the signer of a request signs, in the one profile that every party uses. Contract:
 * "Authentication" (request signatures); RFC 9421 §3.1. It needs no key and no module of Node, so that a
 * browser, whose key no script may read, signs over the same bytes.
 */
import { serializeInnerList, type BareItem, type InnerList } from 'structured-headers'
import { plainComponent, signatureBase, type BaseOptions, type SignedMessage } from './signature-base.ts'

/**
 * The signer's choices; times in seconds since the epoch. `keyid` defaults to the key's kid, false leaves it
 * out.
 */
export interface SigningOptions extends BaseOptions {
  components: readonly string[]
  created: number
  expires?: number | undefined
  nonce?: string | undefined
  tag?: string | undefined
  keyid?: string | false | undefined
  label?: string | undefined
}

/**
 * The text that is signed, all ASCII, and the value of `Signature-Input` after its label. There is no `alg`:
 * it follows from the key. Refuses like a verifier if a component is missing.
 */
export function signingInput(
  message: SignedMessage,
  options: SigningOptions,
): { base: string; input: string } {
  const parameters = new Map<string, BareItem>([['created', options.created]])
  if (options.expires !== undefined) parameters.set('expires', options.expires)
  if (options.keyid !== undefined && options.keyid !== false) parameters.set('keyid', options.keyid)
  if (options.nonce !== undefined) parameters.set('nonce', options.nonce)
  if (options.tag !== undefined) parameters.set('tag', options.tag)
  const covered: InnerList = [options.components.map(plainComponent), parameters]
  return { base: signatureBase(message, covered, options), input: serializeInnerList(covered) }
}
