/**
 * Owns the story that the demo tells and the end-to-end tests assert: an agent is refused, negotiates, is let
 * in, is asked about, is let in once, is revoked and stays out. Contract: "What the service does", beats 1 to
 * 4 and "Behaviour that must hold".
 */
import type { Grant } from '../../agent/index.ts'
import { parseResourceMetadata, resourceMetadataUrl } from '../../wire/resources/resource-metadata.ts'
import { parseChallenge } from '../../wire/negotiation/negotiation.ts'
import { isJsonObject, parseJson, type Json, type JsonObject } from '../../wire/json.ts'
import { generatePrivateJwk, importPrivateJwk } from '../../wire/signatures/keys.ts'
import { callByHand, refusalIn, toolText, whyChallenged, type RawReply } from './raw-call.ts'
import {
  expectDenied,
  expectEqual,
  expectThat,
  ownerEvent,
  pendingItem,
  present,
  show,
  StoryFault,
  firstEvent,
  type RunningCall,
  type Scene,
} from './scene.ts'
import { tellLedger } from './story-ledger.ts'

/**
 * One step: what it shows, and the walk through it. It returns what was sent and what came back, one line
 * each, for a reader.
 */
export interface StoryStep {
  title: string
  walk(scene: Scene): Promise<string[]>
}

export const sent = (text: string): string => `→ ${text}`
export const got = (text: string): string => `← ${text}`
export const note = (text: string): string => `  ${text}`

const TRADE = { symbol: 'VTI', qty: 2 }

/** The whole story, in its order: each step continues from the one before. */
export const STORY: readonly StoryStep[] = [
  { title: 'A call without a grant is refused, with a challenge that says where to ask', walk: refused },
  { title: 'The resource itself confirms who decides about it', walk: corroborated },
  { title: "The owner's terms can be read by anybody, before anything is signed", walk: termsRead },
  { title: 'The agent signs the terms; a first contact is held for the owner', walk: firstContact },
  { title: 'She finds it on her event stream and in her pending list', walk: ownerReview },
  { title: 'She approves: the agent gets a grant and a receipt, and the call goes through', walk: approved },
  { title: 'A stricter read is granted at once: she knows this agent now', walk: grantedAtOnce },
  { title: 'A trade is held for her, whoever asks; she approves this one', walk: tradeApproved },
  {
    title: 'Under that grant, other parameters and another tool are refused, and spend nothing',
    walk: misused,
  },
  { title: 'The approved trade passes, once; the same grant again is challenged', walk: spentOnce },
  { title: 'A forged signature, a stolen grant and a bare bearer token are refused', walk: stolen },
  { title: 'A tool that no tier of hers governs is denied', walk: ungoverned },
  { title: 'She revokes: the very next call is refused, without a challenge', walk: revoked },
  { title: 'Her ledger tells the whole story', walk: tellLedger },
]

async function refused({ stack, memory }: Scene): Promise<string[]> {
  const answer = await callByHand({ resource: stack.resource, tool: 'portfolio_read' })
  expectEqual('The call is refused with 401.', answer.status, 401)
  const header = present('The refusal carries WWW-Authenticate.', answer.headers.get('www-authenticate'))
  const challenge = parseChallenge([header])
  expectEqual('The challenge names the authority of the owner.', challenge.as_uri, stack.issuer)
  expectEqual('Nothing reached the MCP server.', stack.toolServer.record.arrivals, [])
  memory.challenge = challenge
  return [
    sent(`POST ${stack.resource}  tools/call portfolio_read`),
    got(`401 WWW-Authenticate: UMA error="insufficient_authorization", as_uri="${challenge.as_uri}",`),
    note(
      `ticket="${challenge.ticket.slice(0, 24)}…", scope="${challenge.scope}"; the MCP server heard nothing`,
    ),
  ]
}

async function corroborated({ stack, memory }: Scene): Promise<string[]> {
  const challenge = present('There is a challenge.', memory.challenge)
  const url = resourceMetadataUrl(stack.resource)
  expectEqual(
    'The challenge names the metadata of the resource that was called.',
    challenge.resource_metadata,
    url,
  )
  const { authorization_servers = [] } = parseResourceMetadata(await fetchJson(url), stack.resource)
  expectThat(
    'The metadata of the resource names the authority that the challenge points to.',
    authorization_servers.includes(challenge.as_uri),
    authorization_servers,
  )
  return [
    sent(`GET ${url}`),
    got(`200 resource ${stack.resource}`),
    note(`authorization_servers ${authorization_servers.join(', ')}: the challenge may be followed`),
  ]
}

