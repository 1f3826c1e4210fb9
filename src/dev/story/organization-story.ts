/**
 * Owns the story of an organization above alice: it may only narrow, she sees all of it, and she leaves when
 * she likes. Contract: "Organization membership, on the member's authorization server" and "The
 * organization's authority".
 */
import { AgentError } from '../../agent/index.ts'
import { readAll, type LedgerEntry } from '../../owner/index.ts'
import { s256 } from '../../wire/encoding.ts'
import { isJsonObject, type JsonObject } from '../../wire/json.ts'
import { until } from '../stack/child-process.ts'
import { callWith, claimsOf, grantFor, secondsOf } from './held-grants.ts'
import { OWNER } from '../stack/household.ts'
import { CEILING_SECONDS } from '../stack/organization-place.ts'
import {
  adminOf,
  agreeTo,
  askClearances,
  attest,
  CLEARANCE,
  invite,
  MEMBERSHIP,
  membershipOf,
  organizationOf,
  previewOf,
  readingTerms,
} from './organization-scene.ts'
import { refusalIn, toolText } from './raw-call.ts'
import {
  expectDenied,
  expectEqual,
  expectThat,
  ownerEvent,
  openAgent,
  present,
  refusalOf,
  show,
  type ActingAgent,
  type Scene,
} from './scene.ts'
import { executions, got, note, sent, type StoryStep } from './story.ts'

const TRADE = { symbol: 'BND', qty: 40 }
/** A sidecar asks for her membership at least this often, while there are calls. */
const VIEW_SECONDS = 10

/** The whole story, in its order: each step continues from the one before. */
export const ORGANIZATION_STORY: readonly StoryStep[] = [
  { title: 'Before there is a membership, an agent is let in under her own terms', walk: ownTerms },
  { title: 'A firm invites her; her authority tells her of it', walk: invited },
  { title: 'She reads what it would bind her to and change, which changes nothing', walk: previewed },
  { title: 'She joins: her tier is cut to the ceiling, and what was granted above it ends', walk: joined },
  { title: 'An agent for which nobody vouches is offered no terms', walk: unvouched },
  { title: 'One that her firm’s identity provider vouches for passes, within the ceiling', walk: within },
  { title: 'One that asks for what the firm claims and does not share is refused', walk: beyond },
  {
    title: 'What the firm attests of her admits an agent to one tier, and not to another that asks for more',
    walk: cleared,
  },
  {
    title: 'An administrator ends one agent’s reach to what the firm governs; what is hers stands',
    walk: ended,
  },
  {
    title: 'An emergency opens; her authority accepts one call inside the clause that she agreed to',
    walk: emergency,
  },
  { title: 'It was used once, and she sees all of it', walk: emergencyLedger },
  { title: 'She leaves: what rested on the firm ends, her own stands, and nothing widens again', walk: left },
]

async function ownTerms(scene: Scene): Promise<string[]> {
  const { memory } = scene
  memory.standing = await grantFor(scene, scene, 'statement_read', { args: { month: '2026-10' } })
  memory.before = await grantFor(scene, scene, 'portfolio_read')
  expectEqual('It lasts as long as her own terms say.', secondsOf(memory.before), 3600)
  return [
    sent('POST /mcp/alice  tools/call portfolio_read'),
    got(`200 grant ${memory.before.jti}, for ${secondsOf(memory.before)} s`),
  ]
}

async function invited(scene: Scene): Promise<string[]> {
  const { issuer } = organizationOf(scene)
  scene.memory.code = await invite(scene)
  const membership = await until('her authority to hear of the invitation', async () => {
    const found = await membershipOf(scene)
    return found['invitation'] !== null && found
  })
  const invitation = membership['invitation'] as JsonObject
  expectEqual('She is a member of nothing yet.', membership['enrolled'], false)
  expectEqual('The invitation names the firm that asks.', invitation['issuer'] ?? issuer, issuer)
  return [
    sent(`POST /admin/invites  {"owner":"${OWNER}","as_uri":"${scene.stack.issuer}"}  (signed by ines)`),
    got('201 a code, shown once'),
    sent(`GET ${MEMBERSHIP}`),
    got(`200 enrolled false, invited: "${show(invitation['note'])}"`),
  ]
}

async function previewed(scene: Scene): Promise<string[]> {
  const before = await readingTerms(scene)
  const preview = await previewOf(scene, present('There is a code.', scene.memory.code))
  const changes = preview['changes'] as { text: string; tier: string }[]
  expectThat(
    'It would cut her tier for reading.',
    changes.some(({ tier }) => tier === 'reading'),
    changes,
  )
  expectEqual('Nothing has changed.', await readingTerms(scene), before)
  expectEqual('And she is no member.', (await membershipOf(scene))['enrolled'], false)
  scene.memory.preview = preview
  return [
    sent(`POST ${MEMBERSHIP}/preview  the code`),
    ...(preview['summary'] as string[]).map(one => got(one)),
    ...changes.map(({ tier, text }) => note(`${tier}: ${text}`)),
  ]
}

