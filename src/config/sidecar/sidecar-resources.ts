/**
 * Owns which resources each owner in a sidecar's file has: her own, or those that the file lists for
 * everybody. Contract: "Resource server enforcement point" (documents, per owner), "Authorized call":
 * `{owner}` is replaced by a name that the file itself lists, never by what a request says.
 */
import { duplicates } from '../issues.ts'
import type {
  OwnedResource,
  SidecarResource,
  WrittenOwner,
  WrittenSidecarFile,
  WrittenTool,
} from './sidecar-file.ts'
import { namedTool, pairFaults } from './sidecar-parts.ts'

const OWNER = '{owner}'

/** All faults in the placement of resources, as sentences. */
export function placeFaults({ owners, resources: shared }: WrittenSidecarFile): string[] {
  const pinnedForAll = (shared ?? [])
    .flatMap(({ tools }) => tools)
    .filter(({ owner_approval: approval }) => approval !== undefined && !approval.keys_file.includes(OWNER))
    .map(
      ({ tool }) =>
        `resources: keys_file of owner_approval of ${tool} must hold {owner}: keys are one owner's, not everybody's.`,
    )
  const misplaced = owners.flatMap(entry => {
    const { owner, tools, resources } = entry
    if (resources === undefined && tools === undefined)
      return entry.api === undefined &&
        entry.methods === undefined &&
        entry.path === undefined &&
        shared !== undefined
        ? []
        : [`owner ${owner}: give her tools, or resources.`]
    if (resources === undefined) return []
    return (['tools', 'api', 'methods', 'path', 'name', 'upstream'] as const)
      .filter(member => entry[member] !== undefined)
      .map(member => `owner ${owner}: with resources, ${member} belongs into one of them.`)
  })
  const unpaired = [
    ...(shared ?? []).flatMap(({ tools }) => pairFaults(tools, 'resources')),
    ...owners.flatMap(({ owner, tools = [], resources = [] }) =>
      [tools, ...resources.map(one => one.tools)].flatMap(some => pairFaults(some, owner)),
    ),
  ]
  return [...pinnedForAll, ...misplaced, ...unpaired]
}

/**
 * Warnings, which do not stop the start: `resources` of the file that no owner gets, because every entry of
 * `owners` has its own. Whoever wrote them takes them for enforced, and they are served nowhere.
 */
export function placeWarnings({ owners, resources: shared }: WrittenSidecarFile): string[] {
  const someGetThem = owners.some(({ tools, resources }) => tools === undefined && resources === undefined)
  if (shared === undefined || someGetThem) return []
  return [
    'resources: no owner gets them, because every entry of owners has tools or resources of its own. ' +
      'Take tools and resources out of the entries of those who are to get them, or take resources out of the file.',
  ]
}

/** An entry for each resource of each owner. Call this only if `placeFaults` finds none. */
export function ownedResources({ owners, resources: shared = [] }: WrittenSidecarFile): OwnedResource[] {
  return owners.flatMap(entry => {
    const { owner, tools } = entry
    const listed = entry.resources ?? (tools === undefined ? shared : [{ ...ofOne(entry), tools }])
    return listed.map(resource => {
      const owned = { ...entry, ...proofOf(entry, resource), ...named(resource, entry) }
      const { resources: _resources, ...rest } = owned
      return { ...rest, at: listed.length === 1 ? owner : `${owner} at ${owned.path}` }
    })
  })
}

/** A sentence for each pair of an owner's resources that her authority could not distinguish. */
export function clientFaults(owned: readonly Pick<OwnedResource, 'owner' | 'client_id'>[]): string[] {
  const ids = owned.flatMap(({ owner, client_id }) =>
    client_id === undefined ? [] : [JSON.stringify([owner, client_id])],
  )
  return duplicates(ids).map(twice => {
    const [owner, client_id] = JSON.parse(twice) as [string, string]
    return `resources of ${owner}: two of them have the client_id ${client_id}. An authority knows each resource by its own.`
  })
}

/** The members of an owner with one resource about it. */
function ofOne({ path, api, methods, name, upstream }: WrittenOwner): Partial<SidecarResource> {
  return { path, api, methods, name, upstream }
}

/** How it proves itself: as its entry says, or as her entry says for all her resources. */
function proofOf(owner: WrittenOwner, resource: Partial<SidecarResource>) {
  const own = [resource.client_secret, resource.client_secret_file, resource.signature]
  const { client_secret, client_secret_file, signature } = own.some(one => one !== undefined)
    ? resource
    : owner
  return {
    client_secret,
    client_secret_file: client_secret_file?.replaceAll(OWNER, owner.owner),
    signature,
    register: resource.register ?? owner.register ?? false,
  }
}

/** The rest of the entry, with her name in place of the placeholder. */
function named(
  { path, name, api, methods, client_id, tools, upstream }: SidecarResource,
  entry: WrittenOwner,
) {
  const { owner } = entry
  const put = (text: string): string => text.replaceAll(OWNER, owner)
  const standard = api === undefined ? '/mcp/{owner}' : '/api/{owner}'
  return {
    path: put(path ?? standard),
    name,
    api,
    methods,
    upstream,
    client_id: client_id === undefined ? entry.client_id : put(client_id),
    tools: tools.map(tool =>
      namedTool({ ...tool, ...approvalOf(tool, put), resource_id: put(tool.resource_id) }),
    ),
  }
}

function approvalOf(
  { owner_approval: approval }: WrittenTool,
  put: (text: string) => string,
): Partial<WrittenTool> {
  if (approval === undefined) return {}
  return { owner_approval: { keys_file: put(approval.keys_file), state_dir: put(approval.state_dir) } }
}
