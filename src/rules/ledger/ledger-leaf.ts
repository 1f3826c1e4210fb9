/**
 * What of a ledger entry is hashed into its owner's Merkle tree. The tree covers everything that the entry
 * says, yet its leaf can be shown to others: without the salt nobody can guess the entry from it.
 *
 * Contract: "Events" (row 5); docs/choices.md, "The tree of the ledger".
 */
import { encodeBase64url, s256 } from '../../wire/encoding.ts'
import { canonicalize } from '../../wire/json.ts'
import { leafHash } from './merkle.ts'

/** An entry as the database has it, and as it is exported. */
export interface LedgerRow {
  owner: string
  /** As `GET /owner/ledger` answers it: UTC, three decimals, `Z`. */
  ts: string
  kind: string
  /** 16 random bytes, of this entry alone. */
  salt: Uint8Array
  family: string | null
  handle: string | null
  count: number
  /** The column's text, byte for byte. It is never parsed: two readers could read one text differently. */
  data: string
  /** The position of the entry before it with the same handle, or 0. Not used without a handle. */
  prev: number
}

/**
 * The leaf hash of an entry, 32 bytes. It has a value for every row that a database can hold. There is one
 * for each call, so the members are written in the order of JCS here, and nothing sorts them.
 */
export function ledgerLeaf({ owner, ts, kind, prev, salt, family, handle, count, data }: LedgerRow): Buffer {
  const what = `"count":${canonicalize(count)},"data":${canonicalize(data)}`
  const whose = `"family":${canonicalize(family)},"handle":${canonicalize(handle)}`
  const body_s256 = s256(`{${what},${whose},"salt":"${encodeBase64url(salt)}"}`)
  const chained = handle === null ? '' : `,"prev":${canonicalize(prev)}`
  const entry = `"kind":${canonicalize(kind)},"owner":${canonicalize(owner)}${chained}`
  return leafHash(`{"body_s256":"${body_s256}",${entry},"ts":${canonicalize(ts)},"v":1}`)
}

/**
 * The leaf hash at a position whose entry was deleted before there was a tree. It says that something stood
 * there, and not what.
 */
export function deletedLeaf(owner: string, position: number): Buffer {
  return leafHash(canonicalize({ v: 1, owner, deleted: position }))
}
