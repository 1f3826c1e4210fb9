/**
 * Owns an agent with its own key that may call the scripted peers of its tests.
 */
import { createAgent, type Agent, type AgentOptions } from '../../src/agent/index.ts'
import { newKey } from '../support/wire-samples.ts'

export const agentWith = (options: Partial<AgentOptions> = {}): Agent =>
  createAgent({ key: newKey(), allowLoopback: true, ...options })
