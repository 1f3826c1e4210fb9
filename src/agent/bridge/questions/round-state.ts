/**
 * Owns what a client of MCP 2026-07-28 brings back from one round of questions to the next: the state is the
 * bridge's own, or the tool's. Contract: "Agreement (claim_token, beat 3)": a person's answer about the
 * owner's terms is no answer to the tool's server, which never gets a state of ours.
 */
import { createRequestStateCodec, type ServerContext } from '@modelcontextprotocol/server'
import { s256Json } from '../../../wire/encoding.ts'
import { isJsonObject, type Json } from '../../../wire/json.ts'
import { fail } from '../../agent-error.ts'
import { withoutAnswer } from './answer-field.ts'
import { QUESTION } from './conversations.ts'

/** The client's answers to a tool that asked back, and the tool's state. */
export type ToolsOwn = { inputResponses?: Json; requestState?: Json }

/** What one request brings, and the states that its answer may carry. */
export interface Round {
  /**
   * What the client's answers are about, if they are answers to us; undefined if its state is none of ours. A
   * state of ours that is over (after an hour, of another secret, changed) is about nothing that is asked, so
   * no answer counts for it.
   */
  about: string | undefined
  /** What it brings for the tool: now, or in the round before ours. */
  own: ToolsOwn
  /**
   * A state for the next round, which the client cannot forge. It contains the members of this round for the
   * tool, because a client sends only its newest answers again. Fails with `request_invalid` if that is too
   * long.
   */
  seal: (about: string) => Promise<string>
}

/** Content of a state of ours. */
type Sealed = { about: string; own?: ToolsOwn; call?: string }

const STATE_SECONDS_MAX = 3600
/**
 * Tells our states from a tool's, whoever sealed them: a state that is over would else go to the tool's
 * server, with the answer of a person.
 */
const STATE_PREFIX = 'usher.bridge.'
/** The state of a call that is under way: if it is over, the call must not be made a second time. */
const CALL_STATE_PREFIX = `${STATE_PREFIX}call.`

/** Clients of HTTP send the state in a body of at most 4 MiB, in base64. */
const OWN_LENGTH_MAX = 1_048_576

/** `secret` signs the states of this client; `call` is what it repeats in each round. */
export async function roundIn(of: { secret: Buffer; call: Json }, context: ServerContext): Promise<Round> {
  const codec = createRequestStateCodec<Sealed>({ key: of.secret, ttlSeconds: STATE_SECONDS_MAX })
  const raw = context.mcpReq.requestState<string>()
  const ours =
    typeof raw === 'string' && raw.startsWith(STATE_PREFIX) ? await opened(raw, codec, context) : undefined
  const own = ours === undefined ? toolsOwn(context) : ownOf(ours, of.call)
  return {
    about: ours?.about,
    own,
    seal: async about => {
      // The call that asks is under way, and has what was brought for it.
      if (about.startsWith(QUESTION)) return `${CALL_STATE_PREFIX}${await codec.mint({ about }, context)}`
      return `${STATE_PREFIX}${await codec.mint({ about, ...carried(own, of.call) }, context)}`
    },
  }
}

type Codec = ReturnType<typeof createRequestStateCodec<Sealed>>

function opened(raw: string, codec: Codec, context: ServerContext): Promise<Sealed> {
  const prefix = raw.startsWith(CALL_STATE_PREFIX) ? CALL_STATE_PREFIX : STATE_PREFIX
  const over: Sealed = { about: prefix === CALL_STATE_PREFIX ? QUESTION : '' }
  return codec.verify(raw.slice(prefix.length), context).catch(() => over)
}

/** Answers to one call's tool are for no other call. */
function ownOf({ own, call }: Sealed, repeated: Json): ToolsOwn {
  return own !== undefined && call === s256Json(repeated) ? own : {}
}

function carried(own: ToolsOwn, call: Json): Omit<Sealed, 'about'> {
  if (Object.keys(own).length === 0) return {}
  if (JSON.stringify(own).length <= OWN_LENGTH_MAX) return { own, call: s256Json(call) }
  return fail(
    'request_invalid',
    `What this call brings for the tool is longer than ${OWN_LENGTH_MAX} characters, so it cannot be kept while somebody is asked.`,
  )
}

/** What a request brings for the tool, if its state is none of ours. */
function toolsOwn({ mcpReq }: ServerContext): ToolsOwn {
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
