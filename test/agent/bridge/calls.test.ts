/**
 * contract, "What the service does", beats 1 to 4, for a client that knows nothing of them: the official
 * SDK's, over standard input and output, through the bridge, to a real enforcement point and a real
 * authority.
 */
import { stat } from 'node:fs/promises'
import { describe, expect, it } from 'vitest'
import { CLIENTS, filesIn, pendingOf, PYTHON_CLIENT, repeated } from '../../support/bridge.ts'
import { useBridges } from '../../support/bridge-stand.ts'
import { rowsOfLayer } from '../../support/layer.ts'
import { describeWith } from '../../support/requirement.ts'

const stand = useBridges({ args: ['--hold', '1'] })
const { bridge, executions, unique, waiting } = stand

const FORM = { elicitation: {} }

describeWith(PYTHON_CLIENT, 'The Python SDK', () => {
  it('is among the clients of each test', () => {
    expect(CLIENTS.filter(kind => kind.startsWith('Python'))).toHaveLength(2)
  })
})

/** The others have a cell of matrix.test.ts each. */
const kinds = rowsOfLayer(CLIENTS, kind => kind === '2.x 2026-07-28')

describe.each(kinds)('The SDK client %s', kind => {
  it('is shown the terms, is told who decides, and has the answer once she has', async () => {
    const { call, elicited, tools } = await bridge({ kind, capabilities: FORM })
    const before = executions('portfolio_read')
    const first = await call('portfolio_read')
    expect(elicited).toHaveLength(1)
    expect(elicited[0]!.message).toContain('Purpose: Know what the account holds')
    expect(elicited[0]!.message).toContain('Prohibited: training models on it')
    const item = await waiting()
    expect(first).toMatchObject({ isError: false, reason: 'waiting', family: item.family })
    expect(first.text).toContain('The owner (alice) decides')
    await stand.owner.decide(item.family, 'approved')
    expect((await repeated(() => call('portfolio_read'))).text).toBe('12 VTI, 40 BND')
    expect((await call('portfolio_read')).text).toBe('12 VTI, 40 BND')
    expect(elicited).toHaveLength(1)
    expect(executions('portfolio_read')).toBe(before + 2)
    expect(
      (await tools()).map(({ name, _meta }) => [name, (_meta as Record<string, unknown>)['usher/access']]),
    ).toEqual([
      ['portfolio_read', 'free'],
      ['statement_read', 'unknown'],
      ['place_trade', 'unknown'],
      ['close_account', 'unknown'],
    ])
  })

  it('has a call that she is asked about made once, however often it is repeated', async () => {
    const { call, tools } = await bridge({ kind, capabilities: FORM })
    const trade = { symbol: 'VTI', qty: unique() }
    const before = executions('place_trade')
    const answers = [await call('place_trade', trade), await call('place_trade', trade)]
    const item = await waiting()
    expect(answers.map(({ reason, family }) => [reason, family])).toEqual([
      ['waiting', item.family],
      ['waiting', item.family],
    ])
    await stand.owner.decide(item.family, 'approved')
    expect((await repeated(() => call('place_trade', trade))).text).toBe(`Bought ${trade.qty} VTI`)
    expect(executions('place_trade')).toBe(before + 1)
    // The same again is another trade.
    expect((await call('place_trade', trade)).reason).toBe('waiting')
    expect((await waiting()).family).not.toBe(item.family)
    expect(executions('place_trade')).toBe(before + 1)
    const marks = (await tools()).map(({ _meta }) => (_meta as Record<string, unknown>)['usher/access'])
    expect(marks[2]).toBe('asks')
  })

  it('declines the terms, which the owner finds in her ledger', async () => {
    const { call } = await bridge({ kind, capabilities: FORM, word: () => 'decline' })
    expect(await call('statement_read', { month: '2026-10' })).toMatchObject({
      isError: true,
      reason: 'terms_declined',
    })
    expect(await pendingOf(stand.owner)).toEqual([])
    const refused = []
    for await (const entry of stand.owner.ledger()) if (entry.kind === 'refused') refused.push(entry)
    expect(refused.length).toBeGreaterThan(0)
  })

  it('cannot ask anybody: nothing is signed, and the words say what to start the bridge with', async () => {
    const name = `headless ${unique()}`
    const without = await bridge({ kind, name })
    const refused = await without.call('portfolio_read')
    expect(refused).toMatchObject({ isError: true, reason: 'terms_unanswered' })
    expect(await pendingOf(stand.owner)).toEqual([])
    const [, hash] = /--accept-terms (\S+)/.exec(refused.text) ?? []
    await without.close()
    const { call } = await bridge({ kind, name, args: ['--accept-terms', hash!] })
    expect(await call('portfolio_read')).toMatchObject({ isError: false, reason: 'waiting' })
  })
})

