/**
 * A tool that asks for the owner's signature, through a real Envoy: contract, "Authorized call", order 4, and
 * "Owner API" (`/owner/pending/{family}/decision`).
 */
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { startToolServer, type ToolServer } from '../../src/dev/stack/tool-server.ts'
import type { Sidecar } from '../../src/enforcement/main.ts'
import { withoutParameters } from '../../src/wire/owner/decision-item.ts'
import { s256Json } from '../../src/wire/encoding.ts'
import { asFamily } from '../../src/wire/identifiers.ts'
import { publicJwk } from '../../src/wire/signatures/keys.ts'
import { readRptClaims } from '../../src/wire/negotiation/tokens.ts'
import { callOf, newKey, nowSeconds, PUBLIC_URL } from '../enforcement/calls.ts'
import { permissionOf, tradeItem, TRADE_PARAMS } from '../enforcement/core.ts'
import { approvalOf } from '../support/decision-samples.ts'
import { envoy } from '../support/envoy.ts'
import { askProxy, checkCluster, startProxy, type Proxy } from '../support/proxy.ts'
import { describeWith } from '../support/requirement.ts'
import { startScriptedAuthority } from '../support/scripted-authority.ts'
import { sidecarSettings, startTestSidecar } from '../support/sidecar.ts'
import { startedOnce } from '../support/started.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'

describeWith(await envoy(), 'a trade at a tool that asks for her signature', found => {
  const [agent, alice] = [newKey(), newKey()]
  const directory = temporaryFolder('signed')
  const authority = startedOnce(startScriptedAuthority)
  let tool: ToolServer
  let sidecar: Sidecar
  let proxy: Proxy

  beforeAll(async () => {
    tool = await startToolServer(0)
    const keys_file = join(directory, 'alice.json')
    await writeFile(keys_file, JSON.stringify({ keys: [publicJwk(alice)] }))
    const [owner] = sidecarSettings({ directory, authority })['owners'] as [{ tools: object[] }]
    const owner_approval = { keys_file, state_dir: join(directory, 'marks') }
    const tools = owner.tools.map(one =>
      'tool' in one && one.tool === 'place_trade' ? { ...one, owner_approval } : one,
    )
    sidecar = await startTestSidecar({ directory, authority, settings: { owners: [{ ...owner, tools }] } })
    const check = Number(sidecar.checkAddress.split(':').at(-1))
    const authorization = {
      failure_mode_allow: true,
      grpc_service: { envoy_grpc: { cluster_name: checkCluster(check) }, timeout: '30s' },
      with_request_body: { max_request_bytes: 4_096, allow_partial_message: true, pack_as_bytes: true },
      encode_raw_headers: true,
    }
    const listener = { authorization, context: { owner: 'alice' }, check, byHttp: false }
    proxy = await startProxy({ envoy: found, directory, tool: tool.port, listeners: { signed: listener } })
  })
  afterAll(async () => {
    await proxy?.stop()
    await sidecar?.close()
    await tool?.stop()
  })

  const grant = (told: Record<string, unknown>): string =>
    authority.issue(
      {
        owner: 'alice',
        resource: `${PUBLIC_URL}/mcp/alice`,
        key: agent,
        permissions: permissionOf('trades', 'trade'),
        operation: { tool: 'place_trade', params_s256: s256Json(TRADE_PARAMS) },
        consequence: 'irreversible',
      },
      told,
    )

  async function trade(token: string) {
    const executed = tool.record.executions.length
    const signed = callOf({ token, signer: agent, tool: 'place_trade', args: TRADE_PARAMS })
    const { status, body } = await askProxy(proxy.port('signed'), {
      headers: {
        accept: 'application/json, text/event-stream',
        'mcp-protocol-version': '2025-11-25',
        ...Object.fromEntries([...signed.headers].map(([name, [value]]) => [name, value])),
      },
      body: signed.body.state === 'complete' ? signed.body.bytes : Buffer.alloc(0),
    })
    return { status, body, executions: tool.record.executions.slice(executed) }
  }

  test('is executed once if she signed it, and not at all if she did not', async () => {
    const { contract, family } = readRptClaims(grant({}))
    const item = tradeItem(agent, { family: asFamily(family), agreement_s256: contract })
    const statement = approvalOf(item, alice, { aud: authority.issuer, iat: nowSeconds() })
    const owner_decision = { item: withoutParameters(item), statement }

    const unsigned = await trade(grant({}))
    expect([unsigned.status, unsigned.executions]).toEqual([403, []])
    expect(unsigned.body).toContain('owner_approval_missing')
    expect(authority.count('/consume')).toBe(0)

    const signed = await trade(grant({ owner_decision }))
    expect([signed.status, signed.executions]).toMatchObject([200, [{ arguments: TRADE_PARAMS }]])

    const again = await trade(grant({ owner_decision }))
    expect([again.status, again.executions]).toEqual([403, []])
    expect(authority.count('/consume')).toBe(1)
  })
})
