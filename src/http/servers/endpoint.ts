/**
 * One declaration per endpoint: the request, its credentials, the answer, and the handler. It registers the
 * route and describes it (openapi.ts). Contract: "Endpoints".
 */
import { isDeepStrictEqual } from 'node:util'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { z } from 'zod'
import { refuse, type RefusalCode } from '../../wire/refusal.ts'
import { parseBody, parseQuery } from './bodies.ts'

/**
 * Called, with a sentence, for an answer that its declaration does not know. If it throws, the answer is 500.
 */
export type OnUndeclared = (fault: string) => void

declare module 'fastify' {
  interface FastifyInstance {
    /** If undefined, answers are not compared with their declarations. */
    onUndeclared: OnUndeclared | undefined
  }
}

/** One answer. Without a schema its body is described in words alone. */
export interface DeclaredAnswer {
  says: string
  schema?: z.ZodType
  /** `application/json` if left out. */
  type?: string
  /** Sent with every such answer. */
  headers?: Readonly<Record<string, string>>
}

/**
 * The credentials that a caller may use, named as in OpenAPI's `securitySchemes`; any one of them is enough.
 */
export type CredentialNames = readonly string[]

/** How an endpoint identifies its caller. */
export interface Credential<Context, Caller> {
  names: CredentialNames
  /** The code of its 401; `invalid_credential` if left out. */
  refusal?: RefusalCode
  /** Runs the rest of the request on behalf of the proven caller. Throws a `Refusal` if nobody is proven. */
  admit<T>(context: Context, request: FastifyRequest, run: (caller: Caller) => Promise<T>): Promise<T>
}

/**
 * A body. If `form` is left out, only JSON is accepted (any other type is 415). `unlisted`: accepted, but not
 * advertised.
 */
export interface DeclaredBody<Body> {
  schema: z.ZodType<Body>
  form?: true | 'unlisted'
  /** An example that says more than one made from the schema. */
  example?: Readonly<Record<string, unknown>>
}

/** A body that is no document; its media type is for the description alone. */
export interface DeclaredRawBody {
  says: string
  type: string
  example: string
}

/**
 * The parameters of the path. A value that the schema refuses names nothing: 404 with the sentence `unknown`.
 */
export interface DeclaredParameters<Parameters> {
  schema: z.ZodType<Parameters>
  unknown: string
}

/** Everything about an endpoint that can be described without calling it. */
export interface Described {
  method: 'get' | 'post' | 'put' | 'delete'
  /**
   * In OpenAPI's spelling, `{name}` for a parameter; `{+name}` at its end for one with slashes in it (RFC
   * 6570).
   */
  path: string
  summary: string
  /**
   * The rows of the contract that it implements (ids of test/contract-rows.yaml), or the heading of
   * docs/choices.md under which we added it.
   */
  rows: readonly [string, ...string[]] | { addedUnder: string }
  credential?: { names: CredentialNames; refusal?: RefusalCode }
  parameters?: DeclaredParameters<unknown>
  query?: z.ZodObject
  /** The headers that it reads, and their purpose. */
  reads?: Readonly<Record<string, string>>
  body?: DeclaredBody<unknown>
  /** In place of `body`: the handler reads `request.rawBody`, at a listener with `takeRawBodies`. */
  rawBody?: DeclaredRawBody
  answers: Answers
  /**
   * The refusals of its handler, by status, besides those that follow from the rest: 400 `invalid_request` of
   * any, 401 of a credential, 404 of a path's parameters, 413 and 415 of a body.
   */
  refuses?: Readonly<Record<number, readonly RefusalCode[]>>
}

/** What a handler answers, or that it has written its answer itself, for example a stream. */
type HandlerAnswer = { status: number; body: unknown; headers: Record<string, string> } | 'written'

type BodyOf<Answer> = Answer extends { schema: z.ZodType<infer Body> } ? Body : unknown
type Answers = Readonly<Record<number, DeclaredAnswer>>

/** The request, checked against the declaration, its caller, and how to answer. */
export interface EndpointRequest<Caller, Parameters, Query, Body, Declared extends Answers> {
  caller: Caller
  parameters: Parameters
  query: Query
  body: Body
  request: FastifyRequest
  reply: FastifyReply
  /** One of the declared answers; `headers` are added to those that its declaration names. */
  answer: <Status extends keyof Declared & number>(
    status: Status,
    body: BodyOf<Declared[Status]>,
    headers?: Record<string, string>,
  ) => HandlerAnswer
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
  /** Refuses when the caller is known, before anything else of the request is read. */
  first?: (context: Context) => void
  /** The handler may wait on purpose; only its final answer must be taken in time. */
  holdsAnswer?: true
  /** A HEAD would hold its connection as long as a stream, and say nothing. */
  noHead?: true
  /** The handler itself says of some answers that a page of any origin may read them. */
  anyOrigin?: true
  handle: (
    context: Context,
    sent: EndpointRequest<Caller, Parameters, z.output<Query>, Body, Declared>,
  ) => Promise<HandlerAnswer>
}

