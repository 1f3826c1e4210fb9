/**
 * Owns bridges before a scripted resource that needs the grant of another tool for each part of what it
 * serves: of a method, of a link, or of a tool with certain arguments.
 */
import { afterAll, afterEach, beforeAll } from 'vitest'
import type { JsonObject } from '../../src/wire/json.ts'
import { encodeChallenge } from '../../src/wire/negotiation/challenge.ts'
import type { TermsTemplate } from '../../src/wire/negotiation/terms.ts'
import { readRptClaims } from '../../src/wire/negotiation/tokens.ts'
import { bridgeFolder, startBridge, type BridgedClient, type BridgeOptions } from './bridge.ts'
import type { Received } from './scripted-http.ts'
import { challengeOf, startScriptedPeers, type ScriptedPeers } from './scripted-resource.ts'
import { startedForEach } from './started.ts'

/** A request of JSON-RPC, as the resource gets it. */
export interface Message {
  id: string | number
  method: string
  params: JsonObject
}
export const messageIn = ({ body }: Received): Message => JSON.parse(body.toString()) as Message

/** What a resource needs grants for; `undefined` leaves a request to the scripted resource. */
export interface Mapping {
  /** What its server says that it has. */
  capabilities: object
  /** The results of methods that need no grant. */
  free: Record<string, JsonObject>
  /** The tool whose grant a request needs. */
  toolOf: (message: Message) => string | undefined
  /** The result under that grant. */
  result: (message: Message, tool: string) => object
}

export interface MappedBridges {
  /** Others for each test. */
  peers: ScriptedPeers
  /** A bridge under a client of a name of its own; ended after the test. */
  bridge: (options?: Partial<BridgeOptions>) => Promise<BridgedClient>
  /** Makes the resource a server of MCP 2026-07-28 that has these. */
  declare: (capabilities: object) => void
  /** Publishes terms as they are offered, without what differs in each negotiation. */
  publish: (offered: TermsTemplate) => void
  /** Makes the resource need a grant of `alice/<tool>`, with terms of its own, for what is mapped to it. */
  map: (mapping: Mapping) => void
  /** The resources that were negotiated for, in order. */
  negotiated: () => string[]
}

/** What a list or a read says of its age in MCP 2026-07-28. */
export const UNCACHED = { ttlMs: 0, cacheScope: 'private' }

/** Starts the peers for each test of a file, and one folder for the state of all its bridges. */
export function useMappedBridges(): MappedBridges {
  const peers = startedForEach(startScriptedPeers)
  let folder: Awaited<ReturnType<typeof bridgeFolder>>
  const open: BridgedClient[] = []
  let count = 0
  beforeAll(async () => {
    folder = await bridgeFolder()
  })
  afterEach(async () => {
    for (const one of open.splice(0)) await one.close()
  })
  afterAll(() => folder.remove())

  const stand: MappedBridges = {
    peers,
    bridge: async options => {
      const started = await startBridge({
        kind: '1.x 2025-11-25',
        name: `client ${++count}`,
        resources: [peers.resource],
        state: folder.folder,
        capabilities: { elicitation: { form: {} } },
        ...options,
      })
      open.push(started)
      return started
    },
    declare: capabilities => {
      peers.twists.discovery = id => ({
        body: { jsonrpc: '2.0', id, result: { supportedVersions: ['2026-07-28'], capabilities } },
      })
    },
    publish: ({ family: _family, nonce: _nonce, ...published }) =>
      peers.authority.script(new URL(published.terms_uri).pathname, () => ({ body: published })),
    map: mapping => mapTo(stand, mapping),
    negotiated: () => peers.grants.map(({ permissions }) => permissions[0]!.resource_id),
  }
  return stand
}

function mapTo(
  { peers, declare, publish }: MappedBridges,
  { capabilities, free, toolOf, result }: Mapping,
): void {
  let needed = ''
  peers.twists.template = plain => {
    const offered = {
      ...plain,
      template_id: `${needed}/v1`,
      terms_uri: `${peers.issuer}/terms/${needed}/v1`,
      resource_id: needed,
    }
    publish(offered)
    return offered
  }
  declare(capabilities)
  peers.tools.script('/mcp/alice', received => {
    const message = messageIn(received)
    const { id, method } = message
    const answer = (members: object) => ({
      body: { jsonrpc: '2.0', id, result: { resultType: 'complete', ...members } },
    })
    if (free[method] !== undefined) return answer({ ...free[method], ...UNCACHED })
    const tool = toolOf(message)
    if (tool === undefined) return undefined
    const { authorization } = received.headers
    const permissions =
      authorization === undefined ? [] : readRptClaims(authorization.replace(/^PoP /, '')).permissions
    if (permissions.some(({ resource_id }) => resource_id === `alice/${tool}`))
      return answer(result(message, tool))
    needed = `alice/${tool}`
    return { status: 401, headers: { 'www-authenticate': encodeChallenge(challengeOf(peers, tool)) } }
  })
}
