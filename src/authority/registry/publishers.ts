/**
 * Whether a resource is on the internet or in a network that the operator trusts, and how its publication is
 * fetched. Contract: "Resource server establishment: POST `/rs/register`", "Registry materialization".
 *
 * There are two clients: one connects only to public addresses, the other only to trusted ones. Whatever name
 * servers say from one moment to the next, an address inside is reached only by the client that reports every
 * failure alike. Otherwise anybody who may register could find out, port by port, what runs in one of our
 * networks.
 */
import type { FastifyBaseLogger } from 'fastify'
import type { AuthorityConfig } from '../../config.ts'
import { createOutbound, OutboundFault, type Outbound } from '../../http/outbound/outbound.ts'
import { peerNetwork } from '../../http/peer-network.ts'
import { createPublicHosts } from '../../http/outbound/public-lookup.ts'
import { createRemoteDocuments } from '../../http/outbound/remote-documents.ts'
import { createAddressTrust } from '../../http/outbound/trusted-networks.ts'
import { sourceShares } from '../../http/source-share.ts'
import { waitAtMost } from '../../limits/patience.ts'
import type { RateShares } from '../../limits/rate-shares.ts'
import { isLoopbackHost } from '../../wire/loopback.ts'
import { Refusal } from '../../wire/refusal.ts'
import {
  createPublishedResources,
  PublicationFault,
  type Patience,
  type PublishedResources,
} from './published-resources.ts'

/** The connections of the client, and the documents that it has read. */
export interface Publisher {
  readonly published: PublishedResources
  readonly outbound: Outbound
}

/** Who causes the fetch, and how long it may take. */
export interface SourcedPatience extends Patience {
  /** The address of the caller that names the resource; left out if no outside caller does. */
  source?: string
}

export interface Publishers {
  /**
   * Does `work` with what a resource publishes. For a host on the internet, it throws what `work` throws. For
   * any other host, every `PublicationFault` and `Refusal` becomes the same `PublicationFault`, thrown
   * `INSIDE_FAILURE_DELAY_MS` after the start whatever happened before; the log has the reason. A source that
   * fails too often there is refused, 429.
   */
  at<T>(
    resourceUri: string,
    asking: SourcedPatience,
    work: (publisher: Publisher, patience: Patience) => Promise<T>,
  ): Promise<T>
  /** Ends what is being fetched. */
  close(): Promise<void>
}

/** The side in trusted networks. */
export interface Inside extends Publisher {
  /** Whether a host is on the internet, and nowhere else. */
  isPublic: (hostname: string) => Promise<boolean>
  /** How many failures one network of sources may have there. */
  shares: RateShares
  log: FastifyBaseLogger
}

/** How long after the start a failure inside is reported. */
export const INSIDE_FAILURE_DELAY_MS = 3_000
/** Fetches there end earlier, because the refusal must not wait for them. */
const FETCHING_MS_MAX = 2_500

/** The code under which every failure inside is reported and counted. */
const INSIDE_FAILED = 'not_established'
const INSIDE_SENTENCE =
  'Nothing at this address establishes the resource; the operator of this authorization server finds the reason in its log.'

/** An unknown kid may be a key that was just rotated in, but anybody can name an unknown one. */
const MISS_SECONDS = 30
const FAILURES_PER_MINUTE = 10

type Trusting = Pick<AuthorityConfig, 'issuer' | 'devLoopback' | 'trustedNetworks' | 'trustedHosts'>

/**
 * Opens both sides as the settings say. They share no connection and no document.
 * @param nameServers asked in place of the system's, as `host:port`.
 */
export function openPublishers(
  config: Trusting,
  log: FastifyBaseLogger,
  nameServers?: readonly string[],
): Publishers {
  const { issuer, devLoopback, trustedNetworks: networks, trustedHosts: hosts } = config
  const resolverOptions = nameServers === undefined ? {} : { nameServers }
  const publisher = (outbound: Outbound): Publisher => {
    const misses = { refetchSeconds: MISS_SECONDS, failureSeconds: MISS_SECONDS }
    const documents = createRemoteDocuments({ outbound, clock: Date.now, ...misses })
    return { outbound, published: createPublishedResources(documents, issuer) }
  }
  const outside = publisher(createOutbound({ devLoopback, publicOnly: true, ...resolverOptions }))
  if (networks === undefined) return loggingUnreached(createPublishers(outside), log)
  const trustedOnly = createAddressTrust({ networks, hosts })
  const publicHosts = createPublicHosts(nameServers)
  const inside: Inside = {
    ...publisher(createOutbound({ devLoopback: false, trustedOnly, ...resolverOptions })),
    // A developer's literal loopback host is asked directly if there are no trusted networks.
    isPublic: async host => (devLoopback && isLoopbackHost(host)) || publicHosts(host),
    shares: sourceShares(FAILURES_PER_MINUTE),
    log,
  }
  return loggingUnreached(createPublishers(outside, inside), log)
}

