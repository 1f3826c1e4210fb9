/**
 * Identifiers cannot be taken for one another: each line under `@ts-expect-error` would compile if it could,
 * and the type check of this file fails then.
 */
import { describe, expect, it } from 'vitest'
import type { Db, Tx } from '../../src/storage/authority/database.ts'
import { readConnection, revokeConnection } from '../../src/storage/authority/connections/connections.ts'
import { readResourceServer } from '../../src/storage/authority/registry/resources.ts'
import type { ExpectedGrant } from '../../src/enforcement/introspection.ts'
import { readFamily } from '../../src/storage/authority/negotiations/tickets.ts'
import {
  asClientId,
  asFamily,
  asHandle,
  asOwner,
  type ClientId,
  type Family,
  type Handle,
  type Owner,
} from '../../src/wire/identifiers.ts'
import type { ReceiptClaims } from '../../src/wire/negotiation/receipt.ts'
import type { RptClaims } from '../../src/wire/negotiation/tokens.ts'

interface Named {
  owner: Owner
  handle: Handle
  family: Family
  client_id: ClientId
}

/** Never run: what counts is whether it compiles. */
export function swapped(db: Db, tx: Tx, { owner, handle, family, client_id }: Named): void {
  void readConnection(db, owner, handle)
  // @ts-expect-error an agent is no owner, nor an owner an agent
  void readConnection(db, handle, owner)
  // @ts-expect-error a negotiation is no agent
  void revokeConnection(tx, owner, family)
  // @ts-expect-error a resource server is no agent
  void revokeConnection(tx, owner, client_id)

  void readFamily(db, owner, family)
  // @ts-expect-error a negotiation is no owner, nor an owner a negotiation
  void readFamily(db, family, owner)
  // @ts-expect-error an agent is no negotiation
  void readFamily(db, owner, handle)
  // @ts-expect-error a resource server is no negotiation
  void readFamily(db, owner, client_id)

  void readResourceServer(db, owner, client_id)
  // @ts-expect-error a resource server is no owner, nor an owner a resource server
  void readResourceServer(db, client_id, owner)
  // @ts-expect-error an agent is no resource server
  void readResourceServer(db, owner, handle)
  // @ts-expect-error a negotiation is no resource server
  void readResourceServer(db, owner, family)

  // @ts-expect-error a text is none of them until somebody says which
  void readConnection(db, 'alice', handle)
}

/** Never run likewise: the claims of what is signed, and what an enforcement point expects of a grant. */
export function swappedClaims(
  { owner, handle, family, client_id }: Named,
  signed: { rpt: RptClaims; receipt: ReceiptClaims; expected: ExpectedGrant },
): unknown[] {
  const { rpt, receipt, expected } = signed
  return [
    { ...rpt, sub: handle, client_id: handle, owner, family } satisfies RptClaims,
    // @ts-expect-error the client_id of an RPT is its agent, and no resource server
    { ...rpt, client_id } satisfies RptClaims,
    // @ts-expect-error an agent is no owner
    { ...rpt, owner: handle } satisfies RptClaims,
    // @ts-expect-error an owner is no agent
    { ...receipt, sub: owner } satisfies ReceiptClaims,
    // @ts-expect-error an agent is no negotiation
    { ...receipt, family: handle } satisfies ReceiptClaims,
    // @ts-expect-error a negotiation is no owner
    { ...expected, owner: family } satisfies ExpectedGrant,
  ]
}

describe('An identifier', () => {
  it('is the text that it was read as, and nothing beside', () => {
    const texts = [asOwner('alice'), asHandle('jkt:x'), asFamily('fam_x'), asClientId('demo-tools')]
    expect(JSON.stringify(texts)).toBe('["alice","jkt:x","fam_x","demo-tools"]')
  })
})