async function joined(scene: Scene): Promise<string[]> {
  const { code, preview, before, standing } = scene.memory
  const read = present('She has read what it binds her to.', preview)
  const { charter_version, binds_s256 } = read
  const membership = await agreeTo(scene, present('There is a code.', code), read)
  expectEqual('She is a member.', membership['enrolled'], true)
  const { expires_in } = await readingTerms(scene)
  expectEqual('Her tier is cut to the ceiling.', expires_in, CEILING_SECONDS)
  const members = await readAll(adminOf(scene).members())
  expectEqual(
    'The firm knows her as a member.',
    members.map(({ owner }) => owner),
    [OWNER],
  )
  const ended = await callWith(scene, 'portfolio_read', present('A grant is older than this.', before))
  expectEqual('A grant from before is good for nothing.', ended.status, 403)
  const own = await callWith(scene, 'statement_read', present('One is her own.', standing))
  expectEqual('What the firm does not claim is as before.', own.status, 200)
  return [
    sent(
      `POST ${MEMBERSHIP}  {"agreed":true,"charter_version":${show(charter_version)},"binds_s256":"${show(binds_s256).slice(0, 16)}…"}`,
    ),
    got(
      `200 member of ${show(membership['name'])}, governed: ${(membership['governed_resources'] as string[]).join(', ')}`,
    ),
    note(`her tier "reading" lasts ${expires_in} s from now on, not 3600`),
    sent('POST /mcp/alice  tools/call portfolio_read, under the grant from before'),
    got(`403 ${refusalIn(ended).error}`),
    sent('POST /mcp/alice  tools/call statement_read, which the firm does not claim'),
    got(`200 "${toolText(own)}"`),
  ]
}

async function unvouched({ stack }: Scene): Promise<string[]> {
  const { issuer } = present('There is an organization.', stack.organization).identityProvider
  const call = openAgent(stack).startCall('portfolio_read')
  expectEqual('It is asked who sent it.', (await refusalOf(call))?.code, 'identity_required')
  expectEqual(
    'It saw no terms.',
    call.events.filter(({ type }) => type === 'terms_offered'),
    [],
  )
  return [
    sent('POST /mcp/alice  tools/call portfolio_read, by an agent that nobody vouches for'),
    got(`401; POST /token: 403 need_info: an identity assertion (ID-JAG) by ${issuer}`),
  ]
}

async function within(scene: Scene): Promise<string[]> {
  const agent = scene.newAgent()
  const grant = await grantFor(scene, agent, 'portfolio_read')
  expectThat('It lasts no longer than the ceiling.', secondsOf(grant) <= CEILING_SECONDS, secondsOf(grant))
  const answer = await until(
    'the sidecar to hear of her membership',
    async () => {
      const one = await callWith(scene, 'portfolio_read', grant, agent)
      return one.status === 200 && one
    },
    3 * VIEW_SECONDS * 1_000,
  )
  scene.memory.governed = { agent, grant }
  return [
    sent('POST /mcp/alice  tools/call portfolio_read'),
    got('403 need_info: the provider is asked, and its assertion is bound to the key of the agent'),
    got(`terms signed; grant ${grant.jti}, for ${secondsOf(grant)} s`),
    got(`200 "${toolText(answer)}"`),
    note(
      `(the sidecar knows of her membership at most ${VIEW_SECONDS} s later, and lets nobody in meanwhile)`,
    ),
  ]
}

async function beyond(scene: Scene): Promise<string[]> {
  const before = executions(scene, 'place_trade').length
  const sentence = await expectDenied(scene.startCall('place_trade', TRADE))
  expectEqual('Nothing waits for her: it is not hers to allow.', await readAll(scene.owner.pending()), [])
  expectEqual('Nothing was traded.', executions(scene, 'place_trade').length, before)
  return [
    sent(`POST /mcp/alice  tools/call place_trade ${JSON.stringify(TRADE)}`),
    got(`401; POST /token: 403 request_denied: ${sentence}`),
  ]
}

/** Each tier accepts another value of the same fact. */
const CLEARANCES = { reading: { desk: ['markets'] }, statements: { desk: ['audit'] } }

