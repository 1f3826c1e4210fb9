/**
 * Owns the story of an account that alice holds with bob and carol, who are at another authority: two of the
 * three let an agent in, the tally between them decides nothing, and each withdraws her allowance by herself.
 * Contract: "Tally for a jointly held resource".
 */
import { readAll } from '../../owner/index.ts'
import { isJsonObject, type JsonObject } from '../../wire/json.ts'
import { callWith, claimsOf, grantFor, object, secondsOf } from './held-grants.ts'
import { ACCOUNT } from '../stack/joint-place.ts'
import {
  agreeAndOffer,
  asHolder,
  HOLDERS,
  HOLDING,
  jointOf,
  mandateFor,
  nothingWaitsFor,
  waitingFor,
} from './joint-scene.ts'
import { callByHand, refusalIn, toolText, whyChallenged } from './raw-call.ts'
import { expectDenied, expectEqual, expectThat, present, show, firstEvent, type Scene } from './scene.ts'
import { executions, expectRefusal, fetchJson, got, note, sent, type StoryStep } from './story.ts'

const TRADE = { symbol: 'VTI', qty: 2 }
const PATH = `/mcp/${ACCOUNT}`

/** The whole story, in its order: each step continues from the one before. */
export const JOINT_STORY: readonly StoryStep[] = [
  { title: 'Before anybody has agreed to hold it, nothing of it is offered', walk: unheld },
  {
    title: 'Alice reads what the mandate would commit her to, which commits her to nothing',
    walk: previewed,
  },
  { title: 'Alice, Bob and Carol agree, each at her own authority, and say what they offer', walk: agreed },
  { title: 'An agent is offered what is left of the terms of all three, and signs it', walk: folded },
  { title: 'Nobody knows it yet, so each is asked by her own authority', walk: requestToEach },
  { title: 'Alice and Bob let it in: two of three are enough, and Carol is asked no more', walk: letIn },
  {
    title: 'For a trade Alice’s authority says yes at once; Bob is asked, and allows it',
    walk: tradeAllowed,
  },
  { title: 'Under that grant nothing but this very trade passes, and it passes once', walk: traded },
  { title: 'Whoever runs the tally adds a scope that nobody allowed: the door counts again', walk: inflated },
  { title: 'Bob takes back what he allowed: the very next call is refused', walk: withdrawal },
  { title: 'Each has her own record of it', walk: recorded },
  { title: 'Carol stops holding it; her terms stay where they were', walk: left },
]

async function unheld(scene: Scene): Promise<string[]> {
  const sentence = await expectDenied(scene.startCall('statement_read', { month: '2026-10' }))
  return [
    sent(`POST ${PATH}  tools/call statement_read`),
    got(`401 WWW-Authenticate: UMA …, as_uri="${jointOf(scene).tally}", which is the tally`),
    got(`POST /token: 403 request_denied: ${sentence}`),
  ]
}

async function previewed(scene: Scene): Promise<string[]> {
  const { tally, mandate_s256 } = jointOf(scene)
  const preview = await mandateFor(scene, 'alice')
  expectEqual(
    'It is the mandate that the sidecar is told to count by.',
    preview['mandate_s256'],
    mandate_s256,
  )
  expectEqual('She holds nothing yet.', await accountsOf(scene, 'alice'), [])
  return [
    sent(`POST ${HOLDING}/preview  {"tally":"${tally}","account":"${ACCOUNT}"}  (signed by alice)`),
    ...(preview['summary'] as string[]).map(one => got(one)),
    note(
      `its digest, which she would agree to, and which the sidecar is set up with: ${mandate_s256.slice(0, 20)}…`,
    ),
  ]
}

