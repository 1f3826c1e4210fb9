/**
 * Owns what agents do in a history: they ask a sidecar for a ticket, present it, agree, wait, and call with
 * what they were granted, each step at a process of chance, and sometimes twice at the same time.
 */
import { decodeJwt } from 'jose'
import { until } from '../../src/dev/stack/child-process.ts'
import { encodeBase64url } from '../../src/wire/encoding.ts'
import { signJws } from '../../src/wire/signatures/jws.ts'
import { thumbprintHandle } from '../../src/wire/agents/handles.ts'
import { generatePrivateJwk, importPrivateJwk, type PrivateKey } from '../../src/wire/signatures/keys.ts'
import { GRANT_TYPE_UMA_TICKET, specNames } from '../../src/wire/names.ts'
import { parseChallenge } from '../../src/wire/negotiation/negotiation.ts'
import type { TermsTemplate } from '../../src/wire/negotiation/terms.ts'
import { callOf } from '../enforcement/calls.ts'
import { checkBytes } from '../support/check-client.ts'
import type { Chance } from './chance.ts'
import type { Processes } from './processes.ts'
import type { Call, Grant, Present } from './record.ts'
import type { Recorder } from './recorder.ts'
import { ask, away, cameOfCheck, type Came } from './requests.ts'
import type { Wish, Wishes } from './wishes.ts'

export interface Agent {
  owner: string
  key: PrivateKey
  handle: string
  operator: string
  client_id: string
  held: Held[]
}

/** A grant that an agent was given, and what it is for. */
interface Held {
  token: string
  grant: Grant
  wish: Wish
  /** Calls made with it. */
  calls: number
  /** Whether it was said to be spent or ended. */
  over: boolean
}

/** A negotiation on its way. */
interface Flow {
  agent: Agent
  wish: Wish
  ticket: string
  template?: TermsTemplate | undefined
  waits: boolean
  agreed: number
  family?: string | undefined
}

export interface Agents {
  all: Agent[]
  /** Takes the next step of a negotiation, or begins one. */
  negotiate: () => Promise<void>
  /** Takes one agent's negotiation so far that it is granted or waits. */
  negotiateFor: (agent: Agent) => Promise<void>
  /** Brings so many negotiations with an owner to their agreements, and presents these at the same moment. */
  rush: (owner: string, count: number) => Promise<void>
  callStanding: () => Promise<void>
  callSingle: () => Promise<void>
  /** Calls once with what is for one use, and no other call beside it. */
  spend: () => Promise<void>
  /** Calls with the standing grants of one agent, at both sidecars. */
  callStandingOf: (agent: Agent) => Promise<void>
  /** Calls with all grants that agents still hold, once nothing is disturbed any more. */
  callAll: () => Promise<void>
}

export interface Setting {
  processes: Processes
  recorder: Recorder
  chance: Chance
  /** Most standing grants that one client calls with at the same time. */
  callsAtOnce: number
}

/** Grants that an agent goes on calling with, the latest. */
const HELD_MAX = 12
const FLOWS_MAX = 40
/** Grants of one agent that are called at once. */
const PROBED_MAX = 2
/** Refusals after which a grant never passes again. */
const OVER = new Set(['access_revoked', 'already_consumed', 'expired', 'revoked'])
/** Signs what is to be refused. */
const STRANGER = importPrivateJwk(generatePrivateJwk())
const QUIET_MS_MAX = 30_000

/**
 * `origins`: the operators that agents name, in turn; nobody answers there, so that none is attested.
 * `wishes`: what they ask for.
 */
