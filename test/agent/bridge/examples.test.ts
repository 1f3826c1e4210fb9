/** contract, "What the service does", beats 1 to 4, by the programs of docs/examples, which are written from the contract: as they stand there, at a real authority. */
import { execFile } from 'node:child_process'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { expect, it } from 'vitest'
import { useBridges } from '../../support/bridge-stand.ts'
import { python } from '../../support/python.ts'
import { ROOT } from '../../support/repository.ts'
import { describeWith } from '../../support/requirement.ts'

const run = promisify(execFile)

describeWith(python('mcp'), 'The agent in Python, with httpx and the official MCP client', ({ program }) => {
  const stand = useBridges({ stack: { authorityEnvironment: { UMA_AS_POLL_SECONDS: '1' } } })
  const script = join(ROOT, 'docs', 'examples', 'python', 'agent.py')
  const call = (...args: string[]) =>
    run(program, [script, stand.stack.resource, ...args], {
      env: { PATH: process.env['PATH'], UMA_DEV_LOOPBACK: 'true' },
    })

  it('negotiates, waits for the owner, signs, and has the answer', async () => {
    const asked = call('portfolio_read')
    asked.catch(() => undefined)
    const { family, reason } = await stand.waiting()
    expect(reason).toBe('Try the example')
    await stand.owner.decide(family, 'approved')
    const { stdout, stderr } = await asked
    expect(JSON.parse(stdout)).toEqual(['12 VTI, 40 BND'])
    expect(stderr).toContain("'purpose': 'Know what the account holds'")
  })

  it('has the exact operation approved, which runs once', async () => {
    const trade = { symbol: 'VTI', qty: stand.unique() }
    const asked = call('place_trade', JSON.stringify(trade))
    asked.catch(() => undefined)
    const { family, operation } = await stand.waiting()
    expect(operation).toEqual({ tool: 'place_trade', params: trade })
    await stand.owner.decide(family, 'approved')
    expect(JSON.parse((await asked).stdout)).toEqual([`Bought ${trade.qty} VTI`])
    expect(stand.executions('place_trade', trade)).toBe(1)
  })

  it('is denied, and says so', async () => {
    const asked = call('portfolio_read')
    asked.catch(() => undefined)
    await stand.owner.decide((await stand.waiting()).family, 'denied')
    await expect(asked).rejects.toMatchObject({ stderr: expect.stringContaining('request_denied') })
  })
})
