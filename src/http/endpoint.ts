/**
 * One declaration per endpoint: what is sent, who must prove what, what is answered, and who handles it. It
 * registers the route and describes it (openapi.ts). Contract: "Endpoints".
 */
import { isDeepStrictEqual } from 'node:util'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { z } from 'zod'
import { refuse } from '../wire/refusal.ts'
import { parseBody, parseQuery } from './bodies.ts'

/**
 * Told, in a sentence, of an answer that its declaration does not know. It may throw: then the answer is 500.
 */
export type OnUndeclared = (fault: string) => void

declare module 'fastify' {
  interface FastifyInstance {
    /** Undefined: no answer is held against its declaration. */
    onUndeclared: OnUndeclared | undefined
  }
}

/** One answer. Without a schema its body is described in words alone. */
export interface DeclaredAnswer {
  says: string
  schema?: z.ZodType
  /** `application/json` where left out. */
  type?: string
  /** Sent with every such answer. */
  headers?: Readonly<Record<string, string>>
}

/**
 * What a caller may prove himself with, as OpenAPI's `securitySchemes` call it: any one of them is enough.
 */
export type CredentialNames = readonly string[]

/** How an endpoint finds out who calls. */
export interface Credential<Context, Caller> {
  names: CredentialNames
  /** Runs the rest of the request on behalf of who proved himself. Throws a `Refusal` where nobody did. */
  admit<T>(context: Context, request: FastifyRequest, run: (caller: Caller) => Promise<T>): Promise<T>
}

/**
 * A body. JSON alone (any other type is 415) where `form` is left out; `unlisted`: read, yet not advertised.
 */
export interface DeclaredBody<Body> {
  schema: z.ZodType<Body>
  form?: true | 'unlisted'
}

/** Of the path. What its schema does not take names nothing: 404 with the sentence `unknown`. */
export interface DeclaredParameters<Parameters> {
  schema: z.ZodType<Parameters>
  unknown: string
}

/** All of an endpoint that can be told without calling it. */
export interface Described {
  method: 'get' | 'post' | 'put' | 'delete'
  /** In OpenAPI's spelling, `{name}` for a parameter. */
  path: string
  summary: string
  /**
   * The rows of the contract that it is (ids of test/contract-rows.yaml), or the heading of docs/choices.md
   * under which we added it.
   */
  rows: readonly [string, ...string[]] | { addedUnder: string }
  credential?: { names: CredentialNames }
  parameters?: DeclaredParameters<unknown>
  query?: z.ZodObject
  /** Headers that it reads, with what they are for. */
  reads?: Readonly<Record<string, string>>
  body?: DeclaredBody<unknown>
  answers: Answers
}

/** What a handler answers, or that it has written its answer itself, as a stream is. */
type Answered = { status: number; body: unknown; headers: Record<string, string> } | 'written'

type BodyOf<Answer> = Answer extends { schema: z.ZodType<infer Body> } ? Body : unknown
type Answers = Readonly<Record<number, DeclaredAnswer>>

/** What was sent, judged by the declaration, who sent it, and how to answer. */
export interface Sent<Caller, Parameters, Query, Body, Declared extends Answers> {
  caller: Caller
  parameters: Parameters
  query: Query
  body: Body
  request: FastifyRequest
  reply: FastifyReply
  /** One of the answers that are declared; `headers` beside those that its declaration names. */
  answer: <Status extends keyof Declared & number>(
    status: Status,
    body: BodyOf<Declared[Status]>,
    headers?: Record<string, string>,
  ) => Answered
}

interface Declaration<
  Context,
  Caller,
  Parameters,
  Query extends z.ZodObject,
  Body,
  Declared extends Answers,
> extends Omit<Described, 'credential' | 'parameters' | 'query' | 'body' | 'answers'> {
  credential?: Credential<Context, Caller>
  parameters?: DeclaredParameters<Parameters>
  query?: Query
  body?: DeclaredBody<Body>
  answers: Declared
  /** Refuses, once the caller is known, before anything else that was sent is read. */
  first?: (context: Context) => void
  /** It may wait on purpose: only what it answers in the end must be taken in time. */
  holdsAnswer?: true
  /** A HEAD would hold its connection as long as a stream does, and tell nothing. */
  noHead?: true
  handle: (
    context: Context,
    sent: Sent<Caller, Parameters, z.output<Query>, Body, Declared>,
  ) => Promise<Answered>
}