async function agreed(scene: Scene): Promise<string[]> {
  const { mandate_s256 } = jointOf(scene)
  const lines: string[] = []
  for (const name of HOLDERS) {
    const answer = await agreeAndOffer(scene, name)
    expectEqual('She agreed to exactly that.', answer['mandate_s256'], mandate_s256)
    const [account] = await accountsOf(scene, name)
    expectEqual('She holds it by that rule.', account?.['rule'], {
      kind: 'threshold',
      threshold: 2,
      total_weight: 3,
    })
    const terms = await asHolder(scene, name).policies()
    const ours = terms.filter(({ id }) => id.startsWith('our-'))
    lines.push(
      sent(
        `POST ${HOLDING}  {"agreed":true,"mandate_s256":"${mandate_s256.slice(0, 16)}…"}  (signed by ${name})`,
      ),
      ...ours.map(({ ask_me, terms: { scope, expires_in, prohibited } }) =>
        note(
          `${name} offers ${scope.join(', ')} for ${expires_in} s${ask_me ? ', asked each time' : ''}${prohibited.length === 0 ? '' : `; not for: ${prohibited.join(', ')}`}`,
        ),
      ),
    )
  }
  return lines
}

async function folded(scene: Scene): Promise<string[]> {
  const call = scene.startCall('portfolio_read')
  scene.memory.firstCall = call
  const { template } = await firstEvent(call, 'terms_offered')
  expectEqual(
    'The least time, the scopes that all offer, whatever anybody prohibits.',
    [template.expires_in, template.scope, template.prohibited],
    [900, ['read'], ['passing it on', 'training models on it']],
  )
  const document = await fetchJson(template.terms_uri)
  const named = (document['holders'] as JsonObject[]).map(({ owner }) => show(owner))
  expectEqual('The document names who holds it.', named.toSorted(), [...HOLDERS])
  const { contract } = await firstEvent(call, 'agreement_signed')
  scene.memory.family = (await firstEvent(call, 'waiting')).family
  return [
    sent(`POST ${PATH}  tools/call portfolio_read`),
    got(`401; POST /token: 403 need_info, terms ${template.template_id}`),
    note(
      `${template.scope.join(', ')} for ${template.expires_in} s, not for: ${template.prohibited.join(', ')}`,
    ),
    note(`${template.terms_uri} names ${named.join(', ')}`),
    sent(`POST /token  the terms, signed with the agent's key (agreement ${contract.slice(0, 20)}…)`),
    got('403 request_submitted: the holders are asked'),
  ]
}

async function requestToEach(scene: Scene): Promise<string[]> {
  const lines: string[] = []
  for (const name of HOLDERS) {
    const item = await waitingFor(scene, name)
    expectEqual(
      'She sees which account it is of, and which agent asks.',
      [item.account, item.handle],
      [ACCOUNT, scene.handle],
    )
    expectEqual('She sees who else is asked.', item.holders?.map(({ owner }) => owner).toSorted(), [
      ...HOLDERS,
    ])
    expectThat(
      'It waits under a name of her own authority.',
      item.family !== scene.memory.family,
      item.family,
    )
    lines.push(
      sent(`GET /owner/pending  (signed by ${name})`),
      got(
        `200 ${item.handle.slice(0, 20)}… wants ${item.resource_id} of ${item.account}, tier "${item.tier_name}"`,
      ),
    )
  }
  return lines
}

async function letIn(scene: Scene): Promise<string[]> {
  const { stack, memory } = scene
  for (const name of ['alice', 'bob'] as const) {
    const { family } = await waitingFor(scene, name)
    await asHolder(scene, name).decide(family, 'approved')
  }
  const call = present('The call is under way.', memory.firstCall)
  const { result } = await call.result
  expectEqual('The tool answered.', toolText({ json: result }), '12 VTI, 40 BND')
  const { grant } = await firstEvent(call, 'granted')
  memory.standing = grant
  const joint = object(claimsOf(grant)['joint'])
  expectEqual('It rests on two verdicts.', (joint['verdicts_s256'] as unknown[]).length, 2)
  expectThat('It lasts no longer than the folded terms.', secondsOf(grant) <= 900, secondsOf(grant))
  const { headers } = present('The call reached the MCP server.', stack.toolServer.record.arrivals.at(-1))
  expectEqual('The tool is told whose it is.', headers['x-uma-owner'], ACCOUNT)
  await nothingWaitsFor(scene, 'carol')
  return [
    sent('POST /owner/pending/…/decision  {"decision":"approved"}  (alice, and bob)'),
    got(`200 grant ${grant.jti}, for ${secondsOf(grant)} s, on the signed words of two of three`),
    sent(`POST ${PATH}  tools/call portfolio_read, Authorization: PoP …`),
    note('the sidecar verified each verdict by the keys of that holder’s authority, and counted them itself'),
    got(`200 "${toolText({ json: result })}"`),
    note('what waited for carol is withdrawn: nothing is asked about it any more'),
  ]
}

