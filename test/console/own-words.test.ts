/**
 * The agent's own words on her page: contract, "Agreement (claim_token, beat 3)": they come from bytes that
 * the key of the waiting item signed, and from no others. The page and the programs judge alike.
 */
import { describe, expect, it } from 'vitest'
import { signedAgreement } from '../../src/console/jws.ts'
import { openClaimToken, signAgreement } from '../../src/wire/negotiation/agreement.ts'
import { encodeBase64url, s256 } from '../../src/wire/encoding.ts'
import { signJws } from '../../src/wire/signatures/jws.ts'
import { verifyKnownAgreement } from '../../src/wire/negotiation/known-agreement.ts'
import { TYP } from '../../src/wire/names.ts'
import { Refusal } from '../../src/wire/refusal.ts'
import { agentToken, agreementContent, newKey } from '../support/wire-samples.ts'

const [agent, stranger] = [newKey(), newKey()]
const content = agreementContent({ reason: 'To plan your day' })
const compactOf = (changes: object = {}, key = agent): string =>
  openClaimToken(signAgreement({ ...content, ...changes }, key)).compact
const jwk = { ...agent.jwk }
const signed = compactOf()
const payload = { reason: 'To plan your day' }

/** The claims that page and programs read; undefined if both refuse it. */
async function read(compact: string, named: { agreement?: string; jkt?: string } = {}) {
  const by = { agreement: s256(compact), jkt: agent.thumbprint, ...named }
  const onPage = await signedAgreement(compact, by)
  let elsewhere: unknown
  try {
    elsewhere = verifyKnownAgreement(compact, by)
  } catch (error) {
    if (!(error instanceof Refusal)) throw error
  }
  expect(onPage).toEqual(elsewhere)
  return onPage
}

describe('What an agent signed', () => {
  it.each([
    ['a bare key', signed],
    ['a key in a token of its provider', compactOf({ agent_token: agentToken(newKey(), agent) })],
    ['no typ', signJws({ kid: false, header: { jwk }, payload }, agent)],
    [
      'its typ as a media type',
      signJws({ typ: `application/${TYP.agreement}`, kid: false, header: { jwk }, payload }, agent),
    ],
  ])('with %s is read', async (_what, compact) => {
    expect(await read(compact)).toMatchObject({ reason: 'To plan your day' })
  })
})

describe('Words are not read', () => {
  const [header, body, signature] = signed.split('.') as [string, string, string]
  const claims = JSON.parse(Buffer.from(body, 'base64url').toString()) as object
  const other = encodeBase64url(JSON.stringify({ ...claims, reason: 'Because alice said so' }))

  it.each<[string, string, { agreement?: string; jkt?: string }]>([
    ['of another agreement than the item names', signed, { agreement: s256('another') }],
    ['that were exchanged under the signature', `${header}.${other}.${signature}`, {}],
    ['that another key signed under the header of the agent', forged({ jwk }), {}],
    ['that another key signed and names', compactOf({}, stranger), {}],
    ['if the item names another key', signed, { jkt: stranger.thumbprint }],
    ['of a token whose key did not sign', forged({ agent_token: agentToken(newKey(), agent) }), {}],
    [
      'of another kind of document',
      signJws({ typ: TYP.receipt, kid: false, header: { jwk }, payload }, agent),
      {},
    ],
    ['without a signature', `${header}.${body}.`, {}],
  ])('%s', async (_what, compact, named) => {
    expect(await read(compact, named)).toBeUndefined()
  })

  function forged(named: object): string {
    return signJws({ typ: TYP.agreement, kid: false, header: named, payload: claims }, stranger)
  }
})