/** A declared endpoint, served to whoever has what it needs. */
export interface Endpoint<in Context> extends Described {
  holdsAnswer?: true
  noHead?: true
  answer(context: Context, request: FastifyRequest, reply: FastifyReply): Promise<Answered>
}

/**
 * Declares an endpoint. What is sent is read in this order: caller, path, query, body; the first fault is the
 * answer.
 */
export function endpoint<
  Context,
  Caller = undefined,
  Parameters = undefined,
  Query extends z.ZodObject = z.ZodObject,
  Body = undefined,
  Declared extends Answers = Answers,
>(declared: Declaration<Context, Caller, Parameters, Query, Body, Declared>): Endpoint<Context> {
  const { credential, first, handle, ...described } = declared
  const answerTo =
    (context: Context, request: FastifyRequest, reply: FastifyReply) => async (caller: Caller) => {
      first?.(context)
      return handle(context, {
        caller,
        parameters: parametersOf(declared.parameters, request) as Parameters,
        query: queryOf(declared.query, request) as z.output<Query>,
        body: bodyOf(declared.body, request) as Body,
        request,
        reply,
        answer: (status, body, headers = {}) => ({ status, body, headers }),
      })
    }
  return {
    ...(described as Described & { holdsAnswer?: true; noHead?: true }),
    ...(credential === undefined ? {} : { credential }),
    answer: async (context, request, reply) => {
      const answer = answerTo(context, request, reply)
      return credential === undefined
        ? answer(undefined as Caller)
        : credential.admit(context, request, answer)
    },
  }
}

/**
 * Registers endpoints. Where the server has an `onUndeclared`, each answer is held against its declaration.
 */
export function serveEndpoints<Context>(
  app: FastifyInstance,
  context: Context,
  endpoints: readonly Endpoint<Context>[],
): void {
  for (const one of endpoints)
    app.route({
      method: one.method.toUpperCase(),
      url: one.path.replaceAll(/\{(\w+)\}/g, ':$1'),
      ...(one.noHead === true ? { exposeHeadRoute: false } : {}),
      config: { holdsAnswer: one.holdsAnswer === true },
      handler: async (request, reply) => {
        const answered = await one.answer(context, request, reply)
        if (answered === 'written') return
        const { status, headers, body } = answered
        const fault = app.onUndeclared && undeclared(one, answered)
        if (fault !== undefined) app.onUndeclared?.(fault)
        return reply
          .code(status)
          .headers({ ...one.answers[status]?.headers, ...headers })
          .send(body)
      },
    })
}

/** What of an answer its declaration does not know: its status, or members of its body. */
function undeclared(
  { method, path, answers }: Described,
  { status, body }: { status: number; body: unknown },
): string | undefined {
  const answered = `${method.toUpperCase()} ${path} answered ${status}`
  const declared = answers[status]
  if (declared === undefined) return `${answered}, which it does not declare`
  if (declared.schema === undefined) return undefined
  // Text of strangers may be a name, and a schema copies no member of this name: neither side has it here.
  const sent: unknown = JSON.parse(JSON.stringify(body), (name, value: unknown) =>
    name === '__proto__' ? undefined : value,
  )
  const read = declared.schema.safeParse(sent)
  if (!read.success) return `${answered} otherwise than it declares: ${z.prettifyError(read.error)}`
  return isDeepStrictEqual(read.data, sent)
    ? undefined
    : `${answered} with members that it does not declare: ${JSON.stringify(sent)}`
}

function parametersOf<T>(
  declared: DeclaredParameters<T> | undefined,
  request: FastifyRequest,
): T | undefined {
  if (declared === undefined) return undefined
  const read = declared.schema.safeParse(request.params)
  return read.success ? read.data : refuse('not_found', declared.unknown)
}

/** By the schema, strict as it is; what is declared without a query has its own looked at by nobody. */
function queryOf(schema: z.ZodObject | undefined, request: FastifyRequest): unknown {
  return schema === undefined ? {} : parseQuery(schema, request.raw.url ?? '/')
}

function bodyOf<T>(declared: DeclaredBody<T> | undefined, request: FastifyRequest): T | undefined {
  if (declared === undefined) return undefined
  const type = request.headers['content-type'] ?? ''
  const isJson = /^application\/json\s*(?:;|$)/i.test(type)
  if (declared.form === undefined && request.rawBody !== undefined && !isJson)
    refuse('unsupported_media_type', 'Send the body as application/json.')
  return parseBody(declared.schema, request.body)
}
