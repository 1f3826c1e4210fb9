/**
 * Owns `--identity-command`: a program of the user's that fetches identity assertions. Contract: "need_info
 * answer (beat 2)".
 */
import { outputOf, ProgramEnded } from '../../terminal/program-output.ts'
import { AgentError } from '../agent-error.ts'
import type { IdentitySource } from './identity.ts'

/** Runs `command` by the shell for each assertion. Fails with `identity_unusable`. */
export function assertionByCommand(command: string): IdentitySource['assertion'] {
  return async request => {
    try {
      return await outputOf(command, request)
    } catch (cause) {
      if (!(cause instanceof ProgramEnded)) throw cause
      const detail = `The identity command ended ${cause.message}, so there is no identity assertion.`
      throw new AgentError('identity_unusable', { detail, local: true, cause })
    }
  }
}
