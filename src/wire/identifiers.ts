/**
 * The identifiers that are easily taken for one another, each a kind of text of its own: one in the place of
 * another does not compile. A text becomes one where it is read (a body, a parameter, a token, a
 * configuration) or made, and nowhere else; rows are typed by it. Contract: "Resources and their fields".
 */

declare const owner: unique symbol
declare const handle: unique symbol
declare const family: unique symbol
declare const client: unique symbol

/** Whose things are protected: the name that an authority knows her by. */
export type Owner = string & { readonly [owner]: true }
/** An agent, as an owner's authority knows it (contract, "Connection"). */
export type Handle = string & { readonly [handle]: true }
/** One negotiation, from its first ticket to what came of it. */
export type Family = string & { readonly [family]: true }
/**
 * A resource server, as one owner's authority knows it. An agent's own client_id is a URL, and none of these.
 */
export type ClientId = string & { readonly [client]: true }

/** Says that a text which was read names an owner; not that there is such an owner. */
export const asOwner = (text: string): Owner => text as Owner
/** Says that a text which was read names an agent; not that it is connected. */
export const asHandle = (text: string): Handle => text as Handle
/** Says that a text which was read names a negotiation; not that there was one. */
export const asFamily = (text: string): Family => text as Family
/** Says that a text which was read names a resource server; not that it is registered. */
export const asClientId = (text: string): ClientId => text as ClientId
