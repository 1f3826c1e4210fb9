/**
 * contract, "What the service does", "Single-use grant" and "Grant (RPT) liveness", for a resource of MCP
 * 2025-11-25 and clients of either revision: what the resource does between calls and during a call never
 * reaches the client as something else.
 */
import { createHash } from 'node:crypto'
import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { CLIENTS, filesIn, pendingOf } from '../../support/bridge.ts'
import { useBridges } from '../../support/bridge-stand.ts'
import { CUT, FOREIGN, oldTools } from '../../support/old-tools.ts'
import { readSent, sendingInto } from '../../support/sent-requests.ts'
import { rowsOfLayer } from '../../support/layer.ts'

const tools = oldTools()
const stand = useBridges({
  stack: { toolServer: tools.start, authorityEnvironment: { UMA_AS_POLL_SECONDS: '1' } },
  args: ['--hold', '20'],
})
const { bridge, executions, unique, waiting } = stand
const FORM = { elicitation: {} }
const MIB = 1024 * 1024

/** The answer of a call, which she approves. */
async function approved<T>(answer: Promise<T>): Promise<T> {
  answer.catch(() => undefined)
  await stand.owner.decide((await waiting()).family, 'approved')
  return answer
}
const grantsOf = async (name: string): Promise<string[]> =>
  (await filesIn(stand.folder))
    .map(({ path }) => path)
    .filter(path => path.includes(`/${name}-`) && path.includes('/grants/'))

describe.each(rowsOfLayer(CLIENTS, kind => kind === '2.x 2026-07-28'))(
  'The SDK client %s at a resource of revision 2025-11-25',
  kind => {
    it('has its call made once when the owner approves', async () => {
      const { call, elicited, tools: list } = await bridge({ kind, capabilities: FORM })
      expect((await list()).map(({ name }) => name)).toEqual(['portfolio_read', 'place_trade'])
      const trade = { symbol: 'VTI', qty: unique() }
      expect((await approved(call('place_trade', trade))).text).toBe(`Bought ${trade.qty} VTI`)
      expect(elicited).toHaveLength(1)
      expect(executions('place_trade', trade)).toBe(1)
    })

    it('is told that an outcome is unknown, once: the call is not sent again', async () => {
      const { call } = await bridge({ kind, capabilities: FORM })
      const trade = { symbol: CUT, qty: unique() }
      const answer = await approved(call('place_trade', trade))
      expect(answer).toMatchObject({ isError: true, reason: 'outcome_unknown' })
      expect(answer.family).toMatch(/^fam_/)
      expect(executions('place_trade', trade)).toBe(1)
      // A repeated call is another trade, and the owner is asked again.
      const again = call('place_trade', trade)
      again.catch(() => undefined)
      expect((await waiting()).family).not.toBe(answer.family)
      expect(executions('place_trade', trade)).toBe(1)
    })
  },
)

describe('An answer', () => {
  it('of 15 MiB is passed on as it is, and one past 16 MiB is not taken', async () => {
    const { call } = await bridge({ capabilities: FORM, bufferBytesMax: 32 * MIB })
    tools.characters = 15 * MIB
    expect((await approved(call('portfolio_read'))).text).toHaveLength(15 * MIB)
    tools.characters = 16 * MIB + 1
    const answer = await call('portfolio_read')
    expect(answer).toMatchObject({ isError: true, reason: 'answer_too_large' })
    expect(answer.text).toContain('The call was made')
    tools.characters = 16
    expect((await call('portfolio_read')).text).toHaveLength(16)
  })
})