describe('A bridge that was killed', () => {
  it('while the owner thinks: she is asked once, the call runs once, and the repeat has the answer', async () => {
    const name = `killed ${unique()}`
    const trade = { symbol: 'BND', qty: unique() }
    const before = executions('place_trade')
    const first = await bridge({ name, capabilities: FORM })
    expect((await first.call('place_trade', trade)).reason).toBe('waiting')
    const { family } = await waiting()
    await first.kill()
    const second = await bridge({ name, capabilities: FORM })
    expect((await second.call('place_trade', trade)).family).toBe(family)
    expect(second.elicited).toEqual([])
    await second.kill()
    await stand.owner.decide(family, 'approved')
    expect(executions('place_trade')).toBe(before)
    const third = await bridge({ name, capabilities: FORM })
    expect((await repeated(() => third.call('place_trade', trade))).text).toBe(`Bought ${trade.qty} BND`)
    expect(executions('place_trade')).toBe(before + 1)
    expect(await pendingOf(stand.owner)).toEqual([])
  })
})

describe('The owner', () => {
  it('denies: the call is an error that says who decided, and the repeat asks her anew', async () => {
    const { call } = await bridge({ capabilities: FORM })
    expect((await call('portfolio_read')).reason).toBe('waiting')
    await stand.owner.decide((await waiting()).family, 'denied')
    const denied = await repeated(() => call('portfolio_read'))
    expect(denied).toMatchObject({ isError: true, reason: 'request_denied' })
    expect(denied.text).toContain('The owner, or a rule of hers, decided so')
  })

  it('revokes: the next call is an error, no outage, and the tool is marked closed', async () => {
    const { call, tools } = await bridge({ capabilities: FORM })
    await call('portfolio_read')
    const item = await waiting()
    await stand.owner.decide(item.family, 'approved')
    expect((await repeated(() => call('portfolio_read'))).text).toBe('12 VTI, 40 BND')
    await stand.owner.revoke(item.handle)
    expect(await call('portfolio_read')).toMatchObject({ isError: true, reason: 'access_revoked' })
    expect((await tools())[0]!['_meta']).toMatchObject({ 'usher/access': 'closed' })
  })

  it('knows one agent for each client, whose key nobody else can read and which is nowhere told', async () => {
    const clients = [
      await bridge({ name: 'one', capabilities: FORM }),
      await bridge({ name: 'two', capabilities: FORM }),
    ]
    for (const { call } of clients) await call('portfolio_read')
    const handles = (await pendingOf(stand.owner)).map(({ handle }) => handle)
    expect(new Set(handles).size).toBe(2)
    for (const { path, text } of (await filesIn(stand.folder)).filter(({ path }) =>
      path.endsWith('key.json'),
    )) {
      expect((await stat(path)).mode & 0o777).toBe(0o600)
      const { d } = JSON.parse(text) as { d: string }
      for (const { said } of clients) expect(said()).not.toContain(d)
    }
  })
})

describe('--client-id', () => {
  it('names the operator to the owner; without it none is named', async () => {
    const named = 'https://operator.invalid/agent.json'
    for (const [client_id, args] of [
      [named, ['--client-id', named]],
      [null, []],
    ] as const) {
      const { call } = await bridge({ capabilities: FORM, args })
      expect((await call('portfolio_read')).reason).toBe('waiting')
      const item = await waiting()
      expect(item.identity).toMatchObject({ client_id })
      await stand.owner.decide(item.family, 'denied')
    }
  })
})