async function termsRead({ stack }: Scene): Promise<string[]> {
  const roster = await fetchJson(`${stack.issuer}/terms?owner=alice`)
  const terms = (Array.isArray(roster['terms']) ? roster['terms'] : []).filter(isJsonObject)
  const reading = present(
    'The roster lists the terms of the tier "reading".',
    terms.find(({ tier }) => tier === 'reading'),
  )
  const uri = present('The roster says where the document is.', reading['terms_uri'] as string | undefined)
  const document = await fetchJson(uri)
  expectEqual('The document is the one the roster names.', document['template_id'], reading['template_id'])
  const page = await fetch(uri, { headers: { accept: 'text/html' } })
  expectThat(
    'It is also a page for people.',
    /text\/html/.test(page.headers.get('content-type') ?? ''),
    page.status,
  )
  await page.body?.cancel()
  const odrl = await fetchJson(`${uri}?format=jsonld`)
  expectThat('And it is also JSON-LD.', odrl['@context'] !== undefined, odrl)
  return [
    sent(`GET ${stack.issuer}/terms?owner=alice`),
    got(`200 ${terms.map(({ template_id }) => show(template_id)).join(', ')}`),
    sent(`GET ${uri}`),
    got(
      `200 purpose "${show(document['purpose'])}", for ${show(document['expires_in'])} s, not for: ${show(document['prohibited'])}`,
    ),
    note('(as JSON, as a page for people with Accept: text/html, as ODRL with ?format=jsonld)'),
  ]
}

async function firstContact(scene: Scene): Promise<string[]> {
  const call = scene.startCall('portfolio_read')
  scene.memory.firstCall = call
  const offered = await firstEvent(call, 'terms_offered')
  const signed = await firstEvent(call, 'agreement_signed')
  const waiting = await firstEvent(call, 'waiting')
  expectEqual('The request is held as a first contact.', waiting.kind, 'connection')
  scene.memory.family = waiting.family
  return [
    sent('POST /token  the ticket'),
    got(`403 need_info, terms ${offered.template.template_id}`),
    sent(`POST /token  the terms, signed with the agent's key (agreement ${signed.contract.slice(0, 20)}…)`),
    got(
      `403 request_submitted, kind=connection: family ${waiting.family}, ask again in ${waiting.intervalSeconds} s`,
    ),
  ]
}

async function ownerReview(scene: Scene): Promise<string[]> {
  const family = present('A request waits.', scene.memory.family)
  const { data } = await ownerEvent(
    scene,
    'the event "pending"',
    ({ event, data }) => event === 'pending' && namesFamily(data, family),
  )
  const item = await pendingItem(scene, family)
  expectEqual('The event carries the whole pending item.', (data as JsonObject)['kind'], item.kind)
  expectEqual('She sees which agent asks.', item.handle, scene.handle)
  return [
    got(`event: pending  family ${family}`),
    sent('GET /owner/pending  (signed with her device key)'),
    got(`200 ${item.kind}: ${item.handle.slice(0, 20)}… wants ${item.resource_id}, tier "${item.tier_name}"`),
    note(`for: ${item.purpose}`),
  ]
}

async function approved(scene: Scene): Promise<string[]> {
  const { stack, memory } = scene
  const family = present('A request waits.', memory.family)
  const decided = await scene.owner.decide(family, 'approved')
  const call = present('The first call is under way.', memory.firstCall)
  const { result, receipt } = await call.result
  expectEqual('The tool answered.', toolText({ json: result }), '12 VTI, 40 BND')
  expectEqual('The receipt is of this negotiation.', receipt?.family, family)
  memory.standing = (await firstEvent(call, 'granted')).grant
  if (receipt !== undefined) memory.receipt = receipt.receipt
  const arrival = present('The call reached the MCP server.', stack.toolServer.record.arrivals.at(-1))
  const { headers } = arrival
  expectEqual('The tool is told whose it is.', headers['x-uma-owner'], 'alice')
  expectEqual('The tool is told who calls.', headers['x-uma-agent'], scene.handle)
  expectEqual(
    'The grant stays at the gateway.',
    [headers.authorization, headers['signature']],
    [undefined, undefined],
  )
  await ownerEvent(
    scene,
    'the event "decided"',
    ({ event, data }) => event === 'decided' && namesFamily(data, family),
  )
  return [
    sent(`POST /owner/pending/${family}/decision  {"decision":"approved"}`),
    got(`200 ${decided.decision} by ${decided.by}`),
    sent('POST /token  the ticket, again'),
    got(`200 PoP grant ${memory.standing.jti}, bound to the agent's key, and the receipt, counter-signed`),
    sent('POST /mcp/alice  tools/call portfolio_read, Authorization: PoP …, signed (RFC 9421)'),
    got(`200 "${toolText({ json: result })}"`),
    note(
      `the MCP server saw x-uma-owner: alice and x-uma-agent: ${scene.handle.slice(0, 20)}…, and no credential`,
    ),
  ]
}

