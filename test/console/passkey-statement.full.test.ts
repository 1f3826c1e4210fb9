/**
 * A decision that a passkey signed, as her page checks it in a receipt: contract, "Algorithms". Whatever
 * the authority's code refuses of a statement, the page calls wrong.
 */
import { describe, expect, it } from 'vitest'
import { signedByPasskey } from '../../src/console/access/passkey-statement.ts'
import type { PasskeyStatement } from '../../src/wire/owner/decision-statement.ts'
import type { Json } from '../../src/wire/json.ts'
import type { Passkey } from '../../src/wire/owner/owner-credentials.ts'
import { ITEM } from '../support/decision-samples.ts'
import {
  approvalByPasskey,
  base64url,
  newPasskey,
  ORIGIN,
  passkeyStatement,
  RP_ID,
  sha256,
  type SoftPasskey,
  type Wrongly,
} from '../support/passkeys.ts'

const [hers, another] = [newPasskey(), newPasskey({ id: 'passkey-2' })]
const listed = ({ id, jwk }: SoftPasskey, name: string): Passkey => ({
  id,
  name,
  jwk: { kty: 'EC', crv: 'P-256', x: jwk.x, y: jwk.y },
  rp_id: RP_ID,
  origins: [],
  surface: 'served',
  added_at: '2026-11-21T09:00:00.000Z',
  removed_at: '2026-11-22T09:00:00.000Z',
})
const checked = (statement: unknown) => signedByPasskey(statement as Json, [listed(hers, 'ring')])
const GOOD = approvalByPasskey(ITEM, hers)
const wrongly = (how: Wrongly): PasskeyStatement => passkeyStatement(GOOD.payload, hers, how)

describe('A decision that a passkey signed, in her page', () => {
  it('is by the passkey that she calls so, though she has removed it', async () => {
    expect(await checked(GOOD)).toEqual({ payload: GOOD.payload, name: 'ring' })
    // r and s are as short as they happen to be.
    for (let round = 0; round < 300; round++)
      expect(await checked(approvalByPasskey(ITEM, hers))).toMatchObject({ name: 'ring' })
    expect(await checked(wrongly({ clientData: { origin: `https://page.${RP_ID}` } }))).toMatchObject({
      name: 'ring',
    })
  })

  it('is by something else if the passkey is none of hers', async () => {
    expect(await checked(approvalByPasskey(ITEM, another))).toBe('other')
  })

  it.each<[string, () => unknown]>([
    ['of a registration', () => wrongly({ clientData: { type: 'webauthn.create' } })],
    ['over another challenge', () => wrongly({ clientData: { challenge: base64url(sha256('{}')) } })],
    ['at another origin', () => wrongly({ clientData: { origin: 'https://evil.example' } })],
    ['at an origin that only ends so', () => wrongly({ clientData: { origin: `https://evil${RP_ID}` } })],
    ['at no origin', () => wrongly({ clientData: { origin: ORIGIN.slice(8) } })],
    ['in a frame', () => wrongly({ clientData: { crossOrigin: true } })],
    ['for another relying party', () => wrongly({ rpId: 'example' })],
    ['without the person present', () => wrongly({ flags: 0x04 })],
    ['without the person verified', () => wrongly({ flags: 0x01 })],
    ['with bytes after it', () => wrongly({ trailing: Buffer.from([0]) })],
    ['in another spelling', () => wrongly({ respell: der => Buffer.concat([der, Buffer.from([0])]) })],
    ['by raw r and s', () => wrongly({ respell: der => der.subarray(0, 64) })],
    ['by nothing', () => wrongly({ webauthn: { signature: '' } })],
    ['that was changed since', () => ({ ...GOOD, payload: { ...GOOD.payload, single_use: false } })],
    ['in the name of another key', () => passkeyStatement({ ...GOOD.payload, iss: 'jkt:x' }, hers)],
    ['that is none', () => ({ payload: GOOD.payload })],
    ['that is a number', () => 7],
  ])('%s is wrong', async (_what, statement) => {
    expect(await checked(statement())).toBe('wrong')
  })
})