async function tradeAllowed(scene: Scene): Promise<string[]> {
  let family = ''
  const onWaiting = async (): Promise<void> => {
    const item = await waitingFor(scene, 'bob')
    expectEqual('He sees the exact operation.', item.operation, { tool: 'place_trade', params: TRADE })
    expectEqual('Alice is not asked.', await readAll(asHolder(scene, 'alice').pending()), [])
    family = item.family
    await asHolder(scene, 'bob').decide(family, 'approved')
  }
  const grant = await grantFor(scene, scene, 'place_trade', { args: TRADE, onWaiting })
  scene.memory.trade = grant
  expectEqual('It is for one use.', grant.single_use, true)
  expectEqual('Nothing was bought yet.', executions(scene, 'place_trade'), [])
  return [
    sent(`POST ${PATH}  tools/call place_trade ${JSON.stringify(TRADE)}`),
    got('401; terms signed with the operation, because one of them asks about each'),
    note('alice knows the agent and asks nothing: her authority would sign at once'),
    sent(`POST /owner/pending/${family}/decision  {"decision":"approved"}  (bob)`),
    got(`200 single-use grant ${grant.jti}, for exactly these parameters`),
  ]
}

async function traded(scene: Scene): Promise<string[]> {
  const { stack, agentKey: key } = scene
  const { access_token: token } = present('There is a grant for the trade.', scene.memory.trade)
  const trade = { resource: stack.resource, tool: 'place_trade', arguments: TRADE }
  const more = await callByHand({ ...trade, arguments: { ...TRADE, qty: 200 } }, { token, key })
  expectRefusal('Other parameters are refused.', more, { status: 403, error: 'operation_mismatch' })
  const answer = await callByHand(trade, { token, key })
  expectEqual('The trade passes.', [answer.status, toolText(answer)], [200, 'Bought 2 VTI'])
  const again = await callByHand(trade, { token, key })
  expectEqual('The spent grant is challenged.', again.status, 401)
  expectEqual('It was executed once, as it was allowed.', executions(scene, 'place_trade'), [TRADE])
  return [
    sent(`POST ${PATH}  tools/call place_trade {"symbol":"VTI","qty":200}, the same grant, well signed`),
    got(`403 operation_mismatch: ${refusalIn(more).sentence}`),
    sent(`POST ${PATH}  tools/call place_trade ${JSON.stringify(TRADE)}`),
    got(`200 "${toolText(answer)}"`),
    sent(`POST ${PATH}  the same once more`),
    got(`401 WWW-Authenticate: UMA …: ${whyChallenged(again)}`),
  ]
}