/**
 * Logs why a host was not reached, which its answer does not say: where a name leads is none of a stranger's
 * business. One network of sources causes ten lines a minute at most. A failure inside has its own line.
 */
function loggingUnreached(publishers: Publishers, log: FastifyBaseLogger): Publishers {
  const lines = sourceShares(FAILURES_PER_MINUTE)
  return {
    close: () => publishers.close(),
    at: async (resource, asking, work) => {
      try {
        return await publishers.at(resource, asking, work)
      } catch (error) {
        const cause = causeOf(error)
        const { source } = asking
        if (cause !== undefined && source !== undefined && lines.take(peerNetwork(source)) === 0)
          log.warn({ resource, cause, source }, 'a host that a resource server named was not reached')
        throw error
      }
    },
  }
}

/** What no name server has. */
const UNKNOWN_NAME: ReadonlySet<unknown> = new Set(['ENOTFOUND', 'ENODATA'])

/** Why there was no answer, for the log alone; undefined if there was one. */
function causeOf(error: unknown): string | undefined {
  const fault = error instanceof PublicationFault ? error.cause : undefined
  if (!(fault instanceof OutboundFault)) return undefined
  if (fault.reason === 'forbidden_address')
    return `${fault.message}: UMA_AS_TRUSTED_NETWORKS names the private networks that are asked, UMA_AS_TRUSTED_HOSTS the hosts there`
  const { code } = (fault.cause ?? {}) as { code?: unknown }
  if (UNKNOWN_NAME.has(code)) return `no name server knows it (${String(code)}); /etc/hosts is not read`
  return fault.message
}

/** Without `inside` no network is trusted, and each failure is reported as it is. */
export function createPublishers(outside: Publisher, inside?: Inside): Publishers {
  const close = async (): Promise<void> => {
    await Promise.all([outside.outbound.close(), inside?.outbound.close()])
  }
  if (inside === undefined) return { at: (_resource, asking, work) => work(outside, asking), close }
  return {
    close,
    at: async (resource, asking, work) => {
      const insideUntil = Date.now() + INSIDE_FAILURE_DELAY_MS
      const patience = {
        deadline: insideUntil - (INSIDE_FAILURE_DELAY_MS - FETCHING_MS_MAX),
        favoured: asking.favoured,
      }
      const looked = inside.isPublic(URL.parse(resource)?.hostname ?? '')
      if ((await waitAtMost(FETCHING_MS_MAX, looked)) === true) return work(outside, asking)
      const giveBack = takeShare(inside.shares, asking.source)
      try {
        const done = await work(inside, patience)
        giveBack()
        return done
      } catch (cause) {
        if (!(cause instanceof PublicationFault || cause instanceof Refusal)) throw cause
        const reason = cause instanceof PublicationFault ? cause.reason : cause.code
        inside.log.warn(
          { resource, reason, why: cause.message, cause: causeOf(cause), source: asking.source },
          'nothing was established at a host that is not on the internet alone',
        )
        await new Promise(resolve => setTimeout(resolve, insideUntil - Date.now()))
        throw new PublicationFault(INSIDE_FAILED, INSIDE_SENTENCE, { passing: true, cause })
      }
    },
  }
}

/** This is taken before anything is fetched, so that many at once get no more than one after the other. */
function takeShare(shares: RateShares, source: string | undefined): () => void {
  if (source === undefined) return () => undefined
  const network = peerNetwork(source)
  const seconds = shares.take(network)
  if (seconds === 0) return () => shares.give(network)
  throw new Refusal(
    'request_denied',
    'Too many resources that nothing established were named from this address: ask again later.',
    { status: 429, headers: { 'retry-after': String(seconds) }, extra: { reason: 'too_many_failed' } },
  )
}
