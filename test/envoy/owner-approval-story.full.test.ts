/**
 * A trade that the owner signs, with nothing scripted: authority, sidecar, Envoy and agent are the real ones.
 * Contract: "Authorized call", order 4, and "Owner API" (`/owner/pending/{family}/decision`).
 */
import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { Client } from 'pg'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { parse, stringify } from 'yaml'
import { callByHand, refusalIn, toolText } from '../../src/dev/story/raw-call.ts'
import { openScene, firstEvent, type Scene } from '../../src/dev/story/scene.ts'
import type { Stack } from '../../src/dev/stack/stack.ts'
import { executions } from '../../src/dev/story/story.ts'
import { boundApproval } from '../../src/owner/signed-approval.ts'
import { publicJwk, type PrivateKey } from '../../src/wire/signatures/keys.ts'
import { createOwnerClient } from '../../src/owner/index.ts'
import type { PendingItem } from '../../src/wire/owner/owner-api.ts'
import { nowSeconds } from '../enforcement/calls.ts'
import { envoy } from '../support/envoy.ts'
import { describeWith } from '../support/requirement.ts'
import { startStack } from '../support/stack.ts'
import { newKey } from '../support/wire-samples.ts'

const TRADE = { symbol: 'VTI', qty: 2 }

describeWith(await envoy(), 'a trade that the owner signs', found => {
  let stack: Stack
  let scene: Scene
  let databaseUrl: string

  beforeAll(async () => {
    stack = await startStack({
      envoy: found,
      reachDatabase: async url => (databaseUrl = url),
      changeSidecar: async (yaml, { ownerKey, directory }) => {
        const keys_file = join(directory, 'pinned.json')
        const state_dir = join(directory, 'marks')
        await mkdir(state_dir, { mode: 0o700 })
        await writeFile(keys_file, JSON.stringify({ keys: [publicJwk(ownerKey)] }))
        const settings = parse(yaml) as { owners: { tools: { tool: string; owner_approval?: object }[] }[] }
        const trade = settings.owners[0]!.tools.find(({ tool }) => tool === 'place_trade')!
        trade.owner_approval = { keys_file, state_dir }
        return stringify(settings)
      },
    })
    scene = await openScene(stack)
    const first = scene.startCall('portfolio_read')
    await scene.owner.decide((await firstEvent(first, 'waiting')).family, 'approved')
    await first.result
  })
  afterAll(async () => {
    await scene?.close()
    await stack?.stop()
  })

  /** A grant for the trade, which she approved by this key, and which the agent has not used yet. */
  async function approvedBy(key: PrivateKey): Promise<{ access_token: string; jti: string }> {
    const stopping = new AbortController()
    const call = scene.startCall('place_trade', TRADE, {
      signal: stopping.signal,
      onEvent: ({ type }) => {
        if (type === 'granted') stopping.abort()
      },
    })
    const { family } = await firstEvent(call, 'waiting')
    const access = { api: stack.ownerApi, issuer: stack.issuer, key }
    const client = createOwnerClient(access)
    const shown = await client.ask({ method: 'GET', path: `/owner/pending/${family}` })
    const bound = boundApproval(access, shown as unknown as PendingItem, { now: nowSeconds() })
    await client.decide(family, 'approved', bound)
    const { grant } = await firstEvent(call, 'granted')
    await call.result.catch(() => undefined)
    return grant
  }
  const trade = ({ access_token: token }: { access_token: string }) =>
    callByHand(
      { resource: stack.resource, tool: 'place_trade', arguments: TRADE },
      { token, key: scene.agentKey },
    )
  async function isSpent(jti: string): Promise<boolean> {
    const client = new Client({ connectionString: databaseUrl })
    await client.connect()
    const { rows } = await client.query('SELECT consumed_at FROM grants WHERE jti = $1', [jti])
    await client.end()
    expect(rows).toHaveLength(1)
    return (rows[0] as { consumed_at: Date | null }).consumed_at !== null
  }

  test('passes once by a key that the resource pins', async () => {
    const grant = await approvedBy(stack.household.ownerKey)
    const answer = await trade(grant)
    expect([answer.status, toolText(answer)]).toEqual([200, 'Bought 2 VTI'])
    expect(await isSpent(grant.jti)).toBe(true)
    expect((await trade(grant)).status).toBe(401)
    expect(executions(scene, 'place_trade')).toEqual([TRADE])
  })

  test('is refused by a key of hers that the resource does not pin, and the grant is not spent', async () => {
    const before = executions(scene, 'place_trade').length
    const other = newKey()
    await scene.owner.addDeviceKey({ name: 'made in a page', jwk: publicJwk(other) })
    const grant = await approvedBy(other)
    const answer = await trade(grant)
    expect([answer.status, refusalIn(answer).error]).toEqual([403, 'owner_approval_missing'])
    expect(await isSpent(grant.jti)).toBe(false)
    expect(executions(scene, 'place_trade')).toHaveLength(before)
  })
})
