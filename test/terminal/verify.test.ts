/**
 * contract, "Grant answer (beat 4)", "RPT claims", "Owner API" (`/owner/pending/{family}/decision`): what was
 * given out holds by keys that the reader has, and nobody is asked.
 */
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { Command } from 'commander'
import { expect, it } from 'vitest'
import { runCommand } from '../../src/terminal/command.ts'
import { verifyDocument, type Verifiable } from '../../src/terminal/verify-command.ts'
import { publicJwk, type PrivateKey } from '../../src/wire/signatures/keys.ts'
import { signAgreement, verifyAgreement } from '../../src/wire/negotiation/agreement.ts'
import { itemDigest } from '../../src/wire/owner/decision-item.ts'
import { signReceipt } from '../../src/wire/negotiation/receipt.ts'
import { signRpt } from '../../src/wire/negotiation/tokens.ts'
import { configFolder } from '../support/config-files.ts'
import { approvalByPasskey, newPasskey } from '../support/passkeys.ts'
import { approvalOf, ITEM } from '../support/decision-samples.ts'
import { agreementContent, newKey, NOW, receiptClaims, rptClaims } from '../support/wire-samples.ts'

const { folder } = configFolder()
const [issuer, bea, agent] = [newKey(), newKey(), newKey()]
const write = (name: string, source: string): string => {
  writeFileSync(join(folder, name), source)
  return join(folder, name)
}
const jwks = (...keys: PrivateKey[]): string => JSON.stringify({ keys: keys.map(key => publicJwk(key)) })

/** The exit code, and what was printed, of the document under these keys. */
async function verify(kind: Verifiable, document: string, keys: string, now = NOW) {
  const [out, err]: string[][] = [[], []]
  const terminal = {
    out: (text: string) => void out!.push(text),
    err: (text: string) => void err!.push(text),
  }
  const given = { file: write('document', `${document}\n`), keys: write('keys.json', keys) }
  const program = new Command('verify').action(() => verifyDocument(kind, given, { terminal, now }))
  const code = await runCommand(program, [], terminal)
  return { code, printed: out!.join(''), said: err!.join('') }
}

const statement = approvalOf(ITEM, bea)

it('a decision that she signed holds by her key, also long after it could be used', async () => {
  for (const now of [NOW, NOW + 10 * 365 * 86_400]) {
    const { code, printed } = await verify('statement', statement, jwks(issuer, bea), now)
    expect([code, JSON.parse(printed)]).toMatchObject([0, { owner: 'bea', item_s256: itemDigest(ITEM) }])
  }
  const refused = await verify('statement', statement, jwks(issuer))
  expect(refused).toMatchObject({ code: 1, printed: '' })
  expect(refused.said).toContain('This statement does not hold')
  expect((await verify('statement', statement, jwks(bea), NOW - 61)).code).toBe(1)
  expect((await verify('statement', statement.replace('.', '.e'), jwks(bea))).code).toBe(1)
})

it('a decision that her passkey signed holds by it, beside whatever keys of others', async () => {
  const [hers, another] = [newPasskey(), newPasskey()]
  const document = JSON.stringify(approvalByPasskey(ITEM, hers))
  const file = (...keys: object[]): string =>
    JSON.stringify({ keys: [...keys, publicJwk(issuer), { kty: 'EC', crv: 'P-384' }] })
  expect(await verify('statement', document, file(hers.jwk), NOW + 86_400)).toMatchObject({
    code: 0,
    said: '',
  })
  for (const keys of [file(another.jwk), file({ ...hers.jwk, origins: ['https://other.example'] }), file()])
    expect(await verify('statement', document, keys)).toMatchObject({ code: 1, printed: '' })
  const claims = receiptClaims(agent, verifyAgreement(signAgreement(agreementContent(), agent)))
  const decision = { item_s256: itemDigest(ITEM), statement: approvalByPasskey(ITEM, hers) }
  const receipt = signReceipt({ ...claims, owner: ITEM.owner, owner_decision: decision }, issuer)
  const { code, printed } = await verify('receipt', receipt, file(hers.jwk))
  expect([code, JSON.parse(printed)]).toMatchObject([0, { owner_decision: { verified: true } }])
})

it('a grant holds by the key of its authority while it lives', async () => {
  const rpt = signRpt(rptClaims(agent), issuer)
  expect(await verify('grant', rpt, jwks(issuer))).toMatchObject({ code: 0, said: '' })
  expect((await verify('grant', rpt, jwks(bea))).code).toBe(1)
  expect((await verify('grant', rpt, jwks(issuer), NOW + 3600)).code).toBe(1)
  expect((await verify('statement', rpt, jwks(issuer))).code).toBe(1)
})

it('a receipt holds with the agreement in it, and what she signed if her key is given', async () => {
  const claims = receiptClaims(agent, verifyAgreement(signAgreement(agreementContent(), agent)))
  const decided = (by: string) => ({
    ...claims,
    owner: ITEM.owner,
    owner_decision: { item_s256: itemDigest(ITEM), statement: by },
  })
  expect((await verify('receipt', signReceipt(claims, issuer), jwks(issuer))).code).toBe(0)
  const receipt = signReceipt(decided(statement), issuer)
  const known = async (...keys: PrivateKey[]) =>
    JSON.parse((await verify('receipt', receipt, jwks(...keys))).printed) as object
  expect(await known(issuer, bea)).toMatchObject({ owner_decision: { statement, verified: true } })
  expect(await known(issuer)).toMatchObject({ owner_decision: { verified: false } })
  const other = signReceipt(decided(approvalOf({ ...ITEM, tier: 'other' }, bea)), issuer)
  expect((await verify('receipt', other, jwks(issuer, bea))).code).toBe(1)
  expect((await verify('receipt', receipt, jwks(bea))).code).toBe(1)
})

it('files that cannot be read, and texts that are no keys, are wrong usage', async () => {
  for (const keys of ['{', '{"keys":[]}', '[]']) expect((await verify('grant', 'x', keys)).code).toBe(2)
  const given = { file: join(folder, 'none'), keys: write('keys.json', jwks(bea)) }
  const terminal = { out: () => undefined, err: () => undefined }
  await expect(verifyDocument('grant', given, { terminal, now: NOW })).rejects.toThrow('cannot be read')
})