async function grantedAtOnce(scene: Scene): Promise<string[]> {
  const call = scene.startCall('statement_read', { month: '2026-10' })
  const { result, grant } = await call.result
  expectEqual('Nobody was asked.', call.events.filter(({ type }) => type === 'waiting').length, 0)
  expectEqual('The tool answered.', toolText({ json: result }), 'Statement of 2026-10: one purchase, no fees')
  const { template } = await firstEvent(call, 'terms_offered')
  return [
    sent('POST /mcp/alice  tools/call statement_read {"month":"2026-10"}'),
    got(`401; terms ${template.template_id} signed; granted at once (${grant?.jti})`),
    note(`not for: ${template.prohibited.join(', ')}`),
    note(
      'She let this agent in for all her tiers, and the tier "statements" has ask_me: false, so nobody asked.',
    ),
    note(
      'To be asked: ask_me: true in the tier (usher owner tier edit), or approve --only, for one tier alone.',
    ),
    got(`200 "${toolText({ json: result })}"`),
  ]
}

async function tradeApproved(scene: Scene): Promise<string[]> {
  const { call, grant } = await grantedButUnused(scene)
  const { family } = await firstEvent(call, 'waiting')
  scene.memory.trade = grant
  expectEqual('The grant is single-use.', grant.single_use, true)
  return [
    sent(`POST /mcp/alice  tools/call place_trade ${JSON.stringify(TRADE)}`),
    got(`401; terms signed with the operation; 403 request_submitted, kind=operation: family ${family}`),
    sent(`POST /owner/pending/${family}/decision  {"decision":"approved"}`),
    got(`200 single-use grant ${grant.jti}, for exactly these parameters`),
  ]
}

/** Gets a grant for the trade as the agent would, and stops the agent before it uses it. */
async function grantedButUnused(scene: Scene): Promise<{ call: RunningCall; grant: Grant }> {
  const stopping = new AbortController()
  const call = scene.startCall('place_trade', TRADE, {
    signal: stopping.signal,
    onEvent: ({ type }) => {
      if (type === 'granted') stopping.abort()
    },
  })
  const waiting = await firstEvent(call, 'waiting')
  expectEqual('The request is held for this operation.', waiting.kind, 'operation')
  const item = await pendingItem(scene, waiting.family)
  expectEqual('She sees the exact operation.', item.operation, { tool: 'place_trade', params: TRADE })
  await scene.owner.decide(waiting.family, 'approved')
  const { grant } = await firstEvent(call, 'granted')
  await call.result.catch(() => undefined)
  expectEqual('Nothing was bought yet.', executions(scene, 'place_trade'), [])
  return { call, grant }
}

async function misused(scene: Scene): Promise<string[]> {
  const { stack, agentKey } = scene
  const { access_token: token } = present('There is a grant for the trade.', scene.memory.trade)
  const credential = { token, key: agentKey }
  const more = await callByHand(
    { resource: stack.resource, tool: 'place_trade', arguments: { ...TRADE, qty: 200 } },
    credential,
  )
  expectRefusal('Other parameters are refused.', more, { status: 403, error: 'operation_mismatch' })
  const other = await callByHand({ resource: stack.resource, tool: 'portfolio_read' }, credential)
  expectChallenge('Another tool is challenged: the grant is not for its resource.', other)
  expectEqual('Nothing was bought.', executions(scene, 'place_trade'), [])
  return [
    sent('POST /mcp/alice  tools/call place_trade {"symbol":"VTI","qty":200}, the same grant, well signed'),
    got(`403 operation_mismatch: ${refusalIn(more).sentence}`),
    sent('POST /mcp/alice  tools/call portfolio_read, the same grant, well signed'),
    got('401 WWW-Authenticate: UMA …'),
  ]
}

async function spentOnce(scene: Scene): Promise<string[]> {
  const { stack, agentKey } = scene
  const { access_token: token } = present('There is a grant for the trade.', scene.memory.trade)
  const trade = { resource: stack.resource, tool: 'place_trade', arguments: TRADE }
  const answer = await callByHand(trade, { token, key: agentKey })
  expectEqual('The approved trade passes.', [answer.status, toolText(answer)], [200, 'Bought 2 VTI'])
  const again = await callByHand(trade, { token, key: agentKey })
  expectChallenge('The spent grant is challenged.', again)
  expectEqual('It was executed once, with the approved parameters.', executions(scene, 'place_trade'), [
    TRADE,
  ])
  return [
    sent(`POST /mcp/alice  tools/call place_trade ${JSON.stringify(TRADE)}`),
    got(`200 "${toolText(answer)}"`),
    sent('POST /mcp/alice  the same once more'),
    got(`401 WWW-Authenticate: UMA …: ${whyChallenged(again)}`),
    note('the MCP server executed it once'),
  ]
}