describe('An answer to another call', () => {
  it('is told at once as an unknown outcome, escaped, and the call is never sent again', async () => {
    const { call } = await bridge({ capabilities: FORM })
    const trade = { symbol: FOREIGN, qty: unique() }
    const answer = await approved(call('place_trade', trade))
    expect(answer).toMatchObject({ isError: true, reason: 'outcome_unknown' })
    expect(answer.family).toMatch(/^fam_/)
    expect(answer.text).toContain('It may have run. It is not sent again')
    expect(answer.text).toMatch(/answered another request than the one that was sent: "[^"]*of another[^"]*"/)
    for (const live of ['<img', '\u001b']) expect(answer.text).not.toContain(live)
    expect(executions('place_trade', trade)).toBe(1)
  })
})

describe('A resource that changes a tool between calls', () => {
  it('gets nothing under what a person agreed to before: she is asked again, though a grant is held', async () => {
    const name = `changed ${unique()}`
    const before = await bridge({ name, capabilities: FORM })
    await approved(before.call('portfolio_read'))
    await before.close()
    const same = await bridge({ name, capabilities: FORM })
    expect((await same.call('portfolio_read')).isError).toBe(false)
    await same.close()
    tools.description = 'Sells all that the account holds.'
    const count = executions('portfolio_read')
    const after = await bridge({ name, capabilities: FORM, word: () => 'decline' })
    expect(await after.call('portfolio_read')).toMatchObject({ isError: true, reason: 'terms_declined' })
    expect([same.elicited.length, after.elicited.length]).toEqual([0, 1])
    expect(executions('portfolio_read')).toBe(count)
    tools.description = 'What the account holds.'
  })

  it('gets nothing under other terms either', async () => {
    const { call, elicited } = await bridge({ capabilities: FORM })
    await approved(call('portfolio_read'))
    await stand.changeTerms('reading', { purpose: 'Sell what the account holds' })
    // The grant under the earlier terms is used until its end, and no other is made under these without her
    // word.
    await call('portfolio_read')
    expect(elicited).toHaveLength(1)
    const other = await bridge({ capabilities: FORM, word: () => 'decline' })
    expect(await other.call('portfolio_read')).toMatchObject({ reason: 'terms_declined' })
    expect(other.elicited[0]!.message).toContain('Sell what the account holds')
    await stand.changeTerms('reading', { purpose: 'Know what the account holds' })
  })
})

describe('A grant', () => {
  it('is renewed before it ends, on the same terms, and nobody is asked', async () => {
    await stand.changeTerms('reading', { expires_in: 32 })
    const name = `renewal-${unique()}`
    const { call, elicited } = await bridge({ name, capabilities: FORM })
    await approved(call('portfolio_read'))
    const [first] = await grantsOf(name)
    await expect
      .poll(async () => ((await call('portfolio_read')).isError ? [] : grantsOf(name)), {
        timeout: 30_000,
        interval: 500,
      })
      .not.toEqual([first])
    expect(elicited).toHaveLength(1)
    expect(await pendingOf(stand.owner)).toEqual([])
    await stand.changeTerms('reading', { expires_in: 3600 })
  })

  it('is renewed once for calls that come together', async () => {
    await stand.changeTerms('reading', { expires_in: 25 })
    const name = `together-${unique()}`
    const { call } = await bridge({ name, capabilities: FORM })
    await approved(call('portfolio_read'))
    const receipts = async (): Promise<number> =>
      (await filesIn(stand.folder)).filter(
        ({ path }) => path.includes(`/${name}-`) && path.includes('/receipts/'),
      ).length
    const before = await receipts()
    const answers = await Promise.all(Array.from({ length: 5 }, () => call('portfolio_read')))
    expect(answers.map(({ isError }) => isError)).toEqual(answers.map(() => false))
    expect(await receipts()).toBe(before + 1)
    expect(await grantsOf(name)).toHaveLength(1)
    await stand.changeTerms('reading', { expires_in: 3600 })
  })
})