/** A declared endpoint, which serves in any context that has what it needs. */
export interface Endpoint<in Context> extends Described {
  holdsAnswer?: true
  noHead?: true
  anyOrigin?: true
  answer(context: Context, request: FastifyRequest, reply: FastifyReply): Promise<HandlerAnswer>
}

/**
 * Declares an endpoint. A request is read in this order: caller, path, query, body; the first fault is the
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
        parameters: parametersOf(declared, request) as Parameters,
        query: queryOf(declared.query, request) as z.output<Query>,
        body: bodyOf(declared.body, request) as Body,
        request,
        reply,
        answer: (status, body, headers = {}) => ({ status, body, headers }),
      })
    }
  return {
    ...(described as Described & { holdsAnswer?: true; noHead?: true; anyOrigin?: true }),
    ...(credential === undefined ? {} : { credential }),
    answer: async (context, request, reply) => {
      const answer = answerTo(context, request, reply)
      return credential === undefined
        ? answer(undefined as Caller)
        : credential.admit(context, request, answer)
    },
  }
}

/** Finds the context that a request belongs to, and lets it be answered there. */
export type Placing<Context> = <T>(
  target: { path: string; request: FastifyRequest },
  answer: (context: Context) => Promise<T>,
) => Promise<T>

/** Registers endpoints. If the server has an `onUndeclared`, each answer is compared with its declaration. */
export function serveEndpoints<Context>(
  app: FastifyInstance,
  context: Context,
  endpoints: readonly Endpoint<Context>[],
): void {
  serveWherePlaced<Context>(app, (_target, answer) => answer(context), endpoints)
}

/** Like `serveEndpoints`, but each request has its own context. */
export function serveWherePlaced<Context>(
  app: FastifyInstance,
  placing: Placing<Context>,
  endpoints: readonly Endpoint<Context>[],
): void {
  for (const one of endpoints)
    app.route({
      method: one.method.toUpperCase(),
      url: one.path.replaceAll(/\{(\w+)\}/g, ':$1').replace(REST, '*'),
      ...(one.noHead === true ? { exposeHeadRoute: false } : {}),
      config: { holdsAnswer: one.holdsAnswer === true, anyOrigin: isForAnyOrigin(one) },
      handler: async (request, reply) => {
        const answered = await placing({ path: one.path, request }, context =>
          one.answer(context, request, reply),
        )
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

/**
 * Whether a page may read an answer of it, and so may ask whether it may: `anyOrigin`, or an answer declared
 * so.
 */
function isForAnyOrigin({ anyOrigin, answers }: Pick<Endpoint<never>, 'anyOrigin' | 'answers'>): boolean {
  const declared = Object.values(answers).some(
    ({ headers }) => headers?.['access-control-allow-origin'] === '*',
  )
  return anyOrigin === true || declared
}

/** The parts of an answer that its declaration does not know: its status, or members of its body. */
function undeclared(
  { method, path, answers }: Described,
  { status, body }: { status: number; body: unknown },
): string | undefined {
  const answered = `${method.toUpperCase()} ${path} answered ${status}`
  const declared = answers[status]
  if (declared === undefined) return `${answered}, which it does not declare`
  if (declared.schema === undefined) return undefined
  // A stranger's text may be this name, and a schema copies no member of this name, so it is removed from
  // both sides.
  const sent: unknown = JSON.parse(JSON.stringify(body), (name, value: unknown) =>
    name === '__proto__' ? undefined : value,
  )
  const read = declared.schema.safeParse(sent)
  if (!read.success) return `${answered} otherwise than it declares: ${z.prettifyError(read.error)}`
  return isDeepStrictEqual(read.data, sent)
    ? undefined
    : `${answered} with members that it does not declare: ${JSON.stringify(sent)}`
}

/** The parameter that ends a path and may have slashes in it; the router calls it `*`. */
const REST = /\{\+(\w+)\}$/

function parametersOf<T>(
  { path, parameters: declared }: { path: string; parameters?: DeclaredParameters<T> | undefined },
  request: FastifyRequest,
): T | undefined {
  if (declared === undefined) return undefined
  const rest = REST.exec(path)?.[1]
  const { '*': value, ...named } = request.params as Record<string, unknown>
  const read = declared.schema.safeParse(rest === undefined ? request.params : { ...named, [rest]: value })
  return read.success ? read.data : refuse('not_found', declared.unknown)
}

/** Checked by the schema, which is strict. If no query is declared, nobody reads it. */
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