async function cleared(scene: Scene): Promise<string[]> {
  await askClearances(scene, CLEARANCES)
  const [one, other, next] = [scene.newAgent(), scene.newAgent(), scene.newAgent()]
  const before = await deniedUncleared(scene, one, 'portfolio_read')
  await attest(scene, { desk: 'markets' })
  const grant = await grantFor(scene, one, 'portfolio_read')
  const answer = await callWith(scene, 'portfolio_read', grant, one)
  expectEqual('The one is admitted.', answer.status, 200)
  const refused = await deniedUncleared(scene, other, 'statement_read')
  const { clearance } = claimsOf(grant)
  const acts = await readAll(scene.owner.ledger({ handle: one.handle, kind: 'org_acted' }))
  const checked = present(
    'Her ledger holds what was checked.',
    acts.find(({ what }) => what === 'clearance_checked'),
  )
  expectEqual('The grant carries its digest alone.', clearance, s256(show(checked['clearance'])))
  await attest(scene, {})
  const ended = await callWith(scene, 'portfolio_read', grant, one)
  expectEqual('Withdrawn, it carries no grant any longer.', ended.status, 403)
  await askClearances(scene, { reading: {}, statements: {} })
  scene.memory.governed = { agent: next, grant: await grantFor(scene, next, 'portfolio_read') }
  return [
    note('she asks for a clearance: "reading" for desk = markets, "statements" for desk = audit'),
    sent('POST /mcp/alice  tools/call portfolio_read, while nothing is attested of her'),
    got(`401; POST /token: 403 request_denied: ${before}`),
    sent(`PUT ${CLEARANCE}  {"clearance":{"desk":"markets"}}  (signed by ines)`),
    sent('POST /mcp/alice  tools/call portfolio_read, once more'),
    got(`200 "${toolText(answer)}", by a grant with the digest ${show(clearance).slice(0, 16)}… alone`),
    sent('POST /mcp/alice  tools/call statement_read, by another agent of hers'),
    got(`401; POST /token: 403 request_denied: ${refused}`),
    sent(`PUT ${CLEARANCE}  {"clearance":{}}`),
    sent('POST /mcp/alice  tools/call portfolio_read, under the grant that was admitted'),
    got(`403 ${refusalIn(ended).error}`),
    note('whatever changes of it ends what was granted on what the firm governs'),
    note('she asks for none again, and an agent is let in without one'),
  ]
}

/**
 * Fails unless no clearance admits an agent: it sees no terms, and nothing waits for her. @returns the
 * sentence that it got.
 */
async function deniedUncleared(scene: Scene, agent: ActingAgent, tool: string): Promise<string> {
  const args = tool === 'statement_read' ? { month: '2026-10' } : {}
  const call = agent.startCall(tool, args)
  const sentence = await expectDenied(call)
  expectThat('What is attested does not admit it.', /clearance/.test(sentence), sentence)
  const offered = call.events.filter(({ type }) => type === 'terms_offered')
  expectEqual(
    'It saw no terms, and nothing waits.',
    [offered, await readAll(scene.owner.pending())],
    [[], []],
  )
  return sentence
}

async function ended(scene: Scene): Promise<string[]> {
  const { governed } = scene.memory
  const agent = scene.newAgent()
  const reached = await grantFor(scene, agent, 'portfolio_read')
  const hers = await grantFor(scene, agent, 'statement_read', { args: { month: '2026-10' } })
  expectEqual('It passes.', (await callWith(scene, 'portfolio_read', reached, agent)).status, 200)
  const path = `/admin/members/${OWNER}/connections/revoke`
  await adminOf(scene).ask({ method: 'POST', path, body: { handle: agent.handle } })
  const refused = await callWith(scene, 'portfolio_read', reached, agent)
  expectEqual('Its reach has ended.', refused.status, 403)
  const own = await callWith(scene, 'statement_read', hers, agent)
  expectEqual('What she gave it of her own stands.', own.status, 200)
  const other = present('Another agent is within.', governed)
  const still = await callWith(scene, 'portfolio_read', other.grant, other.agent)
  expectEqual('Another agent is as it was.', still.status, 200)
  const acts = await readAll(scene.owner.ledger({ handle: agent.handle, kind: 'org_acted' }))
  const act = present('It is in her ledger.', acts[0])
  const { actor = null } = act
  expectEqual('She sees who did it.', isJsonObject(actor) && actor['admin'], 'ines')
  return [
    sent(`POST ${path}  {"handle":"${agent.handle.slice(0, 20)}…"}  (signed by ines)`),
    got('200'),
    sent('POST /mcp/alice  tools/call portfolio_read, by that agent'),
    got(`403 ${refusalIn(refused).error}`),
    sent('POST /mcp/alice  tools/call statement_read, by the same'),
    got(`200 "${toolText(own)}"`),
    note(`in her ledger: ${show(act['what'] ?? act.kind)}, by ines of Acme`),
  ]
}

