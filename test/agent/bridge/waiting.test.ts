/**
 * contract, "Permission ticket" (awaiting-owner): how a client of the bridge waits for the owner, by what it
 * can do; and what becomes of a request that nobody waits for.
 */
import { describe, expect, it } from 'vitest'
import { asFamily } from '../../../src/wire/identifiers.ts'
import { linkTo } from '../../../src/wire/owner/notification.ts'
import { CLIENTS, pendingOf, type BridgeOptions } from '../../support/bridge.ts'
import { rowsOfLayer } from '../../support/layer.ts'
import { useBridges } from '../../support/bridge-stand.ts'

const stand = useBridges()
const { bridge, executions, unique, waiting } = stand

describe('A client that is held', () => {
  it('has the answer of its one call when the owner decides, with progress where it listens', async () => {
    const { call } = await bridge({ capabilities: { elicitation: {} } })
    const heard: (string | undefined)[] = []
    const before = executions('place_trade')
    const trade = { symbol: 'VTI', qty: unique() }
    const answer = call('place_trade', trade, { onprogress: ({ message }) => void heard.push(message) })
    await stand.owner.decide((await waiting()).family, 'approved')
    expect((await answer).text).toBe(`Bought ${trade.qty} VTI`)
    expect(heard[0]).toContain('The owner (alice) decides')
    expect(executions('place_trade')).toBe(before + 1)
  })

  it('and leaves: an approval meanwhile executes nothing until the repeat', async () => {
    const { call } = await bridge({ capabilities: { elicitation: {} } })
    const before = executions('place_trade')
    const trade = { symbol: 'BND', qty: unique() }
    const leaving = new AbortController()
    const left = call('place_trade', trade, { signal: leaving.signal })
    left.catch(() => undefined)
    const { family } = await waiting()
    leaving.abort()
    await expect(left).rejects.toThrow()
    await stand.owner.decide(family, 'approved')
    await expect.poll(() => pendingOf(stand.owner)).toEqual([])
    expect(executions('place_trade')).toBe(before)
    expect((await call('place_trade', trade)).text).toBe(`Bought ${trade.qty} BND`)
    expect(executions('place_trade')).toBe(before + 1)
  })

  it('and does not come back in time: the request is declined', async () => {
    const { call } = await bridge({
      capabilities: { elicitation: {} },
      args: ['--hold', '5', '--linger', '1'],
    })
    const trade = { symbol: 'BND', qty: unique() }
    expect((await call('place_trade', trade)).reason).toBe('waiting')
    await expect.poll(() => pendingOf(stand.owner)).toEqual([])
  })

  it('beside another that asks the very same: one request, one call, one answer for both', async () => {
    const { call } = await bridge({ capabilities: { elicitation: {} } })
    const trade = { symbol: 'VXUS', qty: unique() }
    const before = executions('place_trade')
    const answers = [call('place_trade', trade), call('place_trade', trade)]
    await stand.owner.decide((await waiting()).family, 'approved')
    expect((await Promise.all(answers)).map(({ text }) => text)).toEqual(
      Array(2).fill(`Bought ${trade.qty} VXUS`),
    )
    expect(executions('place_trade')).toBe(before + 1)
  })
})

describe('A form that two calls wait for', () => {
  it('is shown for the other one where the call that showed it is cancelled', async () => {
    let forms = 0
    const { call, tools, elicited } = await bridge({
      capabilities: { elicitation: { form: {} } },
      word: () => (++forms === 1 ? new Promise(() => undefined) : 'accept'),
    })
    const trade = { symbol: 'VTI', qty: unique() }
    const leaving = new AbortController()
    const first = call('place_trade', trade, { signal: leaving.signal })
    first.catch(() => undefined)
    await expect.poll(() => elicited.length).toBe(1)
    const second = call('place_trade', trade)
    second.catch(() => undefined)
    // The bridge has the second call by the time that it answered these.
    for (let answers = 0; answers < 3; answers++) await tools()
    leaving.abort()
    await expect(first).rejects.toThrow()
    await expect.poll(() => elicited.length).toBe(2)
    await stand.owner.decide((await waiting()).family, 'approved')
    expect((await second).text).toBe(`Bought ${trade.qty} VTI`)
    expect(elicited).toHaveLength(2)
    expect(executions('place_trade', trade)).toBe(1)
  })
})

describe("The owner's console, where the agent's user is the owner", () => {
  const capabilities = { elicitation: { form: {}, url: {} } }
  const args = ['--owner-console', 'https://console.example/', '--hold', '20']
  const kinds = ['1.x 2025-11-25', '2.x 2025-11-25', '2.x 2026-07-28'] as const

  it.each(rowsOfLayer(kinds, kind => kind === '2.x 2026-07-28'))('is shown by a link: %s', async kind => {
    let card = ''
    const decide = async (): Promise<'accept'> => {
      const { family } = await waiting()
      card = linkTo('https://console.example', asFamily(family))
      await stand.owner.decide(family, 'approved')
      return 'accept'
    }
    const word: BridgeOptions['word'] = ({ mode }) => (mode === 'url' ? decide() : 'accept')
    const { call, elicited } = await bridge({ kind, capabilities, args, word })
    const trade = { symbol: 'VTI', qty: unique() }
    expect((await call('place_trade', trade)).text).toBe(`Bought ${trade.qty} VTI`)
    expect(elicited.map(({ mode }) => mode)).toEqual(['form', 'url'])
    // The address that notifications lead to, which the page opens at the card.
    expect(elicited[1]!.url).toBe(card)
  })

  it('is not shown where nobody says that the person is the owner', async () => {
    const { call, elicited } = await bridge({ capabilities, args: ['--hold', '1'] })
    expect((await call('place_trade', { symbol: 'VTI', qty: unique() })).reason).toBe('waiting')
    expect(elicited.map(({ mode }) => mode)).toEqual(['form'])
  })
})

describe.each(rowsOfLayer(CLIENTS, kind => kind === '2.x 2026-07-28'))(
  'The SDK client %s that cancels its call',
  kind => {
    it('waits no more; the repeat joins what the owner was asked, and what nobody repeats is declined after --linger', async () => {
      const { call } = await bridge({
        kind,
        capabilities: { elicitation: { form: {} } },
        args: ['--hold', '60', '--linger', '3'],
      })
      const trade = { symbol: 'VTI', qty: unique() }
      const cancelled = async (): Promise<string> => {
        const cancelling = new AbortController()
        const left = call('place_trade', trade, { signal: cancelling.signal })
        left.catch(() => undefined)
        const { family } = await waiting()
        cancelling.abort()
        await expect(left).rejects.toThrow()
        return family
      }
      const family = await cancelled()
      expect(await cancelled()).toBe(family)
      await expect.poll(() => pendingOf(stand.owner)).toEqual([])
      const withdrawn = []
      for await (const entry of stand.owner.ledger())
        if (entry.kind === 'withdrawn' && entry['family'] === family) withdrawn.push(entry)
      expect(withdrawn).toHaveLength(1)
      expect(executions('place_trade', trade)).toBe(0)
    })
  },
)
