/**
 * One pull: from the resource's public document, through its signed claims, to what it lists of an owner's
 * resources. Writes nothing. Contract: "Registry materialization", "Resource metadata (RFC 9728)".
 */
import { OutboundFault } from '../../http/outbound/outbound.ts'
import { gravestConsequence, parseConsequence } from '../../rules/permission.ts'
import { sameOrigin } from '../../rules/registration.ts'
import type { ListedResource } from '../../storage/authority/registry/registry.ts'
import { parseJson } from '../../wire/json.ts'
import type { PrivateKey } from '../../wire/signatures/keys.ts'
import { parseOwnerListing, type OwnerResource } from '../../wire/resources/owner-resources.ts'
import { Refusal } from '../../wire/refusal.ts'
import { PublicationFault, type Patience } from './published-resources.ts'
import type { Publisher, Publishers } from './publishers.ts'
import type { Owner } from '../../wire/identifiers.ts'
import { signedFields } from '../../wire/signatures/sent-request.ts'

export interface PullTools {
  publishers: Publishers
  /** Signs the query for the listing. */
  key: PrivateKey
  /** Seconds since the epoch. */
  now: () => number
}

const LISTING_BYTES_MAX = 1024 * 1024

/**
 * What the resource at `resource_uri` lists for the owner. The listing is fetched only if the signed claims
 * name it, and only at the resource's own origin, because another server's listing must not be stored under
 * this server's name.
 * @throws PublicationFault naming what is wrong.
 */
export async function fetchListing(
  tools: PullTools,
  source: PulledFrom,
  patience: Patience,
): Promise<ListedResource[]> {
  return tools.publishers.at(source.resource_uri, patience, (publisher, within) =>
    fetchFrom({ ...tools, ...publisher }, source, within),
  )
}

interface PulledFrom {
  owner: Owner
  resource_uri: string
  namespaces: readonly string[]
}

async function fetchFrom(
  tools: PublisherClient,
  { owner, resource_uri, namespaces }: PulledFrom,
  patience: Patience,
): Promise<ListedResource[]> {
  const document = await tools.published.document(resource_uri, patience)
  const { owner_resources_endpoint: endpoint } = await tools.published.signedClaims(document, patience)
  if (endpoint === undefined)
    throw new PublicationFault('endpoint_missing', 'The signed claims name no `owner_resources_endpoint`.')
  if (!sameOrigin(endpoint, resource_uri))
    throw new PublicationFault(
      'endpoint_elsewhere',
      'The `owner_resources_endpoint` is at another origin than the resource; serve the listing at its own.',
    )
  const listing = readListing(await queryListing(tools, endpoint, patience), namespaces)
  if (listing.owner !== owner)
    throw new PublicationFault('listing_other_owner', 'The listing names another owner than was asked about.')
  return listing.resources.map(registered)
}

/** The client of one side of the publishers. */
type PublisherClient = Publisher & Omit<PullTools, 'publishers'>

/**
 * GETs the listing, signed with the authority's own key.
 */
async function queryListing(tools: PublisherClient, endpoint: string, patience: Patience): Promise<Buffer> {
  const sent = {
    method: 'GET',
    url: new URL(endpoint),
    headers: { accept: 'application/json', authorization: '' },
  }
  const answer = await tools.outbound
    .request({
      url: endpoint,
      headers: signedFields(sent, tools.key, { created: tools.now(), once: true }),
      timeoutMs: patience.deadline - Date.now(),
      responseBytesMax: LISTING_BYTES_MAX,
    })
    .catch((cause: unknown) => {
      if (!(cause instanceof OutboundFault)) throw cause
      throw new PublicationFault(
        `listing_${cause.reason}`,
        `The listing could not be had: ${cause.reason}.`,
        {
          passing: true,
          cause,
        },
      )
    })
  if (answer.status !== 200)
    throw new PublicationFault('listing_status', `The listing was answered with ${answer.status}, not 200.`)
  return answer.body
}

function readListing(body: Buffer, namespaces: readonly string[]) {
  try {
    return parseOwnerListing(parseJson(body), namespaces)
  } catch (error) {
    if (!(error instanceof Refusal)) throw error
    throw new PublicationFault('listing_malformed', error.detail ?? error.message, { cause: error })
  }
}

/**
 * A word that names no consequence class declares none. The class of a resource is never milder than the
 * class of any of its tools.
 */
function registered({
  _id,
  name,
  type,
  resource_scopes,
  consequence,
  tools,
  approval,
}: OwnerResource): ListedResource {
  const classes = tools?.map(one => [one.tool, parseConsequence(one.consequence) ?? null] as const)
  return {
    resource_id: _id,
    name,
    type: type ?? null,
    resource_scopes,
    consequence:
      gravestConsequence([consequence, ...(classes ?? []).map(([, declared]) => declared)]) ?? null,
    tools: classes === undefined ? null : Object.fromEntries(classes),
    approval: approval ?? null,
  }
}
