/**
 * Owns the start and the end of an enforcement point inside a resource. Contract: "What the service does"
 * (`ENFORCEMENT_MODE`): the same core as the sidecar's, without a process or a listener of its own.
 */
import type { FastifyPluginCallback } from 'fastify'
import type { IncomingMessage } from 'node:http'
import { readEmbeddedConfig } from '../../../config.ts'
import { createLogger, writeToError, type Logger } from '../../../http/telemetry/log.ts'
import { assembleCore, type Core } from '../../assembly.ts'
import type { Call, Outcome } from '../../call.ts'
import { denialOf } from '../../denial.ts'
import { outage } from '../../outage.ts'
import type { HeadRecord } from '../../ledger/heads.ts'
import { createPublicDocuments } from '../../documents/public-documents.ts'
import { createAdmission, type Caller } from './admission.ts'
import { createDocuments, documentAnswers } from './documents.ts'
import { documentsPlugin, protectScope } from './fastify-plugin.ts'
import { guardTransport, type McpTransport } from './mcp-transport.ts'
import {
  documentsMiddleware,
  protectHandler,
  protectMiddleware,
  type Middleware,
  type NodeHandler,
} from './node-handler.ts'

export { ConfigFault } from '../../../config.ts'

/**
 * An enforcement point inside a resource. Everything it protects is denied unless the owner's authority lets
 * it through.
 */
export interface EnforcementPoint {
  /** A handler for `node:http` that serves the public documents and gives to yours only what is allowed. */
  protect(handler: NodeHandler): NodeHandler
  /**
   * Middleware for Express and Connect, in front of your handler and of every body parser: allowed requests
   * go on.
   */
  middleware(): Middleware
  /** Middleware that serves the public documents and hands on everything else. */
  documents(): Middleware
  /** A Fastify plugin: every request of the scope that registers it is judged. */
  readonly fastify: FastifyPluginCallback
  /** A Fastify plugin that serves the public documents. */
  readonly fastifyDocuments: FastifyPluginCallback
  /**
   * Wraps a transport of the official MCP SDK that has no HTTP (stdio, in process), for your server to
   * connect to: every incoming message is judged as a call of the resource of `owner`. Throws if no owner of
   * that name is configured.
   */
  guard<T extends McpTransport>(transport: T, owner: string): T
  /**
   * The caller; undefined for a call that needed no grant. Pass the request that your handler got (Fastify:
   * `request.raw`).
   */
  callerOf(request: IncomingMessage): Caller | undefined
  /**
   * Registers with the authorities that the configuration marks with `register`. Call this when the documents
   * can be fetched.
   */
  register(): void
  /**
   * The heads of ledgers that authorities sent with their answers in the last seven days, each once, oldest
   * first.
   */
  ledgerHeads: () => HeadRecord[]
  /** The numbers of this enforcement point, in the text format of Prometheus. */
  metrics(): Promise<{ text: string; contentType: string }>
  /**
   * From now on denies everything with 503. Waits for the calls that are being judged, and sends the waiting
   * access reports.
   */
  close(): Promise<void>
}

export interface EmbedOptions {
  /** If left out, lines go to standard error. */
  logger?: Logger
  /** Milliseconds since the epoch. */
  clock?: () => number
  /** In place of the process's. */
  environment?: Record<string, string | undefined>
}

/**
 * Starts it. `source` is the path of the YAML file of `usher sidecar`, or an object of the same form. If it
 * is left out, the file that `UMA_PEP_CONFIG` names is read. `listen` may be left out. Throws an error that
 * lists every fault of the configuration.
 */
export async function embed(source?: string | object, options: EmbedOptions = {}): Promise<EnforcementPoint> {
  const config = readEmbeddedConfig(source, options.environment)
  // Standard output is the resource's own: over stdio a line of ours there would be no message of MCP.
  const logger =
    options.logger ?? createLogger({ name: 'usher-embedded', level: config.logLevel, write: writeToError })
  const core = assembleCore(config, { logger, clock: options.clock ?? Date.now })
  const { decide, close } = untilClosed(core)
  const report = (fault: unknown): void => logger.error({ err: fault }, 'a call could not be read')
  const callers = new WeakMap<IncomingMessage, Caller>()
  const admit = createAdmission({
    core: { decide, unjudged: core.unjudged, browsers: core.browsers },
    bodyBytesMax: config.body_bytes_max,
    report,
    onStreamEnd: end => logger.info(end, 'a stream was ended'),
  })
  const find = createDocuments(
    createPublicDocuments({
      table: core.routes,
      publicUrl: config.public_url,
      keys: core.keys,
      guard: core.guard,
    }),
    report,
  )
  const door = { admit, answerDocument: documentAnswers(find), callers, logger }
  core.health.set(true)
  logger.info({ mode: 'embedded', owners: new Set(config.owners.map(({ owner }) => owner)).size }, 'serving')
  return {
    protect: handler => protectHandler(handler, door),
    middleware: () => protectMiddleware(door),
    documents: () => documentsMiddleware(door),
    fastify: protectScope(admit, callers),
    fastifyDocuments: documentsPlugin(find),
    guard: (transport, owner) => {
      const [route, ...others] = core.routes.routes.filter(one => one.owner === owner || one.path === owner)
      if (route === undefined) throw new Error(`no owner ${owner} is configured`)
      if (others.length > 0) throw new Error(`${owner} has several resources: give the path of one`)
      return guardTransport(transport, route, {
        core: { decide, unjudged: core.unjudged },
        bodyBytesMax: config.body_bytes_max,
        logger,
      })
    },
    callerOf: request => callers.get(request),
    register: () => core.register(),
    ledgerHeads: () => core.ledgerHeads(),
    metrics: () => core.metrics.render(),
    close,
  }
}

/** Judges until it is closed; closing waits for what is being judged. */
function untilClosed(core: Core): { decide: (call: Call) => Promise<Outcome>; close: () => Promise<void> } {
  const judging = new Set<Promise<Outcome>>()
  let closing: Promise<void> | undefined
  return {
    decide: call => {
      if (closing !== undefined) {
        const denied = denialOf(outage('This resource is about to stop: try again.'))
        core.unjudged(denied)
        return Promise.resolve(denied)
      }
      const outcome = core.decide(call)
      judging.add(outcome)
      void outcome.finally(() => judging.delete(outcome))
      return outcome
    },
    close: () => {
      closing ??= (async () => {
        core.health.drain()
        await Promise.all(judging)
        await core.close()
      })()
      return closing
    },
  }
}
