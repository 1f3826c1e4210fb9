/**
 * What `usher agent bridge` really costs, measured with the program as it is deployed: its start, and what a
 * call through it takes longer than one that the agent library signs itself, and a write that waits for the
 * owner and is approved at once.
 */
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { figuresOf } from '../../bench/figures.ts'
import { measureBridge } from '../../bench/scenarios/bridge.ts'

/**
 * How often Node's own start, and how often a call of the agent library. The bench judges milliseconds; a
 * test that did so would be red on a slow machine, and green on a fast one whatever the program does.
 */
const MOST = { start: 25, call: 2.5 }

test('a bridge starts in at most 25 times what Node alone takes, and a call through it takes at most 2.5 times as long', async () => {
  const directory = await mkdtemp(join(tmpdir(), 'usher-bridge-cost-'))
  const bridge = await measureBridge(directory, { tell: () => undefined })
  await rm(directory, { recursive: true, force: true })
  const { start_ms, bare_start_ms, direct_p50_ms, bridged_p50_ms, added_p50_ms } = bridge
  for (const turns of [start_ms, bare_start_ms, direct_p50_ms, bridged_p50_ms, added_p50_ms])
    expect(turns).toHaveLength(5)
  for (const measured of [...start_ms, ...bare_start_ms, ...direct_p50_ms, ...bridged_p50_ms])
    expect(measured).toBeGreaterThan(0)
  expect(bridge.approved_bridged_ms).toHaveLength(15)
  expect(bridge.approved_direct_ms).toHaveLength(15)
  // The best turn of each, as whatever else this machine does only adds to one.
  expect(Math.min(...start_ms) / Math.min(...bare_start_ms)).toBeLessThan(MOST.start)
  expect(Math.min(...bridged_p50_ms) / Math.min(...direct_p50_ms)).toBeLessThan(MOST.call)
  const { bridge_start_ms, bridge_added_p50_ms } = figuresOf({ rounds: new Map(), readyMs: [], bridge })
  expect(bridge_start_ms!.goal).toEqual({ kind: 'most', bound: 500 })
  expect(bridge_added_p50_ms!.goal).toEqual({ kind: 'most', bound: 5 })
})
