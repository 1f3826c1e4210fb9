/**
 * Owns how large a published document may be, for who writes it and for who reads it: what nobody would read
 * is refused where it is written. Contract: "Limits" (sizes are ours to choose).
 */

/** Metadata of resources and authorities, key sets of ours, documents of strangers. */
export const DOCUMENT_BYTES_MAX = 65_536
/** Key sets of realms and issuers that the operator named: their keys may carry certificates. */
export const NAMED_KEYS_BYTES_MAX = 524_288
/** A mandate as a tally serves it, with the resources that are registered. */
export const MANDATE_BYTES_MAX = 1_048_576
/** How many resources are listed of one owner, or of one account. */
export const RESOURCES_MAX = 10_000
/** How many keys of its own a process publishes. */
export const KEYS_MAX = 100
/** How many scopes a resource's metadata lists. */
export const SCOPES_SUPPORTED_MAX = 1_000
