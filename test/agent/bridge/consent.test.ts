/**
 * contract, "Agreement (claim_token, beat 3)", for a resource that changes a tool while a person reads the
 * terms: what she agrees to is the tool as it was when she was asked.
 */
import { readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { beforeEach, expect, it } from 'vitest'
import { Calls } from '../../../src/agent/bridge/calls.ts'
import {
  answerCall,
  type CallToAnswer,
  type Client,
} from '../../../src/agent/bridge/negotiation/completion.ts'
import { bridgeState, type BridgeState } from '../../../src/agent/bridge/negotiation/state.ts'
import { createDirectory } from '../../../src/agent/negotiation/metadata.ts'
import { readProfile } from '../../../src/agent/profile.ts'
import { DEFAULT_SPEC_NS } from '../../../src/wire/names.ts'
import { pendingOf } from '../../support/bridge.ts'
import { useBridges } from '../../support/bridge-stand.ts'
import { upstreamTo } from '../../support/opened-upstream.ts'
import { newKey } from '../../support/operators.ts'

const stand = useBridges({ stack: { authorityEnvironment: { UMA_AS_POLL_SECONDS: '1' } } })
const tool = 'portfolio_read'
let definition: string

beforeEach(() => void (definition = 'as it was shown'))

/** The calls of a bridge that starts with what is kept for the client of that name. */
function openCalls(name: string): { calls: Calls; state: BridgeState } {
  const { resource } = stand.stack
  const now = (): number => Math.floor(Date.now() / 1000)
  const state = bridgeState(stand.folder, name)
  const upstream = upstreamTo(resource, { specNs: DEFAULT_SPEC_NS })
  const calls = new Calls({
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
  return { calls, state }
}

it('A tool that changes while a person reads the terms is not the one that she agreed to: the grant does not count for it', async () => {
  const { resource } = stand.stack
  const { calls } = openCalls('consent')
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
  expect(await calls.hasGrant(resource, tool)).toBe(false)
  definition = 'as it was shown'
  expect(await calls.hasGrant(resource, tool)).toBe(true)
})

it.each([
  ['is asked about anew where the tool has changed since', 'as nobody saw it', 0],
  ['counts for the whole that she was shown', 'as it was shown', 1],
])('An answer to a form that comes back to a bridge that started again %s', async (_what, later, agreed) => {
  const name = `form ${agreed}`
  const before = openCalls(name)
  const first = await answerCall(before.calls, asking({}))
  const { requestState } = first as { requestState: string }
  expect(first).toMatchObject({ resultType: 'input_required', inputRequests: { terms: {} } })
  await before.calls.close()
  definition = later
  const { calls, state } = openCalls(name)
  const second = await answerCall(calls, asking({ terms: 'accept', about: requestState }))
  expect(second).toMatchObject(
    agreed === 0 ? { resultType: 'input_required' } : { _meta: { 'usher/reason': 'waiting' } },
  )
  expect(await pendingOf(stand.owner)).toHaveLength(agreed)
  expect(await readdir(join(state.folder, 'agreed')).catch(() => [])).toHaveLength(agreed)
})

/** A call of a client that answers questions by the next one, with the words that it brings. */
function asking(words: Client['words']): CallToAnswer {
  return {
    name: tool,
    resource: stand.stack.resource,
    call: { tool },
    signal: new AbortController().signal,
    structured: false,
    holdSeconds: 0,
    ownerConsole: undefined,
    client: { form: true, url: false, words, sealed: async ({ about }) => about },
    onDelivered: () => undefined,
  }
}
