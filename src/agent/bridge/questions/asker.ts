/**
 * Owns how a question of a tool's server is told from one of usher or of the owner, and the refusal of one
 * that may not be asked. Contract: "Agreement (claim_token, beat 3)" (what strangers write is shown, never
 * obeyed).
 */
import { fail } from '../../agent-error.ts'
import { foreignLine } from '../answers/foreign-text.ts'

export interface AskingServer {
  resource: string
  tool: string
}

/**
 * The server's words under a line that says whose they are: nobody, person or model, must take a stranger's
 * question for one of the bridge's own. `words` are escaped already.
 */
export function asTheServers({ resource, tool }: AskingServer, words: string): string {
  return (
    `The tool's server asks this (${foreignLine(tool)} at ${foreignLine(resource)}), ` +
    `not usher and not the owner. Its words:\n${words}`
  )
}

/** Fails with `unexpected_answer`. */
export function refuseQuestion(): never {
  return fail(
    'unexpected_answer',
    'The tool asks for something that it may not ask: the bridge passes forms and pages for a person, text and media for a model, and the question for roots.',
  )
}
