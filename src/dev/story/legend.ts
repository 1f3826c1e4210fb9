/**
 * Owns what the demo says around its story: who is who before the first step, and after each step the command
 * that repeats it. Contract: "Parties".
 */
import type { Stack } from '../stack/stack.ts'

type Places = Pick<Stack, 'issuer' | 'resource'>

/** Six lines, for a reader who knows none of the words. */
export function legend({ issuer, resource }: Places): string {
  return `  → is sent, ← comes back; a line without an arrow explains.
  alice      the owner: she writes terms, and says yes or no
  agent      software that calls her tools; its key is its name (jkt:…)
  authority  hers, at ${issuer}: terms, requests, grants, ledger
  sidecar    Envoy asks it about each call to ${resource}
  grant      lets one agent's key through, for a time or for one call; a family is one negotiation for it

`
}

/** Where there is none: our agent uses a grant for nothing else. */
const ONLY_HERE = undefined

/**
 * The commands that repeat the steps of the owner's story, in its order, after the file was sourced that
 * makes `usher` a command. Undefined for what only the story does.
 */
export function commandsOfSteps({ issuer, resource }: Places): readonly (string | undefined)[] {
  const { origin, pathname } = new URL(resource)
  const call = (tool: string, input?: object): string =>
    `usher agent call ${resource} ${tool}${input === undefined ? '' : ` '${JSON.stringify(input)}'`}`
  const params = { name: 'portfolio_read', arguments: {} }
  const message = JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'tools/call', params })
  return [
    `curl -si ${resource} -H 'content-type: application/json' -d '${message}'`,
    `curl -s ${origin}/.well-known/oauth-protected-resource${pathname}`,
    `curl -s '${issuer}/terms?owner=alice'`,
    call('portfolio_read'),
    'usher owner watch; usher owner pending <family>',
    'usher owner approve <family>',
    call('statement_read', { month: '2026-10' }),
    call('place_trade', { symbol: 'VTI', qty: 2 }),
    ONLY_HERE,
    ONLY_HERE,
    ONLY_HERE,
    call('close_account'),
    'usher owner revoke <handle>',
    'usher owner ledger',
  ]
}
