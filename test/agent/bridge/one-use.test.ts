/**
 * contract, "Single-use grant" (a single-use approval is never treated as a held grant), for an authority
 * that answers terms for every call by a grant for one use, as no honest one does.
 */
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { createRenewals } from '../../../src/agent/bridge/negotiation/renewal.ts'
import { familyId } from '../../../src/agent/bridge/negotiation/family.ts'
import { OpenRequest } from '../../../src/agent/bridge/negotiation/request.ts'
import { bridgeState, type BridgeState } from '../../../src/agent/bridge/negotiation/state.ts'
import { createDirectory } from '../../../src/agent/negotiation/metadata.ts'
import { readProfile, type Profile } from '../../../src/agent/profile.ts'
import type { Grant } from '../../../src/agent/store.ts'
import { s256Json } from '../../../src/wire/encoding.ts'
import type { RptOperation } from '../../../src/wire/negotiation/tokens.ts'
import { bridgeFolder } from '../../support/bridge.ts'
import { newKey } from '../../support/operators.ts'
import { challengeOf, startScriptedPeers } from '../../support/scripted-resource.ts'
import { startedForEach } from '../../support/started.ts'

const peers = startedForEach(startScriptedPeers)
const call = { tool: 'read', arguments: {} }
const now = (): number => Math.floor(Date.now() / 1000)
let folder: Awaited<ReturnType<typeof bridgeFolder>>
let state: BridgeState
let profile: Profile
let sent: number

beforeEach(async () => {
  folder = await bridgeFolder()
  state = bridgeState(folder.folder, 'client')
  profile = readProfile({ key: newKey(), allowLoopback: true })
  sent = 0
})
afterEach(() => folder.remove())

const directory = () => createDirectory({ allowLoopback: true, now })
/** Grants are for one use from now on, whatever was agreed to. */
const forOneUse = (operation: RptOperation | undefined): void => {
  peers.twists.rpt = plain => ({ ...plain, single_use: true, ...(operation && { operation }) })
}
const KINDS: [string, RptOperation | undefined][] = [
  ['for no operation', undefined],
  ['for this very call', { tool: call.tool, params_s256: s256Json(call.arguments) }],
]

/** A negotiation about the call, whose terms a person agreed to before. */
async function negotiated(id = familyId(peers.resource, call, false)): Promise<OpenRequest> {
  const request = new OpenRequest(
    { id, resource: peers.resource, call, since: now(), phase: { name: 'new' } },
    {
      state,
      directory: directory(),
      lingerSeconds: 900,
      sweepEnd: async () => undefined,
      now,
      profileOf: async () => profile,
      challenge: () => Promise.reject(new Error('it was challenged already')),
      offer: async () => undefined,
      onAgreed: async () => undefined,
      sendOnce: async () => `sent ${++sent}`,
      onOperation: async () => familyId(peers.resource, call, true),
      onLeft: () => undefined,
      onGrant: () => undefined,
      onEnded: () => undefined,
      onRefused: async () => undefined,
    },
  )
  const leave = request.enter()
  await request.run(challengeOf(peers, call.tool))
  leave()
  return request
}

describe('A grant for one use', () => {
  it.each(KINDS)(
    '%s, under terms for every call is not trusted: nothing is sent',
    async (_what, operation) => {
      forOneUse(operation)
      const { stage } = await negotiated()
      expect(stage).toMatchObject({ name: 'failed', error: { code: 'grant_untrusted', local: true } })
      expect(sent).toBe(0)
    },
  )

  it('under terms for each call alone is used for the call that waits', async () => {
    peers.twists.perOperation = true
    const { stage } = await negotiated()
    expect(stage).toMatchObject({ settled: { kind: 'answer', result: 'sent 1' } })
  })

  it.each(KINDS)('%s, that came after the owner was asked is judged alike', async (_what, operation) => {
    peers.twists.owner = { polls: 1, kind: 'connection', interval: 1 }
    forOneUse(operation)
    const { stage } = await negotiated()
    expect(stage).toMatchObject({ name: 'failed', error: { code: 'grant_untrusted', local: true } })
    expect(sent).toBe(0)
  })

  it('that ended unspent on the disk is said to be lost, so that what she approved counts again', async () => {
    peers.twists.perOperation = true
    const id = familyId(peers.resource, call, true)
    const grant = { ...held(), exp: now() + 1, single_use: true }
    const owner = { as_uri: peers.issuer, owner: 'alice' }
    const about = { id, resource: peers.resource, call, owner, since: now() }
    await state.keepFamily(id, { ...about, phase: { name: 'granted', grant } })
    const { stage } = await negotiated(id)
    expect(stage).toMatchObject({ settled: { kind: 'answer', result: 'sent 1' } })
    expect(peers.agreements.map(({ claims }) => claims['answer_lost'])).toEqual([true])
  })

  it.each(KINDS)('%s, renews no standing grant: the held one stays', async (_what, operation) => {
    const renewals = createRenewals({
      directory: directory(),
      profileOf: async () => profile,
      isAgreed: async () => true,
    })
    const about = { resource: peers.resource, call }
    const first = await renewals.after({ grant: held(), profile }, about, challengeOf(peers, call.tool))
    expect(await profile.store.grants(peers.resource)).toEqual([first!.grant])
    forOneUse(operation)
    expect(await renewals.after(first!, about, challengeOf(peers, call.tool))).toBeUndefined()
    expect(await profile.store.grants(peers.resource)).toEqual([first!.grant])
    renewals.close()
  })
})

function held(): Grant {
  return {
    access_token: 'an RPT',
    jti: 'j',
    resource: peers.resource,
    as_uri: peers.issuer,
    family: 'fam_1',
    permissions: [],
    exp: now() + 10,
    contract: s256Json({}),
    single_use: false,
  }
}
