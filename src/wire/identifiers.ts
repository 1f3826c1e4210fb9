/**
 * The identifiers that are easily confused, each with its own type, so that using one in place of another
 * does not compile. A text gets the type only where it is read (a body, a parameter, a token, a
 * configuration) or made; rows have these types. Contract: "Resources and their fields".
 */

declare const owner: unique symbol
declare const handle: unique symbol
declare const family: unique symbol
declare const client: unique symbol

/** The owner of protected resources: the name by which an authority knows her. */
export type Owner = string & { readonly [owner]: true }
/** An agent, as an owner's authority knows it (contract, "Connection"). */
export type Handle = string & { readonly [handle]: true }
/** One negotiation, from its first ticket to its result. */
export type Family = string & { readonly [family]: true }
/**
 * A resource server, as one owner's authority knows it. An agent's own client_id is a URL, and not one of
 * these.
 */
export type ClientId = string & { readonly [client]: true }

/** Says that a text names an owner, not that this owner exists. */
export const asOwner = (text: string): Owner => text as Owner
/** Says that a text names an agent, not that it is connected. */
export const asHandle = (text: string): Handle => text as Handle
/** Says that a text names a negotiation, not that it exists. */
export const asFamily = (text: string): Family => text as Family
/** Says that a text names a resource server, not that it is registered. */
export const asClientId = (text: string): ClientId => text as ClientId
