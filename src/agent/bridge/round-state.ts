/**
 * Owns what a client of MCP 2026-07-28 brings back from one round of questions to the next: the state is the
 * bridge's own, or the tool's. Contract: "Agreement (claim_token, beat 3)": a person's answer about the
 * owner's terms is no answer to the tool's server, which never gets a state of ours.
 */
import { createRequestStateCodec, type ServerContext } from '@modelcontextprotocol/server'
import { isJsonObject, type Json } from '../../wire/json.ts'
import { withoutAnswer } from './answer-field.ts'
import { QUESTION } from './conversations.ts'

/** A state of ours: the question that the client's answers are about. */
export interface Round {
  about: string
}

/** The states that one request brings, and that its answer may carry. */
export interface RoundStates {
  /** A state for the next round, which the client cannot forge. */
  seal(round: Round): Promise<string>
  /**
   * Our state in this request; undefined if it brings none of ours. A state that is over (after an hour, of
   * another secret, changed) is about nothing that is asked, so no answer counts for it.
   */
  opened(): Promise<Round | undefined>
}

const SECONDS_KEPT = 3600
/**
 * Tells our states from a tool's, whoever sealed them: a state that is over would else go to the tool's
 * server, with the answer of a person.
 */
const OURS = 'usher.bridge.'
/** The state of a call that goes on: if it is over, the call must not be made a second time. */
const OURS_OF_CALL = `${OURS}call.`

/** `secret` signs the states of this client. */
export function roundStates(secret: Buffer, context: ServerContext): RoundStates {
  const codec = createRequestStateCodec<Round>({ key: secret, ttlSeconds: SECONDS_KEPT })
  return {
    seal: async round =>
      `${round.about.startsWith(QUESTION) ? OURS_OF_CALL : OURS}${await codec.mint(round, context)}`,
    opened: async () => {
      const raw = context.mcpReq.requestState<string>()
      if (typeof raw !== 'string' || !raw.startsWith(OURS)) return undefined
      const prefix = raw.startsWith(OURS_OF_CALL) ? OURS_OF_CALL : OURS
      const over: Round = { about: prefix === OURS_OF_CALL ? QUESTION : '' }
      return codec.verify(raw.slice(prefix.length), context).catch(() => over)
    },
  }
}

/** The client's answers to a tool that asked back, and the tool's state. */
export type ToolsOwn = { inputResponses?: Json; requestState?: Json }

/** What a request brings for the tool, if its state is none of ours. */
export function toolsOwn({ mcpReq }: ServerContext): ToolsOwn {
  const requestState = mcpReq.requestState<string>()
  const { inputResponses } = mcpReq
  return {
    ...(inputResponses === undefined ? {} : { inputResponses: answersIn(inputResponses as Json) }),
    ...(requestState === undefined ? {} : { requestState }),
  }
}

function answersIn(responses: Json): Json {
  if (!isJsonObject(responses)) return responses
  const answers = Object.entries(responses).map(([key, reply]): [string, Json] => [key, withoutAnswer(reply)])
  return Object.fromEntries(answers)
}
