/**
 * Owns what the sidecar's file says about the organization above an owner. Contract: "Authorized call" (the
 * organization's ceiling) and "Authentication" (the credential that the organization provisioned):
 * configured, never taken from a request.
 */
import { patternFault } from '../../rules/organization/charter-patterns.ts'
import { isBelow } from '../../wire/resources/owner-resources.ts'
import { readSecretFile } from '../files.ts'
import { ConfigFault } from '../settings.ts'
import type { SidecarFile } from './sidecar-file.ts'

type FileOwner = SidecarFile['owners'][number]

/**
 * The organization to ask about an owner's resources of certain patterns, and how this enforcement point
 * proves itself there.
 */
export interface SidecarOrganization {
  issuer: string
  resources: string[]
  credential: { kind: 'secret'; secret: string } | { kind: 'signature' }
}

/** All its faults, as sentences. */
export function organizationFaults({ owner, namespaces, authority, organization }: FileOwner): string[] {
  if (organization === undefined) return []
  const at = `organization of ${owner}`
  const { issuer, resources, credential, credential_file, signature } = organization
  const credentials = [credential, credential_file, signature].filter(value => value !== undefined)
  return [
    ...(credentials.length === 1
      ? []
      : [`${at}: give exactly one of credential, credential_file and signature: true.`]),
    ...(issuer === authority ? [`${at}: it cannot be the authority of ${owner}, too.`] : []),
    ...(credential === undefined ? [] : credentialFaults(credential, `${at}.credential`)),
    ...resources.flatMap((pattern, i) => {
      const fault = patternFault(pattern)
      if (fault !== undefined) return [`${at}.resources[${i}]: ${fault}.`]
      return isBelow(pattern, [owner, ...namespaces])
        ? []
        : [`${at}.resources[${i}]: it must start with ${owner}/ or one of her namespaces, and continue.`]
    }),
  ]
}

/** The same, with the contents of its file. Throws `ConfigFault`. */
export function loadOrganization({ owner, organization }: FileOwner): SidecarOrganization | undefined {
  if (organization === undefined) return undefined
  const { issuer, resources, credential, credential_file } = organization
  const name = `organization of ${owner}: credential_file`
  const secret = credential_file === undefined ? credential : readSecretFile(name, credential_file)
  const faults = secret === undefined ? [] : credentialFaults(secret, name)
  if (faults.length > 0) throw new ConfigFault(faults)
  return {
    issuer,
    resources,
    credential: secret === undefined ? { kind: 'signature' } : { kind: 'secret', secret },
  }
}

/** RFC 6750 §2.1, b64token: what can be sent after Bearer. */
function credentialFaults(text: string, at: string): string[] {
  return /^[A-Za-z0-9\-._~+/]{1,1024}=*$/.test(text)
    ? []
    : [`${at}: give 1 to 1024 of the characters A-Z a-z 0-9 - . _ ~ + /.`]
}