async function inflated(scene: Scene): Promise<string[]> {
  const { agentKey: key, stack } = scene
  const { turned, tallyKey } = jointOf(scene)
  const standing = present('There is a standing grant.', scene.memory.standing)
  const honest = await callWith(scene, 'close_account', standing)
  expectEqual('It is no grant for closing the account.', honest.status, 401)
  const token = turned.inflate(standing.access_token, 'close', tallyKey)
  const close = await callByHand({ resource: stack.resource, tool: 'close_account' }, { token, key })
  const unsatisfied = { status: 403, error: 'joint_mandate_unsatisfied' }
  expectRefusal('What the tally says is held to what was signed.', close, unsatisfied)
  const read = await callByHand({ resource: stack.resource, tool: 'portfolio_read' }, { token, key })
  expectRefusal('A grant that claims more is good for nothing.', read, unsatisfied)
  expectEqual('The account stands.', executions(scene, 'close_account'), [])
  const still = await callWith(scene, 'portfolio_read', standing)
  expectEqual('The honest grant is as good as before.', still.status, 200)
  return [
    note('the tally signs another grant of the same verdicts, with the scope "close" beside "read",'),
    note('and says of it whatever the sidecar asks: live, for both'),
    sent(`POST ${PATH}  tools/call close_account, that grant, well signed by the agent`),
    got(`403 joint_mandate_unsatisfied: ${refusalIn(close).sentence}`),
    note('neither alice nor bob signed for "close"; the account stands'),
    sent(`POST ${PATH}  tools/call portfolio_read, the honest grant`),
    got(`200 "${toolText(still)}"`),
  ]
}

async function withdrawal(scene: Scene): Promise<string[]> {
  const standing = present('There is a standing grant.', scene.memory.standing)
  const ended = await asHolder(scene, 'bob').revoke(scene.handle)
  expectEqual('The tally took it at once.', ended.joint_withdrawals_waiting, undefined)
  const after = await callWith(scene, 'portfolio_read', standing)
  expectRefusal('The very next call is refused.', after, { status: 403, error: 'access_revoked' })
  expectEqual('It carries no challenge.', after.headers.get('www-authenticate'), null)
  const [known] = await readAll(scene.owner.connections())
  expectEqual('Alice’s own word stands, and is one of two.', known?.status, 'active')
  return [
    sent(`POST /owner/connections/revoke  {"handle":"${scene.handle.slice(0, 20)}…"}  (signed by bob)`),
    got(`200 ${ended.status}; his authority told the tally, which counted again: one is left of two`),
    sent(`POST ${PATH}  tools/call portfolio_read, under the grant from before`),
    got(`403 access_revoked: ${refusalIn(after).sentence}`),
  ]
}

async function recorded(scene: Scene): Promise<string[]> {
  const ledgerKinds = {
    alice: ['joint_agreed', 'joint_allowed', 'joint_allowed'],
    bob: ['joint_agreed', 'joint_allowed', 'joint_allowed', 'revoked'],
    carol: ['joint_agreed'],
  }
  const lines: string[] = []
  for (const name of HOLDERS) {
    const entries = await readAll(asHolder(scene, name).ledger())
    const kinds = entries.map(({ kind }) => kind).filter(kind => /^joint_|^revoked$/.test(kind))
    expectEqual(`What ${name} did is there, and nothing that the others did.`, kinds, ledgerKinds[name])
    lines.push(sent(`GET /owner/ledger  (signed by ${name})`), got(kinds.join(', ')))
  }
  return lines
}

async function left(scene: Scene): Promise<string[]> {
  const carol = asHolder(scene, 'carol')
  const answer = object(await carol.ask({ method: 'DELETE', path: `${HOLDING}/${ACCOUNT}` }))
  expectEqual('She left.', answer['left'], ACCOUNT)
  expectEqual('She holds nothing with others.', await accountsOf(scene, 'carol'), [])
  expectEqual('Her terms stay.', (await carol.policies()).length, 2)
  expectEqual('Alice holds it as before.', (await accountsOf(scene, 'alice')).length, 1)
  return [
    sent(`DELETE ${HOLDING}/${ACCOUNT}  (signed by carol)`),
    got('200 left; whatever she had allowed would end by it'),
    note('from now on the tally counts her as refusing: alice and bob must both allow'),
  ]
}

async function accountsOf(scene: Scene, name: (typeof HOLDERS)[number]): Promise<JsonObject[]> {
  const { accounts } = object(await asHolder(scene, name).ask({ method: 'GET', path: HOLDING }))
  return Array.isArray(accounts) ? accounts.filter(isJsonObject) : []
}
