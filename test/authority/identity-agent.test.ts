/**
 * Our agent, by the word of a real provider, at a real authority and enforcement point: contract, "need_info
 * answer (beat 2)" (format id-jag), "Permission ticket" (identity before terms).
 */
import { randomBytes } from 'node:crypto'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { json } from 'node:stream/consumers'
import { afterEach, describe, expect, it, vi } from 'vitest'
import { createAgent, type AssertionRequest } from '../../src/agent/index.ts'
import { runAgent } from '../../src/agent/main.ts'
import { freePorts } from '../../src/dev/stack/ports.ts'
import { thumbprintHandle } from '../../src/wire/agents/handles.ts'
import { generatePrivateJwk, importPrivateJwk } from '../../src/wire/signatures/keys.ts'
import { CLIENT_ID } from '../support/authority.ts'
import { capturedTerminal } from '../support/captured-terminal.ts'
import { standEmbedded } from '../support/embedded.ts'
import { startMembershipStand } from '../support/membership.ts'
import { startRealm } from '../support/realm.ts'
import { startedOnce } from '../support/started.ts'
import { pendingAt } from '../support/test-agent.ts'

const SUBJECT = 'p-alice'
const TOOL = {
  tool: 'portfolio_read',
  resource_id: 'alice/portfolio',
  scopes: ['read'],
  consequence: 'reversible',
}

/** All parties, and a desk at which an assertion is had by whoever is at the provider's computer. */
const stand = startedOnce(async () => {
  const realm = await startRealm()
  const [port, deskPort] = (await freePorts(2)) as [number, number]
  const public_url = `http://127.0.0.1:${port}`
  const membership = await startMembershipStand({
    charter: { identity_provider: { issuer: realm.issuer, subjects: { alice: SUBJECT } } },
    authority: {
      environment: { UMA_AS_IDENTITY_ISSUERS: realm.issuer, UMA_AS_POLL_SECONDS: '0' },
      provision: document => {
        document.owners[0]!.resource_servers[0]!.resource_uri = `${public_url}/mcp/alice`
        return document
      },
    },
  })
  const { authority, alice } = membership
  const client = { client_id: CLIENT_ID, client_secret: alice.clientSecret }
  const owner = { owner: 'alice', authority: authority.issuer, ...client, tools: [TOOL] }
  const enforcing = await standEmbedded(authority.issuer, { public_url, owners: [owner] })
  const result = { content: [{ type: 'text', text: 'a portfolio' }] }
  const server = createServer(
    enforcing.point.protect((request, response) => {
      void json(request).then(asked => {
        const { id } = asked as { id: unknown }
        const body = JSON.stringify({ jsonrpc: '2.0', id, result })
        response.writeHead(200, { 'content-type': 'application/json' }).end(body)
      })
    }),
  )
  const desk = createServer((request, response) => {
    void json(request).then(async asked => response.end(await assert(asked as AssertionRequest)))
  })
  const assert = ({ issuer, audience, resource, jkt, client_id }: AssertionRequest) => {
    const iat = Math.floor(Date.now() / 1_000)
    const jti = randomBytes(8).toString('hex')
    const claims = {
      iss: issuer,
      sub: SUBJECT,
      aud: audience,
      resource,
      jti,
      iat,
      exp: iat + 300,
      cnf: { jkt },
      client_id,
    }
    return realm.sign(claims, { header: { typ: 'oauth-id-jag+jwt' } })
  }
  await new Promise<void>(resolve => server.listen(port, '127.0.0.1', resolve))
  await new Promise<void>(resolve => desk.listen(deskPort, '127.0.0.1', resolve))
  await membership.joined()
  const close = async () => {
    for (const one of [server, desk]) {
      one.closeAllConnections()
      one.close()
    }
    await enforcing.close()
    await membership.close()
    await realm.close()
  }
  return {
    ...membership,
    realm,
    assert,
    resource: `${public_url}/mcp/alice`,
    desk: `http://127.0.0.1:${deskPort}/`,
    close,
  }
})

/** Approves whatever comes to wait for her first. */
async function approveNext(): Promise<string> {
  const first = () => pendingAt(stand.authority).then(([item]) => item)
  await expect.poll(first).toBeDefined()
  const { family, handle } = (await first())!
  const json = { decision: 'approved' }
  await stand.authority.call(stand.alice, {
    method: 'POST',
    target: `/owner/pending/${family}/decision`,
    json,
  })
  return handle
}

describe('An agent whose organization has it vouched for', () => {
  it('is granted by the assertion that its callback has of the provider', async () => {
    const key = importPrivateJwk(generatePrivateJwk())
    const asked: AssertionRequest[] = []
    const agent = createAgent({
      key,
      allowLoopback: true,
      identity_issuers: [stand.realm.issuer],
      identityAssertion: request => {
        asked.push(request)
        return stand.assert(request)
      },
    })
    const [called, handle] = await Promise.all([
      agent.call({ resource: stand.resource, tool: TOOL.tool }),
      approveNext(),
    ])
    expect(called.receipt).toBeDefined()
    expect(handle).toBe(thumbprintHandle(key))
    expect(asked).toMatchObject([
      {
        audience: stand.authority.issuer,
        resource: stand.resource,
        token_endpoint: `${stand.realm.issuer}/token`,
      },
    ])
  })

  it('and that presents an assertion for another resource is refused', async () => {
    const agent = createAgent({
      key: importPrivateJwk(generatePrivateJwk()),
      allowLoopback: true,
      identity_issuers: [stand.realm.issuer],
      identityAssertion: request => stand.assert({ ...request, resource: 'https://elsewhere.example/mcp' }),
    })
    await expect(agent.call({ resource: stand.resource, tool: TOOL.tool })).rejects.toMatchObject({
      code: 'request_denied',
      terminal: true,
    })
  })
})

describe('usher agent call --identity-command', () => {
  const folder = mkdtempSync(join(tmpdir(), 'usher-identity-'))
  afterEach(() => {
    vi.unstubAllEnvs()
    rmSync(folder, { recursive: true, force: true })
  })

  it('is granted by the assertion that the program has of the provider', async () => {
    vi.stubEnv('UMA_DEV_LOOPBACK', 'true')
    vi.stubEnv('UMA_AGENT_KEY', join(folder, 'key.json'))
    vi.stubEnv('UMA_AGENT_STORE', join(folder, 'store'))
    await runAgent(['keygen'], capturedTerminal())
    const script = join(folder, 'assert.mjs')
    writeFileSync(
      script,
      `let body = ''
       for await (const chunk of process.stdin) body += chunk
       console.log(await (await fetch('${stand.desk}', { method: 'POST', body })).text())`,
    )
    const terminal = capturedTerminal()
    const options = [
      '--identity-issuer',
      stand.realm.issuer,
      '--identity-command',
      `${process.execPath} ${script}`,
    ]
    const [code] = await Promise.all([
      runAgent(['call', stand.resource, TOOL.tool, ...options], terminal),
      approveNext(),
    ])
    expect(terminal.said).toContain(`→ identity asserted by ${stand.realm.issuer}\n`)
    expect(code).toBe(0)
  })
})
