/**
 * Owns what `usher doctor` checks for an enforcement point. Contract: "Resource server enforcement point",
 * "Protection access token (PAT)".
 */
import type { SidecarConfig } from '../config.ts'
import type { Outbound } from '../http/outbound/outbound.ts'
import { WELL_KNOWN } from '../wire/names.ts'
import { signingKeys } from '../wire/signatures/keys.ts'
import { answererOf, checkBodies, checkProof, checkResource } from './checks.ts'
import { checkDoor } from './doors.ts'
import { COMPLETE, examinePeer, withOutbound, type Look } from './look.ts'
import { checkLeases, checkMandate, checkMembership } from './peers.ts'
import { examineTools } from './tools.ts'

/** Its settings and listeners, and, for each owner, the parties that must be there for her. */
export async function examineSidecar(look: Look, read: () => SidecarConfig): Promise<void> {
  const config = await look('settings', read, COMPLETE)
  if (config === undefined) return
  await examineDoors(look, config)
  const ca = config.authorityCa?.initial.ca
  const options = { devLoopback: config.devLoopback, ...(ca === undefined ? {} : { ca }) }
  await withOutbound(options, async outbound => {
    const document = WELL_KNOWN.umaConfiguration
    const joint = new Set(config.owners.flatMap(owner => owner.joint?.tally ?? []))
    for (const issuer of new Set(config.owners.map(owner => owner.authority)))
      await examinePeer(look, outbound, { issuer, document, ...answererOf(joint.has(issuer)) })
    if (config.liveness === 'leased')
      for (const issuer of leasingAuthorities(config))
        await look(`leases of ${issuer}`, () => checkLeases(outbound, { issuer }))
    for (const owner of config.owners) await examineServed(look, outbound, { config, owner })
  })
}

/** A tally is asked about every call. */
function leasingAuthorities({ owners }: SidecarConfig): Set<string> {
  return new Set(owners.filter(({ joint }) => joint === undefined).map(({ authority }) => authority))
}

async function examineDoors(look: Look, { listen, checkTls, httpTls }: SidecarConfig): Promise<void> {
  const { check, http } = listen
  if (checkTls !== undefined)
    await look('door of checks', () =>
      checkDoor({ address: check, setting: 'check_tls.cert_file', tls: checkTls.initial }),
    )
  if (httpTls !== undefined)
    await look('door of documents', () =>
      checkDoor({ address: http, setting: 'http_tls.cert_file', tls: httpTls.initial }),
    )
}

async function examineServed(
  look: Look,
  outbound: Outbound,
  { config, owner: served }: { config: SidecarConfig; owner: SidecarConfig['owners'][number] },
): Promise<void> {
  const { owner, path, authority, joint, organization } = served
  const resource = config.public_url + path
  // An owner may have several resources, each with a secret of its own: the path tells them apart.
  const isOneOfSeveral = config.owners.some(other => other !== served && other.owner === owner)
  const whose = isOneOfSeveral ? `${owner} at ${path}` : owner
  const isThere = await look(`resource of ${whose}`, () => checkResource(outbound, { resource, authority }))
  if (isThere !== undefined)
    await look(`bodies of ${whose}`, () =>
      checkBodies(outbound, { resource, bytesMax: config.body_bytes_max }),
    )
  await examineCredential(look, outbound, { config, served, resource, whose })
  if (joint !== undefined)
    await look(`mandate of ${owner}`, () =>
      checkMandate(outbound, { ...joint, account: owner, aliases: config.aliases }),
    )
  if (organization === undefined) return
  const { issuer, credential: proof } = organization
  const document = WELL_KNOWN.organization
  await examinePeer(look, outbound, {
    what: 'organization',
    issuer,
    document,
    setting: 'organization.issuer',
  })
  if (proof.kind === 'secret')
    await look(`credential of ${owner}`, () =>
      checkMembership(outbound, { issuer, owner, secret: proof.secret }),
    )
}

/** Its secret or key, and by the token that this gives, what its tools need. */
async function examineCredential(
  look: Look,
  outbound: Outbound,
  { config, served, resource, whose }: ServerLook,
): Promise<void> {
  const { owner, authority, client_id, credential, joint } = served
  const server = { authority, owner, client_id, resource, isJoint: joint !== undefined }
  const proof =
    credential.kind === 'secret' ? credential : { kind: credential.kind, key: signingKeys(config.keys)[0] }
  const found = await look(
    `${proof.kind === 'secret' ? 'secret' : 'key'} of ${whose}`,
    () => checkProof(outbound, server, proof),
    ({ finding }) => finding,
  )
  // One that was refused is one fault, and would be the same one for every tool.
  if (found?.pat !== undefined) await examineTools(look, outbound, { served, whose, pat: found.pat })
}

interface ServerLook {
  config: SidecarConfig
  served: SidecarConfig['owners'][number]
  resource: string
  whose: string
}
