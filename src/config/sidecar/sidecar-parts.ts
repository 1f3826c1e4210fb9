/**
 * Owns what the sidecar's file says about a tool that is split by constant arguments. Contract: "Authorized
 * call" (the tool maps to a resource): which part a call is of is configured, and never asked of the agent.
 */
import { consequenceRank } from '../../rules/permission.ts'
import type { SidecarTool, WrittenTool } from './sidecar-file.ts'

/** A sentence for each entry that has only one of `when` and `as`, which belong together. */
export function pairFaults(tools: readonly WrittenTool[], at: string): string[] {
  return tools
    .filter(({ when, as }) => (when === undefined) !== (as === undefined))
    .map(({ tool }) => `tools of ${at}: give both when and as for ${tool}, or neither.`)
}

/** The tool under the name by which it is judged. Call this only if `pairFaults` finds none. */
export function namedTool({ when, as, ...rest }: WrittenTool): SidecarTool {
  if (when === undefined || as === undefined) return rest
  return { ...rest, tool: as, of: { tool: rest.tool, when } }
}

interface PartEntry {
  at: string
  api?: unknown
  tools: readonly SidecarTool[]
}

type PartTool = SidecarTool & { of: NonNullable<SidecarTool['of']> }

/** A sentence for each part of a tool that would let more through than the tool itself. */
export function partFaults({ at, api, tools }: PartEntry): string[] {
  const parts = tools.filter((one): one is PartTool => one.of !== undefined)
  if (parts.length > 0 && api !== undefined)
    return [`tools of ${at}: leave when out, a plain API is split by method and path.`]
  return parts.flatMap((part, index) => {
    const whole = tools.find(one => one.of === undefined && one.tool === part.of.tool)
    const faults = [
      ...(parts.some(({ of }) => of.tool === part.tool)
        ? [`is the name of a tool that is split itself: give another as.`]
        : []),
      ...parts
        .slice(0, index)
        .filter(other => other.of.tool === part.of.tool && !excludes(part, other))
        .map(other => `and ${other.tool} may fit one call: give both another constant at one place.`),
      ...(whole === undefined ? [] : laxerFaults(part, whole)),
    ]
    return faults.map(fault => `tools of ${at}: ${part.tool} ${fault}`)
  })
}

/** Whether no call fits both. */
function excludes({ of: { when } }: PartTool, { of: { when: other } }: PartTool): boolean {
  return Object.entries(when).some(
    ([pointer, constant]) => Object.hasOwn(other, pointer) && other[pointer] !== constant,
  )
}

/**
 * A call whose argument is misspelt or of another type is one of the whole tool, so nothing of the whole may
 * be milder than the part.
 */
function laxerFaults(part: PartTool, whole: SidecarTool): string[] {
  const [mild, grave] = [part.consequence, whole.consequence]
  const isGraver = mild !== undefined && grave !== undefined && consequenceRank(mild) > consequenceRank(grave)
  return [
    ...(part.resource_id === whole.resource_id
      ? [`needs another resource_id than ${whole.tool}, because a grant for one would cover the other.`]
      : []),
    ...((mild === undefined) === (grave === undefined)
      ? []
      : [`and ${whole.tool} both need a consequence, or neither: which of them is the milder?`]),
    ...(isGraver
      ? [
          `is graver than ${whole.tool}, which every call is that does not fit. Put the condition on the milder part.`,
        ]
      : []),
    ...(part.owner_approval !== undefined && whole.owner_approval === undefined
      ? [`has owner_approval, and ${whole.tool}, which every call is that does not fit, has none.`]
      : []),
  ]
}
