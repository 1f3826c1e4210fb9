/**
 * contract, "What the service does" and "Connection": one bridge in front of the resources of several owners.
 * Each is separate: its names, its key, its outages.
 */
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterEach, describe, expect, it } from 'vitest'
import { pendingOf } from '../../support/bridge.ts'
import { useBridges } from '../../support/bridge-stand.ts'
import { oldTools } from '../../support/old-tools.ts'
import { freePorts } from '../../../src/dev/stack/ports.ts'
import { startToolServer } from '../../../src/dev/stack/tool-server.ts'

const old = oldTools()
const args = ['--hold', '20']
const first = useBridges({ args })
const second = useBridges({ args, stack: { toolServer: old.start } })
const FORM = { elicitation: {} }
const servers: Server[] = []
afterEach(() => {
  for (const server of servers.splice(0)) {
    server.closeAllConnections()
    server.close()
  }
})

describe('Several resources behind one bridge', () => {
  it('have each its own names, and each call reaches its own, of whichever revision that is', async () => {
    const { call, tools } = await first.bridge({
      resources: [first.stack.resource, second.stack.resource],
      capabilities: FORM,
    })
    const names = (await tools()).map(({ name }) => name as string)
    expect(new Set(names).size).toBe(names.length)
    expect(names.filter(name => name.endsWith('portfolio_read'))).toEqual([
      'alice_portfolio_read',
      'alice-2_portfolio_read',
    ])
    const both = [call('alice_portfolio_read'), call('alice-2_portfolio_read')] as const
    for (const answer of both) answer.catch(() => undefined)
    const items = [await first.waiting(), await second.waiting()]
    // Two owners cannot tell that it is the same agent.
    expect(new Set(items.map(({ handle }) => handle)).size).toBe(2)
    for (const [at, { owner }] of [first, second].entries()) await owner.decide(items[at]!.family, 'approved')
    expect((await both[0]).text).toBe('12 VTI, 40 BND')
    expect((await both[1]).text).toBe('x'.repeat(16))
    await expect(call('portfolio_read')).rejects.toThrow('no such tool')
  })

  it('take none of the others with them: one that is down, and is told of when it answers', async () => {
    const [port] = await freePorts(1)
    const { call, changes, tools } = await first.bridge({
      resources: [`http://127.0.0.1:${port}/mcp/late`, first.stack.resource],
      capabilities: FORM,
    })
    const names = async (): Promise<string[]> => (await tools()).map(({ name }) => name as string)
    expect((await names()).every(name => name.startsWith('alice_'))).toBe(true)
    expect(await names()).toContain('alice_portfolio_read')
    expect(await call('late_portfolio_read')).toMatchObject({ isError: true, reason: 'unreachable' })
    const answer = call('alice_portfolio_read')
    answer.catch(() => undefined)
    await first.owner.decide((await first.waiting()).family, 'approved')
    expect((await answer).text).toBe('12 VTI, 40 BND')
    const before = changes()
    const late = await startToolServer(port)
    first.ending({ close: () => late.stop() })
    await expect.poll(changes).toBeGreaterThan(before)
    expect(await names()).toContain('late_portfolio_read')
    expect((await call('late_portfolio_read')).text).toBe('12 VTI, 40 BND')
  })

  it('take none of the others with them: one that never answers', async () => {
    const silent = createServer(() => undefined).listen(0, '127.0.0.1')
    servers.push(silent)
    await new Promise(resolve => silent.once('listening', resolve))
    const { port } = silent.address() as AddressInfo
    const { tools } = await first.bridge({
      resources: [`http://127.0.0.1:${port}/mcp/silent`, first.stack.resource],
    })
    expect((await tools()).map(({ name }) => name)).toContain('alice_portfolio_read')
    expect(await pendingOf(first.owner)).toEqual([])
  })
})
