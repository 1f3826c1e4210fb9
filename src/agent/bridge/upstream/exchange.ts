/**
 * Owns the state of one running request to a resource: what was sent, what came back, and what ends it.
 * Contract: "Single-use grant": whether a call may have left is never guessed.
 */
import type { Json } from '../../../wire/json.ts'
import type { PrivateKey } from '../../../wire/signatures/keys.ts'
import type { AgentError } from '../../agent-error.ts'
import type { CallAnswer } from '../../answer.ts'
import type { Log } from '../notices/logs.ts'
import type { AskingCall } from '../questions/questions.ts'
import type { SpoiltTool } from '../answers/readable-tool.ts'
import type { SessionWord } from './session.ts'

/** A grant, and the key that it is bound to. */
export interface GrantProof {
  accessToken: string
  key: PrivateKey
}

/** What the `fetch` of one call, or of a list, has seen. */
export interface Exchange {
  /** The request; `connect` is any request of the SDK that precedes it, or checks that a session lives. */
  method: string
  /** It may need a grant, so whether it was made is never guessed; otherwise it lists, or connects. */
  isCall: boolean
  /** Left out, it goes bare. */
  proof: GrantProof | undefined
  /** Of the JSON-RPC request that was sent last; left out while connecting. */
  id?: Json | undefined
  sent: boolean
  answered: boolean
  /** What its refusal says about the session that it named. */
  session?: SessionWord | undefined
  answer?: CallAnswer
  failure?: AgentError
  /** What came last and is no answer, for the words where none comes. */
  unread?: Unread
  /** When its server last said something about it that is no answer, by `performance.now()`. */
  silentSince?: number
  /** The questions that the server may ask about it. */
  asking?: AskingCall
  /** Takes the log messages of its server about it. */
  onLog?: ((log: Log) => void) | undefined
  /** The tools of a list that could not be read. */
  spoilt: SpoiltTool[]
  /** How often in a row the rest of its answer could not be asked for. */
  failedResumptions: number
  /** Ends the SDK's wait for an answer that can no longer come. */
  ending: AbortController
}

/** What came in the place of an answer; its text is a stranger's: escape it. */
export interface Unread {
  status: number
  /** The media type that it was sent as. */
  type: string | undefined
  text: string
}

/** An exchange that has not been sent yet; `call` are the parts of one that may need a grant. */
export function newExchange(method: string, call?: { proof: GrantProof | undefined }): Exchange {
  const ending = new AbortController()
  const isCall = call !== undefined
  return {
    method,
    isCall,
    proof: call?.proof,
    sent: false,
    answered: false,
    spoilt: [],
    failedResumptions: 0,
    ending,
  }
}
