/**
 * Owns an agent with its own key that may call the scripted peers of its tests.
 */
import { createAgent, type Agent, type AgentOptions } from '../../src/agent/index.ts'
import type { Reply, ScriptedServer } from '../support/scripted-http.ts'
import { newKey } from '../support/wire-samples.ts'

export const agentWith = (options: Partial<AgentOptions> = {}): Agent =>
  createAgent({ key: newKey(), allowLoopback: true, ...options })

/** From now on every call that carries a grant is answered so; bare ones are challenged as before. */
export function answerAuthorized(
  { tools }: { tools: ScriptedServer },
  reply: Reply | ((nth: number) => Reply | undefined),
): void {
  let nth = 0
  tools.script('/mcp/alice', ({ headers }) => {
    if (headers.authorization === undefined) return undefined
    return typeof reply === 'function' ? reply(++nth) : reply
  })
}
