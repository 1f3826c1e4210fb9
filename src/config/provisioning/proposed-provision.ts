/**
 * Owns the part of a provisioning file that is proposed for the resources of an owner: her resource servers,
 * her resources, and tiers for them. Contract: "Policy vocabulary and tiers": an ungoverned resource is
 * denied, and what a tier says is hers, so that everything here is for her to edit.
 */
import { stringify } from 'yaml'
import { gravestConsequence } from '../../rules/permission.ts'
import { TERMS_SECONDS_MAX } from '../../rules/tier.ts'
import type { OwnedResource } from '../sidecar/sidecar-file.ts'

/** One resource server of an owner, and what a call of each of its tools needs. */
interface ProvisionedFrom {
  owner: string
  client_id: string
  name: string
  /** The RFC 9728 `resource` that agents call. */
  resource_uri: string
  /** By which it proves itself: the file with its secret, or the one with its public keys. */
  client_secret_file?: string
  jwks_file?: string
  tools: readonly {
    resource_id: string
    scopes: readonly string[]
    consequence?: string | undefined
  }[]
}

/** The servers of a sidecar's file, and sentences about those that are not provisioned. */
export function provisionedFrom(
  owned: readonly OwnedResource[],
  publicUrl: string,
): { servers: ProvisionedFrom[]; notes: string[] } {
  const notes: string[] = []
  const servers = owned.flatMap((one): ProvisionedFrom[] => {
    const { owner, path, client_id, client_secret_file, tools, name, joint } = one
    const resource_uri = publicUrl + path
    if (joint !== undefined) notes.push(`${resource_uri} is an account's: a tally provisions it.`)
    else if (one.register || client_id === undefined || (one.signature && client_id === resource_uri))
      notes.push(
        `${resource_uri} proves itself by a signature: it registers and publishes what it holds, so that she approves it (usher owner approve-server) and writes its tiers (usher owner tier apply).`,
      )
    else
      return [
        {
          owner,
          client_id,
          name: name ?? client_id,
          resource_uri,
          ...(one.signature === undefined
            ? { client_secret_file: client_secret_file ?? provisionedFile(client_id) }
            : { jwks_file: `${provisionedFile(client_id)}-jwks.json` }),
          tools,
        },
      ]
    return []
  })
  return { servers, notes }
}

/** A place for what the authority is to read of it. */
export function provisionedFile(client_id: string): string {
  return `/run/secrets/${client_id.replaceAll(/[^\w.-]/g, '-')}`
}

/** Lifetimes that are proposed: of a grant that reads, and of one that she was asked for. */
const READ_GRANT_SECONDS = Math.min(3_600, TERMS_SECONDS_MAX)
const SINGLE_USE_GRANT_SECONDS = 300

const HEAD = [
  'A proposal for the provisioning file (UMA_AS_PROVISION), for you to edit:',
  '- client_secret_file: the file with the secret that the sidecar has, too; jwks_file: the one with the public',
  '  half of its keys (`usher keys public`).',
  '- tiers: what only reads is let through on terms; she is asked about each call of everything else,',
  '  also of what nobody has described. Names, purposes and prohibitions are hers: write them with her.',
  'Each item is made once, ever; what she has changed since is left alone. A tier that she has already gets no',
  'further resources by this file, so a server that is added later has tiers of its own, with ids of their own.',
]

/** The YAML of a provisioning file, which is judged at the start like a file that a person wrote. */
export function proposedProvision(
  servers: readonly ProvisionedFrom[],
  notes: readonly string[] = [],
): string {
  const owners = [...Map.groupBy(servers, ({ owner }) => owner)].map(([owner, own]) => {
    const parts = own.map(server => ({ server, resources: resourcesOf(server) }))
    return {
      owner,
      resource_servers: own.map(({ client_id, name, client_secret_file, jwks_file, resource_uri }) => ({
        client_id,
        name,
        ...(jwks_file === undefined ? { client_secret_file } : { jwks_file }),
        resource_uri,
      })),
      resources: parts.flatMap(({ resources }) => resources),
      tiers: parts.flatMap(({ server, resources }, at) => tiersOf(resources, at === 0 ? undefined : server)),
    }
  })
  const comments = [...HEAD, ...notes].map(line => `# ${line.replaceAll(/[\r\n]+/g, ' ')}\n`)
  return comments.join('') + stringify({ owners }, { lineWidth: 0 })
}

interface ProposedResource {
  id: string
  client_id: string
  name: string
  resource_scopes: string[]
  consequence?: string
}

/** A resource with a tool that nobody has described is not described as milder than it may be. */
function resourcesOf({ client_id, tools }: ProvisionedFrom): ProposedResource[] {
  return [...Map.groupBy(tools, ({ resource_id }) => resource_id)].map(([id, touching]) => {
    const isDescribed = touching.every(({ consequence }) => consequence !== undefined)
    const gravest = gravestConsequence(touching.map(({ consequence }) => consequence))
    return {
      id,
      client_id,
      name: id.slice(id.indexOf('/') + 1),
      resource_scopes: [...new Set(touching.flatMap(({ scopes }) => scopes))],
      ...(gravest === undefined || (!isDescribed && gravest === 'reversible')
        ? {}
        : { consequence: gravest }),
    }
  })
}

/**
 * The tiers of one server: for what only reads, and for everything else. The tiers of a `further` server have
 * its name, so that the proposal for a longer file adds tiers and differs in none that was made before.
 */
function tiersOf(resources: readonly ProposedResource[], further: ProvisionedFrom | undefined): object[] {
  const id = (kind: string): string => (further === undefined ? kind : furtherId(kind, further.client_id))
  const name = (words: string): string => (further === undefined ? words : `${words} (${further.name})`)
  const reads = resources.filter(({ consequence }) => consequence === 'reversible')
  const prompts = resources.filter(({ consequence }) => consequence !== 'reversible')
  const readTerms = {
    purpose: 'Read what I ask you about',
    scope: scopesOf(reads),
    expires_in: READ_GRANT_SECONDS,
    prohibited: ['training models on it'],
  }
  const promptTerms = {
    purpose: 'Do the one thing that was asked for',
    scope: scopesOf(prompts),
    expires_in: SINGLE_USE_GRANT_SECONDS,
  }
  return [
    { id: id('reading'), name: name('Reading'), resources: reads.map(one => one.id), terms: readTerms },
    {
      id: id('asking'),
      name: name('Asked each time'),
      resources: prompts.map(one => one.id),
      ask_me: true,
      terms: promptTerms,
    },
  ].filter(tier => tier.resources.length > 0)
}

/** `reading-calendar`, in the characters and the length of a tier's id. */
function furtherId(kind: string, clientId: string): string {
  return `${kind}-${clientId.replaceAll(/[^\w.-]+/g, '-')}`.slice(0, TIER_ID_LENGTH_MAX)
}

const TIER_ID_LENGTH_MAX = 64

function scopesOf(resources: readonly ProposedResource[]): string[] {
  return [...new Set(resources.flatMap(({ resource_scopes }) => resource_scopes))]
}