async function stolen(scene: Scene): Promise<string[]> {
  const { stack, agentKey } = scene
  const { access_token: token } = present('There is a standing grant.', scene.memory.standing)
  const read = { resource: stack.resource, tool: 'portfolio_read' }
  const before = executions(scene, 'portfolio_read').length
  const forged = await callByHand(read, { token, key: agentKey, forge: true })
  expectRefusal('A forged signature is refused.', forged, { status: 401, error: 'invalid_token' })
  const thief = importPrivateJwk(generatePrivateJwk())
  const theft = await callByHand(read, { token, key: thief })
  expectRefusal('A stolen grant is refused under another key.', theft, {
    status: 401,
    error: 'invalid_token',
  })
  const bearer = await callByHand(read, { token, scheme: 'Bearer' })
  expectChallenge('As a bare bearer token the grant counts for nothing.', bearer)
  expectEqual('None of them reached the tool.', executions(scene, 'portfolio_read').length, before)
  return [
    sent('POST /mcp/alice  a live grant, its signature changed in one bit'),
    got(`401 invalid_token: ${refusalIn(forged).sentence}`),
    sent('POST /mcp/alice  the same grant, signed with a key of the thief'),
    got(`401 invalid_token: ${refusalIn(theft).sentence}`),
    sent('POST /mcp/alice  the same grant as Authorization: Bearer'),
    got(`401 WWW-Authenticate: UMA …: ${whyChallenged(bearer)}`),
    note('Who copies a whole signed request can send that same request again for 60 s, and nothing else'),
    note('by it if the signature covers the body (content-digest).'),
  ]
}

async function ungoverned(scene: Scene): Promise<string[]> {
  const sentence = await expectDenied(scene.startCall('close_account'))
  expectEqual('The account stands.', executions(scene, 'close_account'), [])
  return [
    sent('POST /mcp/alice  tools/call close_account'),
    got(`401; POST /token: 403 request_denied: ${sentence}`),
  ]
}

async function revoked(scene: Scene): Promise<string[]> {
  const { stack, agentKey, handle } = scene
  const { access_token: token } = present('There is a standing grant.', scene.memory.standing)
  const read = { resource: stack.resource, tool: 'portfolio_read' }
  const before = await callByHand(read, { token, key: agentKey })
  expectEqual('The standing grant was good until now.', before.status, 200)
  const ended = await scene.owner.revoke(handle)
  const after = await callByHand(read, { token, key: agentKey })
  expectRefusal('The very next call is refused.', after, { status: 403, error: 'access_revoked' })
  expectEqual('It carries no challenge.', after.headers.get('www-authenticate'), null)
  await ownerEvent(scene, 'the event "connection_revoked"', ({ event }) => event === 'connection_revoked')
  return [
    sent('POST /mcp/alice  tools/call portfolio_read, the standing grant'),
    got('200'),
    sent(`POST /owner/connections/revoke  {"handle":"${handle.slice(0, 20)}…"}`),
    got(`200 ${ended.status}, ${ended.rpts_deactivated} grants ended`),
    sent('POST /mcp/alice  the same call, at once'),
    got(`403 access_revoked: ${refusalIn(after).sentence}`),
    note('It may ask her again, from the first contact on; usher owner block <handle> keeps it from that.'),
  ]
}

export function expectRefusal(
  what: string,
  answer: RawReply,
  required: { status: number; error: string },
): void {
  expectEqual(what, { status: answer.status, error: refusalIn(answer).error }, required)
}

function expectChallenge(what: string, answer: RawReply): void {
  expectEqual(what, answer.status, 401)
  parseChallenge([present(`${what} (WWW-Authenticate)`, answer.headers.get('www-authenticate'))])
}

/** The arguments of every execution of a tool so far. */
export function executions({ stack }: Scene, tool: string): unknown[] {
  return stack.toolServer.record.executions.filter(one => one.tool === tool).map(one => one.arguments)
}

function namesFamily(data: Json, family: string): boolean {
  return isJsonObject(data) && data['family'] === family
}

export async function fetchJson(url: string): Promise<JsonObject> {
  const response = await fetch(url, { headers: { accept: 'application/json' } })
  expectEqual(`GET ${url} answers.`, response.status, 200)
  const json = parseJson(await response.text())
  if (!isJsonObject(json)) throw new StoryFault(`GET ${url} answers no JSON object.`)
  return json
}
