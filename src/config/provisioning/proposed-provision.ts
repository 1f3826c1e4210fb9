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
  client_secret_file: string
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
    else if (one.register || one.signature !== undefined || client_id === undefined)
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
          client_secret_file: client_secret_file ?? `/run/secrets/${client_id.replaceAll(/[^\w.-]/g, '-')}`,
          tools,
        },
      ]
    return []
  })
  return { servers, notes }
}

/** Lifetimes that are proposed: of a grant that reads, and of one that she was asked for. */
const READING_SECONDS = Math.min(3_600, TERMS_SECONDS_MAX)
const ASKED_SECONDS = 300

const HEAD = [
  'A proposal for the provisioning file (UMA_AS_PROVISION), for you to edit:',
  '- client_secret_file: the file with the secret that the sidecar has, too.',
  '- tiers: what only reads is let through on terms; she is asked about each call of everything else,',
  '  also of what nobody has described. Names, purposes and prohibitions are hers: write them with her.',
  'Each item is made once, ever; what she has changed since is left alone.',
]

/** The YAML of a provisioning file, which is judged at the start like a file that a person wrote. */
export function proposedProvision(
  servers: readonly ProvisionedFrom[],
  notes: readonly string[] = [],
): string {
  const owners = [...Map.groupBy(servers, ({ owner }) => owner)].map(([owner, own]) => {
    const resources = own.flatMap(resourcesOf)
    const isReading = ({ consequence }: Resource): boolean => consequence === 'reversible'
    return {
      owner,
      resource_servers: own.map(({ client_id, name, client_secret_file, resource_uri }) => ({
        client_id,
        name,
        client_secret_file,
        resource_uri,
      })),
      resources,
      tiers: [
        ...tierOf('reading', resources.filter(isReading)),
        ...tierOf(
          'asking',
          resources.filter(one => !isReading(one)),
        ),
      ],
    }
  })
  const comments = [...HEAD, ...notes].map(line => `# ${line.replaceAll(/[\r\n]+/g, ' ')}\n`)
  return comments.join('') + stringify({ owners }, { lineWidth: 0 })
}

interface Resource {
  id: string
  client_id: string
  name: string
  resource_scopes: string[]
  consequence?: string
}

/** A resource with a tool that nobody has described is not described as milder than it may be. */
function resourcesOf({ client_id, tools }: ProvisionedFrom): Resource[] {
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

function tierOf(kind: 'reading' | 'asking', resources: readonly Resource[]): object[] {
  if (resources.length === 0) return []
  const scope = [...new Set(resources.flatMap(({ resource_scopes }) => resource_scopes))]
  const ids = resources.map(({ id }) => id)
  return kind === 'reading'
    ? [
        {
          id: 'reading',
          name: 'Reading',
          resources: ids,
          terms: {
            purpose: 'Read what I ask you about',
            scope,
            expires_in: READING_SECONDS,
            prohibited: ['training models on it'],
          },
        },
      ]
    : [
        {
          id: 'asking',
          name: 'Asked each time',
          resources: ids,
          ask_me: true,
          terms: { purpose: 'Do the one thing that was asked for', scope, expires_in: ASKED_SECONDS },
        },
      ]
}
