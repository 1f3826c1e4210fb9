/**
 * `usher owner receipts`. Contract, "Grant answer (beat 4)": what both sides hold can be shown, and anybody
 * with the published keys can verify it.
 */
import { beforeEach, describe, expect, it } from 'vitest'
import { signAgreement, signReceipt, verifyAgreement } from '../../src/wire/negotiation/agreement.ts'
import { publicJwk, type PrivateKey } from '../../src/wire/signatures/keys.ts'
import { ownerCommand } from '../support/owner-command.ts'
import { agreementContent, newKey, receiptClaims } from '../support/wire-samples.ts'

const authority = newKey()
const agent = newKey()
const agreement = verifyAgreement(signAgreement(agreementContent(), agent))
let published: unknown
beforeEach(() => void (published = { keys: [publicJwk(authority)] }))
const { answers, api, issuer, owner } = ownerCommand(() => published)

/** As the list tells it: the n-th receipt, signed by `key`. */
function record(n: number, key: PrivateKey = authority) {
  const iat = Math.floor(Date.now() / 1_000) - 60
  const claims = receiptClaims(agent, agreement, { iss: issuer(), iat, rpt: `rpt_${n}` })
  const { family, sub: handle, rpt: jti } = claims
  const issued_at = '2026-11-22T09:00:00.000Z'
  return { seq: n, family, jti, handle, issued_at, receipt: signReceipt(claims, key) }
}

/** The receipt with its claims changed after it was signed. */
function tampered(one: ReturnType<typeof record>) {
  const [header, payload, signature] = one.receipt.split('.') as [string, string, string]
  const claims = JSON.parse(Buffer.from(payload, 'base64url').toString()) as object
  const changed = Buffer.from(JSON.stringify({ ...claims, owner: 'mallory' })).toString('base64url')
  return { ...one, receipt: `${header}.${changed}.${signature}` }
}

const answer = (...receipts: object[]) => {
  answers['/owner/receipts'] = { body: { receipts, next: null } }
}

describe('receipts', () => {
  it('is a table of what is kept, with the filters of the call', async () => {
    answer(record(1))
    const { code, printed } = await owner('receipts', '--family', 'fam_7', '--after', '4', '--limit', '5')
    expect(code).toBe(0)
    expect(printed).toMatch(
      /^SEQ +ISSUED +FAMILY +GRANT +RESOURCE +HANDLE\n1 +2026-11-22 09:00:00Z +\S+ +rpt_1 +\S+ +jkt:\S+\n$/,
    )
    const query = new URLSearchParams(api.to('/owner/receipts')[0]!.query)
    expect(Object.fromEntries(query)).toEqual({ family: 'fam_7', after: '4', limit: '5' })
  })

  it('name the resource that each is about, by its id and her name for it', async () => {
    const { resource_id } = receiptClaims(agent, agreement)
    answers['/owner/resources'] = { body: [{ _id: resource_id, name: 'Savings' }] }
    answer(record(1), { ...record(2), receipt: 'receipt' })
    const { printed } = await owner('receipts')
    const [head, first, second] = printed.trimEnd().split('\n')
    expect(head).toMatch(/ RESOURCE +RESOURCE NAME +HANDLE$/)
    expect(first).toMatch(new RegExp(` rpt_1 +${resource_id} +Savings +jkt:`))
    expect(second).toMatch(/ rpt_2 +- +- +jkt:/)
  })

  it('reads page after page', async () => {
    const all = [record(1), record(2), record(3)]
    api.script('/owner/receipts', ({ query }) => {
      const after = Number(new URLSearchParams(query).get('after') ?? 0)
      return { body: { receipts: all.slice(after, after + 2), next: after === 0 ? 2 : null } }
    })
    const { printed } = await owner('receipts', '--json')
    expect(JSON.parse(printed)).toEqual(all)
  })
})

describe('receipts --verify', () => {
  it('a good one is verified by the keys that the authority publishes', async () => {
    answer(record(1))
    const { code, printed } = await owner('receipts', '--verify')
    expect(code).toBe(0)
    expect(printed).toMatch(/ verified\n$/)
  })

  describe.each([
    ['one that was changed', () => tampered(record(2)), /signature/i],
    ['one of a key that the authority does not publish', () => record(2, newKey()), /key/i],
    ['one that the list says is of another grant', () => ({ ...record(2), jti: 'rpt_9' }), /another/],
    ['one of another authority', () => ({ ...record(2), receipt: foreign() }), /iss/],
    ['what is no receipt', () => ({ ...record(2), receipt: 'receipt' }), /./],
  ])('%s', (_what, bad, says) => {
    beforeEach(() => answer(record(1), bad(), record(3)))

    it('is named with what is wrong, beside those that hold, and the command fails', async () => {
      const { code, printed, said } = await owner('receipts', '--verify')
      const [, ...found] = printed.trimEnd().split('\n')
      expect(found.map(line => line.endsWith(' verified'))).toEqual([true, false, true])
      expect(found[1]).toMatch(says)
      expect(said).toContain('Of 3 receipts 1 do not hold')
      expect(code).toBe(1)
    })

    it('has its fault in the JSON', async () => {
      const { code, printed } = await owner('--json', 'receipts', '--verify')
      const found = JSON.parse(printed) as { verified: boolean; fault: string | null }[]
      expect(found.map(({ verified }) => verified)).toEqual([true, false, true])
      expect(found[1]!.fault).toMatch(says)
      expect(code).toBe(1)
    })
  })

  it('if the authority publishes no keys nothing is said of any', async () => {
    answer(record(1))
    published = 'no keys'
    const { code, printed, said } = await owner('receipts', '--verify')
    expect([code, printed]).toEqual([1, ''])
    expect(said).toContain(issuer())
  })
})

const foreign = (): string =>
  signReceipt(receiptClaims(agent, agreement, { iss: 'https://other.example' }), authority)