export function createAgents(
  setting: Setting,
  { perOwner, origins, wishes }: { perOwner: number; origins: readonly string[]; wishes: Wishes },
): Agents {
  const { processes, recorder, chance, callsAtOnce } = setting
  const all: Agent[] = processes.people.flatMap(({ owner }) =>
    Array.from({ length: perOwner }, (_, at) => {
      const key = importPrivateJwk(generatePrivateJwk())
      const operator = origins[at % origins.length]!
      return {
        owner,
        key,
        handle: thumbprintHandle(key),
        operator,
        client_id: `${operator}/client.json`,
        held: [],
      }
    }),
  )
  const flows: Flow[] = []

  async function check({ path, tool }: Wish, call: Parameters<typeof callOf>[0], via: number): Promise<Came> {
    const { headers, body } = callOf({ ...call, path, tool })
    const lines = Object.fromEntries([...headers].map(([name, values]) => [name, values.join(', ')]))
    const bytes = body.state === 'complete' ? Buffer.from(body.bytes) : Buffer.alloc(0)
    const request = checkBytes({
      path,
      headers: lines,
      raw_body: bytes,
      size: bytes.length,
    })
    try {
      const deadline = Date.now() + 20_000
      return cameOfCheck(await processes.sidecars[via]!.check().check(request, { deadline }))
    } catch (error) {
      const { message } = error as Error
      return message.includes('No connection established')
        ? away(message)
        : { outcome: 'unknown', code: message }
    }
  }

  async function begin(agent: Agent): Promise<Flow | undefined> {
    const wish = wishes.next(agent.owner)
    const via = chance.below(2)
    const op = recorder.begin({
      op: 'call',
      owner: agent.owner,
      jti: 'none',
      exact: false,
      via: `sidecar-${via + 1}`,
    })
    const came = await check(wish, { args: wish.args }, via)
    recorder.end(op, { outcome: came.outcome, code: came.code })
    const headers = came.body?.headers as { header: { key: string; value: string } }[] | undefined
    const challenge = headers?.find(({ header }) => header.key.toLowerCase() === 'www-authenticate')?.header
      .value
    if (came.outcome !== 'refused' || challenge === undefined) return undefined
    const { ticket } = parseChallenge([challenge])
    return { agent, wish, ticket, waits: false, agreed: wishes.seconds() }
  }

  function claimToken({ agent, template, wish: { tool, args }, agreed }: Flow): string {
    const payload = {
      ...template,
      expires_in: Math.min(agreed, template!.expires_in),
      ...(tool === 'place_trade' ? { operation: { tool, params: args } } : {}),
      iss: `agent:${agent.key.thumbprint}`,
      aud: processes.issuer,
      iat: Math.floor(Date.now() / 1_000),
    }
    const header = { jwk: agent.key.jwk, client_id: agent.client_id }
    return encodeBase64url(
      signJws({ typ: 'myterms-agreement-v1+jws', kid: false, header, payload }, agent.key),
    )
  }

  async function present(flow: Flow, via: number): Promise<Present> {
    const { agent, ticket, template, waits, agreed, wish } = flow
    const agrees = template !== undefined && !waits
    const same = `${agent.handle} ${wish.path} ${wish.tool} ${JSON.stringify(wish.args)}`
    const op = recorder.begin({
      op: 'present',
      owner: agent.owner,
      handle: agent.handle,
      ticket,
      family: flow.family,
      same: agrees || waits ? same : undefined,
      ...(agrees && wish.share !== undefined && { share: { ...wish.share, agreed } }),
      via: `authority-${via + 1}`,
    }) as Present
    const form = new URLSearchParams({
      grant_type: GRANT_TYPE_UMA_TICKET,
      ticket,
      ...(agrees ? { claim_token: claimToken(flow), claim_token_format: specNames().agreementFormat } : {}),
    })
    const came = await ask({
      url: `${processes.authorities[via]!.publicUrl}/token`,
      method: 'POST',
      headers: { 'content-type': 'application/x-www-form-urlencoded' },
      body: form.toString(),
    })
    recorder.end(op, told(flow, came))
    return op
  }

  /** Reads an answer into the flow, which goes on with it, and into the history. */
  function told(flow: Flow, { outcome, code, body }: Came): { outcome: Came['outcome'] } & Partial<Present> {
    if (outcome === 'done') {
      const grant = grantOf(flow, body)
      flow.agent.held.push({ token: body.access_token, grant, wish: flow.wish, calls: 0, over: false })
      if (flow.agent.held.length > HELD_MAX) flow.agent.held.shift()
      return { outcome, answer: 'granted', family: grant.family, grant }
    }
    if (code === 'need_info') {
      flow.ticket = body.ticket
      flow.template = body.required_claims[0].terms_template as TermsTemplate
      flow.waits = false
      const first = flow.family === undefined
      flow.family = flow.template.family
      flows.push(flow)
      return { outcome: 'done', answer: 'need_info', ...(first && { family: flow.family }) }
    }
    if (code === 'request_submitted') {
      flow.ticket = body.ticket
      flow.waits = true
      flows.push(flow)
      return { outcome: 'done', answer: 'submitted', kind: body.kind }
    }
    // An outage tells the ticket to go on with.
    if (outcome === 'outage') flow.ticket = body?.ticket ?? flow.ticket
    // What nobody answered may have been taken; asked again, it is answered or was spent.
    if (outcome !== 'refused' && chance.next() < 0.7) flows.push(flow)
    return { outcome, code }
  }

  async function step(flow: Flow): Promise<void> {
    const first = chance.below(2)
    if (chance.next() < 0.15)
      await Promise.all([present({ ...flow }, first), present({ ...flow }, 1 - first)])
    else await present(flow, first)
  }

  async function call(
    agent: Agent,
    held: Held,
    how: { exact?: boolean; via?: number; quiet?: boolean } = {},
  ) {
    const { exact = true, via = chance.below(2), quiet } = how
    const { token, grant, wish } = held
    held.calls++
    const op = recorder.begin({
      op: 'call',
      owner: agent.owner,
      jti: grant.jti,
      exact,
      via: `sidecar-${via + 1}`,
      quiet,
    }) as Call
    const forges = !exact && (!grant.single || chance.next() < 0.3)
    const args = exact || forges ? wish.args : { symbol: 'VTI', qty: 0 }
    const signer = forges ? STRANGER : agent.key
    const came = await check(wish, { args, token, signer }, via)
    recorder.end(op, { outcome: came.outcome, code: came.code })
    held.over ||= OVER.has(came.code ?? '') || (exact && grant.single && came.outcome === 'done')
    return op
  }

  async function callUntilTold(agent: Agent, held: Held): Promise<void> {
    let last: Call | undefined
    const answered = until(
      'an answer to a call, once nothing is disturbed',
      async () => {
        // What is asked again was none of the last words.
        if (last !== undefined) last.quiet = false
        last = await call(agent, held, { quiet: true })
        return last.outcome === 'done' || last.outcome === 'refused'
      },
      QUIET_MS_MAX,
    )
    await answered.catch((error: unknown) => {
      // Without an answer its last word stays quiet, which the check of the history names with its cause.
      if (last?.quiet !== true) throw error
    })
  }

  /** One that an agent holds: mostly one that may still pass, and sometimes one that must not any more. */
  const ofKind = (single: boolean): [Agent, Held] | undefined => {
    const isOver = chance.next() < 0.2
    const isOne = ({ grant, over }: Held): boolean => grant.single === single && over === isOver
    const holders = all.filter(({ held }) => held.some(isOne))
    if (holders.length === 0) return undefined
    const agent = chance.of(holders)
    const held = agent.held.filter(isOne)
    const fresh = held.filter(({ calls }) => calls === 0)
    const from = single && fresh.length > 0 && chance.next() < 0.8 ? fresh : held
    return [agent, chance.of(from)]
  }

  return {
    all,
    negotiate: async () => {
      const waiting = flows.length > 0 && (flows.length >= FLOWS_MAX || chance.next() < 0.75)
      const flow = waiting ? flows.splice(chance.below(flows.length), 1)[0] : await begin(chance.of(all))
      if (flow !== undefined) await step(flow)
    },
    negotiateFor: async agent => {
      const flow = await begin(agent)
      if (flow === undefined) return
      await present(flow, 0)
      if (flow.template !== undefined) await present(flows.splice(flows.indexOf(flow), 1)[0]!, 0)
    },
    rush: async (owner, count) => {
      const hers = all.filter(one => one.owner === owner)
      const upToAgreement = async (): Promise<Flow[]> => {
        const flow = await begin(chance.of(hers))
        if (flow === undefined) return []
        await present(flow, chance.below(2))
        const at = flows.indexOf(flow)
        return flow.template === undefined || at < 0 ? [] : flows.splice(at, 1)
      }
      const ready = await Promise.all(Array.from({ length: count }, upToAgreement))
      await Promise.all(ready.flat().map(flow => present(flow, chance.below(2))))
    },
    callStanding: async () => {
      const callOne = async (): Promise<void> => {
        const found = ofKind(false)
        if (found !== undefined) await call(...found, { exact: chance.next() < 0.98 })
      }
      const length = callsAtOnce === 1 ? 1 : 1 + chance.below(callsAtOnce)
      await Promise.all(Array.from({ length }, callOne))
    },
    callSingle: async () => {
      const found = ofKind(true)
      if (found === undefined) return
      if (chance.next() < 0.3) await call(...found, { exact: false })
      if (chance.next() < 0.5) await Promise.all([0, 1, chance.below(2)].map(via => call(...found, { via })))
      else await call(...found)
    },
    spend: async () => {
      const found = ofKind(true)
      if (found !== undefined) await call(...found)
    },
    callStandingOf: async agent => {
      const held = agent.held.filter(({ grant, over }) => !grant.single && !over).slice(-PROBED_MAX)
      await Promise.all(held.flatMap(one => [0, 1].map(via => call(agent, one, { via }))))
    },
    callAll: async () => {
      const callEach = async (agent: Agent): Promise<void> => {
        for (const held of agent.held) await callUntilTold(agent, held)
      }
      await Promise.all(all.map(callEach))
    },
  }
}

function grantOf({ agent, agreed, wish }: Flow, body: { access_token: string; receipt: string }): Grant {
  const token = decodeJwt(body.access_token)
  const [, tier, version] = String(decodeJwt(body.receipt)['template_id']).split('/')
  return {
    jti: token.jti!,
    family: token['family'] as string,
    handle: agent.handle,
    tier: tier!,
    version: Number(version!.slice(1)),
    single: wish.tool === 'place_trade',
    iat: token.iat!,
    exp: token.exp!,
    agreed,
  }
}
