/**
 * Owns how steps of a story have a grant without using it, read it, and use it by hand. Contract: "Grant
 * answer (beat 4)" and "Authorized call".
 */
import type { Grant } from '../../agent/index.ts'
import { decodeBase64url } from '../../wire/encoding.ts'
import { isJsonObject, parseJson, type Json, type JsonObject } from '../../wire/json.ts'
import { callByHand, type RawReply } from './raw-call.ts'
import { firstEvent, type ActingAgent, type Scene } from './scene.ts'

/** What a grant contains. */
export function claimsOf({ access_token: token }: Grant): JsonObject {
  return object(parseJson(decodeBase64url(token.split('.')[1]!)))
}

/**
 * Gets a grant as the agent would, and stops the agent before it uses it. If it waits, alice allows it, or
 * `onWaiting` decides.
 */
export async function grantFor(
  { owner }: Pick<Scene, 'owner'>,
  agent: ActingAgent,
  tool: string,
  { args, onWaiting }: { args?: object; onWaiting?: (family: string) => Promise<unknown> } = {},
): Promise<Grant> {
  const stopping = new AbortController()
  const decide = onWaiting ?? (family => owner.decide(family, 'approved'))
  let undecided: { cause: unknown } | undefined
  const call = agent.startCall(tool, args, {
    signal: stopping.signal,
    onEvent: event => {
      if (event.type === 'waiting')
        decide(event.family).catch((cause: unknown) => {
          undecided = { cause }
          stopping.abort()
        })
      if (event.type === 'granted') stopping.abort()
    },
  })
  const { grant } = await firstEvent(call, 'granted').catch((error: unknown) => {
    throw undecided?.cause ?? error
  })
  await call.result.catch(() => undefined)
  return grant
}

/** Calls a tool by hand under a grant of this agent. */
// oxlint-disable-next-line eslint/max-params -- where, what, by which right, and who
export function callWith(
  scene: Scene,
  tool: string,
  { access_token: token }: Grant,
  { agentKey: key }: ActingAgent = scene,
): Promise<RawReply> {
  const args = tool === 'statement_read' ? { month: '2026-10' } : {}
  return callByHand({ resource: scene.stack.resource, tool, arguments: args }, { token, key })
}

/** How long a grant that was just given lasts, to the nearest five seconds. */
export function secondsOf({ exp }: Grant): number {
  return Math.round((exp - Date.now() / 1_000) / 5) * 5
}

/** An answer that is an object. */
export function object(answer: Json | undefined): JsonObject {
  return answer !== undefined && isJsonObject(answer) ? answer : {}
}
