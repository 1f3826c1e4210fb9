/**
 * contract, "Agreement (claim_token, beat 3)", for a resource that changes a tool while a person reads the
 * terms: what she agrees to is the tool as it was when she was asked.
 */
import { expect, it } from 'vitest'
import { createCalls } from '../../../src/agent/bridge/calls.ts'
import { bridgeState } from '../../../src/agent/bridge/state.ts'
import { openUpstream } from '../../../src/agent/bridge/upstream.ts'
import { createDirectory } from '../../../src/agent/metadata.ts'
import { readProfile } from '../../../src/agent/profile.ts'
import { DEFAULT_SPEC_NS } from '../../../src/wire/names.ts'
import { useBridges } from '../../support/bridge-stand.ts'
import { newKey } from '../../support/operators.ts'

const stand = useBridges({ stack: { authorityEnvironment: { UMA_AS_POLL_SECONDS: '1' } } })
const tool = 'portfolio_read'

it('A tool that changes while a person reads the terms is not the one that she agreed to: the grant does not count for it', async () => {
  const { resource } = stand.stack
  const now = (): number => Math.floor(Date.now() / 1000)
  const state = bridgeState(stand.folder, 'consent')
  const upstream = openUpstream({
    resource,
    url: new URL(resource),
    specNs: DEFAULT_SPEC_NS,
    now,
    capabilities: () => ({}),
    onToolsChanged: () => undefined,
  })
  let definition = 'as it was shown'
  const calls = createCalls({
    state,
    directory: createDirectory({ allowLoopback: true, now }),
    beforehand: new Set(),
    lingerSeconds: 900,
    now,
    profileOf: async owner => readProfile({ ...(await state.identity(owner)), allowLoopback: true }),
    bare: readProfile({ key: newKey(), allowLoopback: true }),
    upstreamOf: () => upstream,
    definitionOf: () => definition,
    listed: async () => undefined,
    onKnown: () => undefined,
    onGranted: () => undefined,
  })
  stand.ending(calls)
  stand.ending(upstream)
  const { signal } = new AbortController()
  const entered = await calls.enter({ resource, call: { tool }, signal })
  if (entered.kind !== 'pending') throw new Error('nothing was asked')
  const { request } = entered
  await request.until(({ name }) => name === 'offer', 30_000, signal)
  definition = 'as nobody saw it'
  request.decide(true)
  await stand.owner.decide((await stand.waiting()).family, 'approved')
  await request.until(({ name }) => name === 'settled', 30_000, signal)
  entered.leave()
  expect(await calls.held(resource, tool)).toBe(false)
  definition = 'as it was shown'
  expect(await calls.held(resource, tool)).toBe(true)
})
