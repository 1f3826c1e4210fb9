/**
 * Owns what is wrong with a sidecar's file beyond the form of each member: what is listed twice, contradicts
 * another, or is reached without TLS. Contract: "Resource server enforcement point".
 */
import { publishedFaults } from './sidecar-published.ts'
import { formatListenAddress, isLocalAddress } from '../../http/servers/listen-address.ts'
import { templateShape } from '../../wire/resources/http-operation.ts'
import { isLoopbackHost } from '../../wire/loopback.ts'
import { isBelow } from '../../wire/resources/owner-resources.ts'
import { duplicates } from '../issues.ts'
import { namespaceFaults } from '../provisioning/namespaces.ts'
import type { SidecarFile, WrittenOwner } from './sidecar-file.ts'
import { methodFaults } from './sidecar-methods.ts'
import { organizationFaults } from './sidecar-organization.ts'
import { partFaults } from './sidecar-parts.ts'
import { clientFaults } from './sidecar-resources.ts'

/** Every fault of the file as a whole. `written` are its owners as the file has them. */
export function sidecarFaults(
  document: SidecarFile,
  written: readonly WrittenOwner[],
  devLoopback: boolean,
): string[] {
  return [
    ...duplicates(written.map(({ owner }) => owner)).map(owner => `owners: ${owner} is listed twice.`),
    ...namespaceFaults(written),
    ...duplicates(document.owners.map(({ path }) => path)).map(
      path => `owners: two resources have the path ${path}.`,
    ),
    ...clientFaults(document.owners),
    ...document.owners.flatMap(owner => methodFaults(owner, document.open_methods)),
    ...addressFaults(document),
    ...(document.deadline_ms > document.deadline_margin_ms
      ? []
      : ['deadline_ms: give more than deadline_margin_ms, else no check is ever in time.']),
    ...[
      document.public_url,
      ...document.owners.flatMap(({ authority, organization }) => [
        authority,
        ...(organization ? [organization.issuer] : []),
      ]),
      ...document.authorities.flatMap(({ addresses }) => addresses),
    ]
      .filter(text => !isSecure(text, devLoopback))
      .map(
        text =>
          `${text} is not https. Give an https URL. (UMA_DEV_LOOPBACK=true admits http to literal loopback hosts, for development.)`,
      ),
  ]
}

export function gatewayFaults({ listen, check_tls, check_http, network_trusted }: SidecarFile): string[] {
  const exposed = (['check', 'check_http'] as const).flatMap(name => {
    const address = listen[name]
    if (address === undefined || isLocalAddress(address) || check_tls !== undefined || network_trusted)
      return []
    return [
      `listen.${name}: ${formatListenAddress(address)} can be reached from outside this machine, and anybody who reaches it can spend ` +
        'grants. Listen on loopback or a Unix socket, set check_tls, or set network_trusted: true.',
    ]
  })
  if (check_http === undefined) return exposed
  const { method_header, uri_header, length_header, peer_header, body_header } = check_http
  const names = [method_header, uri_header, length_header, peer_header, body_header]
  return [
    ...exposed,
    ...(listen.check_http === undefined
      ? ['check_http: give listen.check_http, too, or leave this out.']
      : []),
    ...((method_header === undefined) === (uri_header === undefined)
      ? []
      : ['check_http: give both method_header and uri_header, or neither.']),
    ...duplicates(names.filter(name => name !== undefined)).map(
      name => `check_http: ${name} is listed twice; each header says one thing.`,
    ),
  ]
}

function addressFaults({ authorities, owners }: SidecarFile): string[] {
  const issuers = authorities.map(({ issuer }) => issuer)
  return [
    ...duplicates(issuers).map(issuer => `authorities: ${issuer} is listed twice.`),
    ...issuers
      .filter(issuer => !owners.some(({ authority }) => authority === issuer))
      .map(issuer => `authorities: ${issuer} is no authority of any of the owners.`),
    ...authorities
      .filter(({ issuer, addresses }) => addresses.length > 0 && URL.parse(issuer)?.origin !== issuer)
      .map(({ issuer }) => `authorities: ${issuer} has a path: leave addresses out, which have none.`),
    ...authorities.flatMap(({ issuer, addresses }) =>
      duplicates(addresses).map(address => `authorities: ${issuer} has the address ${address} twice.`),
    ),
  ]
}

export function ownerFaults(owner: SidecarFile['owners'][number], publicUrl: string): string[] {
  const credentials = [owner.client_secret, owner.client_secret_file, owner.signature].filter(
    value => value !== undefined,
  )
  const faults = duplicates(owner.tools.map(({ tool }) => tool)).map(
    tool => `tools of ${owner.at}: ${tool} is listed twice.`,
  )
  if (credentials.length !== 1) {
    faults.push(
      `owner ${owner.at}: give exactly one of client_secret, client_secret_file and signature: true.`,
    )
  }
  if (!owner.register && owner.client_id === undefined)
    faults.push(`owner ${owner.at}: give the client_id, or register: true.`)
  if (owner.register && owner.signature === undefined)
    faults.push(`owner ${owner.at}: register: true needs signature: true.`)
  const resource = publicUrl + owner.path
  if (owner.register && owner.client_id !== undefined && owner.client_id !== resource)
    faults.push(`owner ${owner.at}: with register: true the client_id is ${resource}; leave it out.`)
  for (const { tool, resource_id } of owner.tools) {
    if (!isBelow(resource_id, [owner.owner, ...owner.namespaces])) {
      faults.push(
        `tools of ${owner.at}: the resource_id of ${tool} must start with ${owner.owner}/ or one of her namespaces, and continue.`,
      )
    }
  }
  return [
    ...faults,
    ...organizationFaults(owner),
    ...tableFaults(owner),
    ...partFaults(owner),
    ...publishedFaults(owner, resource),
  ]
}

function tableFaults({ at, api = [], tools }: SidecarFile['owners'][number]): string[] {
  const names = tools.map(({ tool }) => tool)
  const shapes = api.map(({ method, path }) => `${method} ${templateShape(path)}`)
  return [
    ...api
      .filter(({ tool }) => !names.includes(tool))
      .map(
        ({ method, path, tool }) => `api of ${at}: ${method} ${path} names ${tool}, which is none of tools.`,
      ),
    ...duplicates(shapes).map(shape => `api of ${at}: ${shape} is listed twice; one path must be one tool.`),
    ...(api.length === 0 ? [] : names)
      .filter(name => !api.some(({ tool }) => tool === name))
      .map(name => `api of ${at}: no method and path is ${name}; add one, or leave the tool out.`),
  ]
}

function isSecure(text: string, devLoopback: boolean): boolean {
  const { protocol, hostname } = new URL(text)
  return protocol === 'https:' || (devLoopback && isLoopbackHost(hostname))
}