async function emergency(scene: Scene): Promise<string[]> {
  const { stack, memory } = scene
  const { issuer } = organizationOf(scene)
  const body = { owner: OWNER, reason: 'the market burns', window_s: 600 }
  const opened = await adminOf(scene).ask({ method: 'POST', path: '/admin/break-glass', body })
  const desk = openAgent(stack)
  memory.desk = desk
  const emergencyCase = {
    organization: issuer,
    owner: OWNER,
    resource_id: `${OWNER}/trades`,
    scopes: ['trade'],
    reason: 'the market burns',
    voucher: show(opened['voucher']),
  }
  const call = { resource: stack.resource, tool: 'place_trade', arguments: TRADE }
  const { result, grant } = await desk.agent.breakGlass(call, emergencyCase)
  expectEqual('The tool answered.', toolText({ json: result }), `Bought ${TRADE.qty} ${TRADE.symbol}`)
  expectEqual('It was placed once.', executions(scene, 'place_trade'), [TRADE])
  const again: unknown = await desk.agent.breakGlass(call, emergencyCase).catch((error: unknown) => error)
  expectThat('The voucher is spent.', again instanceof AgentError && again.status === 403, again)
  expectEqual('And nothing was placed again.', executions(scene, 'place_trade').length, 1)
  return [
    sent(`POST /admin/break-glass  {"owner":"${OWNER}","reason":"${body.reason}"}  (signed by ines)`),
    got(`201 voucher, for ${body.window_s} s`),
    sent(`POST ${issuer}/break-glass  place_trade ${JSON.stringify(TRADE)}, signed by the agent of the desk`),
    got(`200 grant ${grant?.jti}, with the yes of alice's authority in it`),
    sent('POST /mcp/alice  tools/call place_trade'),
    got(`200 "${toolText({ json: result })}"`),
    sent('POST /break-glass  the same voucher once more'),
    got('403'),
  ]
}

async function emergencyLedger(scene: Scene): Promise<string[]> {
  const desk = present('An agent used it.', scene.memory.desk)
  const entries = await until('her ledger to tell of opening, yes and use', async () => {
    const found = await readAll(scene.owner.ledger({ kind: 'break_glass' }))
    return found.some(({ what }) => what === 'used') && found
  })
  const whats = entries.map(({ what }) => show(what)).filter(what => what !== 'refused')
  expectEqual(
    'All of it is there.',
    whats.toSorted((a, b) => a.localeCompare(b)),
    ['accepted', 'opened', 'used'],
  )
  const accepted = present(
    'Her authority said yes.',
    entries.find(({ what }) => what === 'accepted'),
  )
  expectEqual(
    'She sees which agent, for what, and who allowed it.',
    [accepted.handle, accepted.resource_id, accepted['authorised_by'], accepted.reason],
    [desk.handle, `${OWNER}/trades`, 'ines', 'the market burns'],
  )
  await ownerEvent(
    scene,
    'the event "break_glass" of its use',
    ({ event, data }) => event === 'break_glass' && isJsonObject(data) && data['what'] === 'used',
  )
  return [sent('GET /owner/ledger?kind=break_glass'), ...entries.map(entry => got(emergencyLine(entry)))]
}

function emergencyLine({ what, reason, authorised_by, handle }: LedgerEntry): string {
  return [
    show(what).padEnd(8),
    handle?.slice(0, 20),
    reason && `"${show(reason)}"`,
    authorised_by && `by ${show(authorised_by)}`,
  ]
    .filter(Boolean)
    .join(' ')
}

async function left(scene: Scene): Promise<string[]> {
  const { governed, standing } = scene.memory
  const rested = present('A grant rests on the firm.', governed)
  await scene.owner.ask({ method: 'DELETE', path: MEMBERSHIP })
  const ended = await callWith(scene, 'portfolio_read', rested.grant, rested.agent)
  expectEqual('What rested on the membership has ended.', ended.status, 403)
  const own = await callWith(scene, 'statement_read', present('One is her own.', standing))
  expectEqual('Her own stands.', own.status, 200)
  expectEqual('She is no member.', (await membershipOf(scene))['enrolled'], false)
  const { expires_in } = await readingTerms(scene)
  expectEqual('Her tier stays as it was cut.', expires_in, CEILING_SECONDS)
  await until('the firm to hear of it', async () => (await readAll(adminOf(scene).members())).length === 0)
  const [last] = await readAll(scene.owner.ledger({ kind: 'org_left' }))
  expectEqual('It is on her record, as hers.', last?.['by'], 'owner')
  return [
    sent(`DELETE ${MEMBERSHIP}`),
    got('200 left'),
    sent('POST /mcp/alice  tools/call portfolio_read, under the grant of the membership'),
    got(`403 ${refusalIn(ended).error}`),
    sent('POST /mcp/alice  tools/call statement_read, under her own'),
    got(`200 "${toolText(own)}"`),
    note(`the firm lists no member; her tier "reading" stays at ${expires_in} s until she edits it`),
  ]
}
