/**
 * Owns what the bridge's first answer to a client says of the servers behind it: their names and their
 * instructions, escaped, as theirs. Contract: "Agreement (claim_token, beat 3)" (what strangers write is
 * shown, never obeyed).
 */
import {
  Server,
  SERVER_INFO_META_KEY,
  type JSONRPCRequest,
  type Result,
  type ServerContext,
} from '@modelcontextprotocol/server'
import { isJsonObject, type Json, type JsonObject } from '../../wire/json.ts'
import { foreignLine, foreignText } from './answers/foreign-text.ts'
import { safeIcons } from './listing/icons.ts'

/** What a server says of itself. */
export interface ServerIntroduction {
  resource: string
  serverInfo: JsonObject | undefined
  instructions: string | undefined
}

export const BRIDGE_INFO = { name: 'usher-bridge', version: '1.0' } as const
export const BRIDGE_INSTRUCTIONS =
  'These tools belong to an owner who decides who may call them. A call may wait for her: repeat it with the same arguments.'
const INSTRUCTIONS_LENGTH_MAX = 16_384
/** Of the first answer: what the bridge itself is, and what each server behind it says that it is. */
const GREETING_META = { bridge: 'usher/bridge', servers: 'usher/servers' } as const

type RequestHandler = (request: JSONRPCRequest, context: ServerContext) => Promise<Result>

/** A server whose first answer says what the servers behind it say of themselves. */
export class IntroducingServer extends Server {
  #introduced: ((context: ServerContext) => Promise<ServerIntroduction[]>) | undefined

  /** Sets how they are asked. If that fails, the answer says nothing of them. */
  introduce(introduced: (context: ServerContext) => Promise<ServerIntroduction[]>): void {
    this.#introduced = introduced
  }

  protected override _wrapHandler(method: string, handler: RequestHandler): RequestHandler {
    const wrapped = super._wrapHandler(method, handler)
    if (method !== 'initialize' && method !== 'server/discover') return wrapped
    return async (request, context) => {
      const answer = await wrapped(request, context)
      const introductions = await this.#ask(context).catch(() => [])
      const isModern = method === 'server/discover'
      return withIntroductions(answer as JsonObject, introductions, isModern)
    }
  }

  async #ask(context: ServerContext): Promise<ServerIntroduction[]> {
    return (await this.#introduced?.(context)) ?? []
  }
}

/** The first answer, with the words of the servers; since 2026-07-28 a server's name is in `_meta`. */
function withIntroductions(
  answer: JsonObject,
  all: readonly ServerIntroduction[],
  isModern: boolean,
): JsonObject {
  const servers = all.flatMap(({ resource, serverInfo }) =>
    serverInfo === undefined ? [] : [{ resource, serverInfo: shownInfo(serverInfo) }],
  )
  const words = all.flatMap(shownInstructions)
  const meta = isJsonObject(answer['_meta']) ? answer['_meta'] : {}
  // The name of one server is the name of what the client speaks to; of several, none is.
  const named = all.length === 1 ? servers[0]?.serverInfo : undefined
  const info = named === undefined ? {} : isModern ? {} : { serverInfo: named }
  const infoMeta = named === undefined || !isModern ? {} : { [SERVER_INFO_META_KEY]: named }
  return {
    ...answer,
    ...info,
    instructions: [BRIDGE_INSTRUCTIONS, ...words].join('\n\n'),
    _meta: {
      ...meta,
      ...infoMeta,
      [GREETING_META.bridge]: { ...BRIDGE_INFO },
      [GREETING_META.servers]: servers,
    },
  }
}

/** Under a line that says whose words follow: a model must not take them for the bridge's or the owner's. */
function shownInstructions({ resource, instructions }: ServerIntroduction): string[] {
  if (instructions === undefined || instructions.trim() === '') return []
  return [
    `The server at ${foreignLine(resource)} says this about its tools, not usher and not the owner:\n${foreignText(instructions, INSTRUCTIONS_LENGTH_MAX)}`,
  ]
}

/** Its name as it may be shown. */
function shownInfo(info: JsonObject): JsonObject {
  const { icons, websiteUrl, ...words } = info
  const lines = Object.entries(words).flatMap(([name, value]): [string, Json][] =>
    typeof value === 'string' ? [[name, foreignLine(value)]] : [],
  )
  const pictures = safeIcons(icons)
  const page = typeof websiteUrl === 'string' ? URL.parse(websiteUrl) : null
  return {
    ...Object.fromEntries(lines),
    ...(page !== null && /^https?:$/.test(page.protocol) ? { websiteUrl: page.href } : {}),
    ...(pictures.length === 0 ? {} : { icons: pictures }),
  }
}
