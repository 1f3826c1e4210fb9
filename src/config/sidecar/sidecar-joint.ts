/**
 * Owns what the sidecar's file says about a jointly held account. Contract: "Tally for a jointly held
 * resource" and "Authorized call": whose verdicts count is configured, never taken from a grant.
 */
import { duplicates } from '../issues.ts'
import type { OwnedResource, SidecarFileOwner } from './sidecar-file.ts'

/** The tally that answers for the account, and the mandates that count. */
export interface SidecarJoint {
  tally: string
  pinned: string[] | 'any'
}

/** All its faults, as sentences. */
export function jointFaults({ owner, authority, joint, ...rest }: OwnedResource): string[] {
  if (joint === undefined)
    return authority === undefined ? [`owner ${owner}: give the authority, or joint.`] : []
  const at = `joint of ${owner}`
  const { organization, register, tools, namespaces } = rest
  const { account, mandate_s256 } = joint
  return [
    ...(authority === undefined ? [] : [`${at}: leave authority out: the tally takes its place.`]),
    ...(account === owner ? [] : [`${at}.account: give ${owner}, as owner says.`]),
    ...(organization === undefined ? [] : [`${at}: leave organization out: no account is under one.`]),
    ...(register ? [`${at}: leave register out: a tally knows its resource servers by provisioning.`] : []),
    ...(namespaces.length === 0 ? [] : [`${at}: leave namespaces out: no mandate covers them.`]),
    ...tools
      .filter(({ resource_id }) => !resource_id.startsWith(`${account}/`))
      .map(({ tool }) => `${at}: the resource_id of ${tool} must start with ${account}/.`),
    ...tools
      .filter(({ owner_approval }) => owner_approval !== undefined)
      .map(({ tool }) => `${at}: leave owner_approval of ${tool} out: its holders sign verdicts.`),
    ...(mandate_s256 === 'any' ? [] : duplicates(mandate_s256)).map(
      digest => `${at}.mandate_s256: ${digest} is listed twice.`,
    ),
  ]
}

/** The owner, with the tally as her authority if there is one. Call this only if there is no fault. */
export function withAuthority(written: OwnedResource): SidecarFileOwner {
  return { ...written, authority: written.joint?.tally ?? written.authority! }
}

/** The facts that a route needs about it. */
export function loadJoint({ joint }: SidecarFileOwner): SidecarJoint | undefined {
  return joint && { tally: joint.tally, pinned: joint.mandate_s256 }
}