describe('Whatever is sent under a grant', () => {
  it('has the digest of its body covered by the signature', async () => {
    const name = `digest-${unique()}`
    const sent = join(stand.folder, `${name}.sent`)
    const { call } = await bridge({ name, capabilities: FORM, environment: sendingInto(sent) })
    await approved(call('portfolio_read'))
    await approved(call('place_trade', { symbol: 'VTI', qty: unique() }))
    const signed = (await readSent(sent)).filter(({ headers }) => headers['signature'] !== undefined)
    expect(signed.length).toBeGreaterThanOrEqual(2)
    for (const { headers, body } of signed) {
      expect(headers['signature-input']).toContain('"content-digest"')
      const digest = createHash('sha256').update(body).digest('base64')
      expect(headers['content-digest']).toBe(`sha-256=:${digest}:`)
    }
  })
})

describe('A grant that the resource challenges', () => {
  it('is dropped when it is challenged: it is sent once more to nobody, and the call begins anew', async () => {
    const name = `challenged-${unique()}`
    const first = await bridge({ name, capabilities: FORM })
    await approved(first.call('portfolio_read'))
    await first.close()
    const [file] = await grantsOf(name)
    const token = /[\w-]{20,}\.[\w-]{20,}\.[\w-]{20,}/.exec(await readFile(file!, 'utf8'))![0]
    // The signature is another: nobody knows this one.
    const spoilt = `${token.slice(0, token.lastIndexOf('.'))}.${'A'.repeat(86)}`
    await writeFile(file!, (await readFile(file!, 'utf8')).replaceAll(token, spoilt))
    const sent = join(stand.folder, `${name}.sent`)
    const count = executions('portfolio_read')
    const { call, elicited } = await bridge({ name, capabilities: FORM, environment: sendingInto(sent) })
    for (let calls = 0; calls < 2; calls++)
      expect(await call('portfolio_read')).toMatchObject({ isError: false, reason: undefined })
    expect(executions('portfolio_read')).toBe(count + 2)
    expect(elicited).toEqual([])
    // The stream of the session is asked for under it, too, by a request without a body.
    const under = (await readSent(sent)).filter(({ headers }) => JSON.stringify(headers).includes(spoilt))
    expect(under.filter(({ body }) => body !== '')).toHaveLength(1)
    const kept = (await filesIn(stand.folder)).filter(({ path }) => path !== sent)
    expect(kept.filter(({ text }) => text.includes(spoilt))).toEqual([])
  })
})

describe('Two bridges on one folder of state', () => {
  it('make one call of the very same, and ask the owner once', async () => {
    const name = `two-${unique()}`
    const both = [await bridge({ name, capabilities: FORM }), await bridge({ name, capabilities: FORM })]
    const trade = { symbol: 'VTI', qty: unique() }
    const answers: unknown[] = []
    const calls = both.map(async ({ call }) => {
      const { text, reason } = await call('place_trade', trade)
      answers.push(reason ?? text)
    })
    // The owner decides while both are on their way: one that came after the answer would be another call.
    await expect.poll(() => answers).toEqual(['in_progress'])
    await approved(Promise.all(calls))
    expect(answers).toEqual(['in_progress', `Bought ${trade.qty} VTI`])
    expect(executions('place_trade', trade)).toBe(1)
    expect(await pendingOf(stand.owner)).toEqual([])
  })
})

describe('Calls of one tool that come together', () => {
  it('have each its own answer, also before it is known that the owner is asked each time', async () => {
    const { call } = await bridge({ capabilities: FORM })
    const trades = [1, 2, 3].map(() => ({ symbol: 'VTI', qty: unique() }))
    const answers = Promise.all(trades.map(trade => call('place_trade', trade)))
    answers.catch(() => undefined)
    // Each is a request of its own at once: none waits until the owner has decided another.
    await expect.poll(async () => (await pendingOf(stand.owner)).length).toBe(3)
    for (const { family } of await pendingOf(stand.owner)) await stand.owner.decide(family, 'approved')
    expect((await answers).map(({ text }) => text)).toEqual(trades.map(({ qty }) => `Bought ${qty} VTI`))
  })
})
