/**
 * Owns the look at client secrets, and at the keys in their place, before anything is served. Contract:
 * "Protection access token (PAT)": a wrong one is a fault of the configuration, and is found when the process
 * starts and not by its callers.
 */
import type { SidecarOwner } from '../../config.ts'
import { OutboundFault } from '../../http/outbound/outbound.ts'
import type { Logger } from '../../http/telemetry/log.ts'
import { deadlineAt } from '../deadline.ts'
import type { AuthorityClient } from './authority-client.ts'
import { refusedCredential, type PatCredential } from './pat.ts'

/** For all of them together: an authority that is away holds no start up for longer. */
const ALL_MS_MAX = 1_000
/** So many are asked about at a time. */
const AT_ONCE = 8
/** By these codes a certificate is by a CA that is not trusted here, which no later try mends. */
const UNKNOWN_CA: ReadonlySet<string> = new Set([
  'DEPTH_ZERO_SELF_SIGNED_CERT',
  'SELF_SIGNED_CERT_IN_CHAIN',
  'UNABLE_TO_GET_ISSUER_CERT_LOCALLY',
  'UNABLE_TO_VERIFY_LEAF_SIGNATURE',
])

/** What to do about such a certificate. */
export const UNKNOWN_CA_REMEDY = 'Name that CA in authority_ca_file, or in NODE_EXTRA_CA_CERTS.'

/**
 * Whether its authority's file declares it, so that what proves it can be judged at once. One that registers
 * itself has its resource, or the origin of that, as client_id, and proves itself by keys that it does not
 * serve yet.
 */
export function isDeclared(
  { credential, register, client_id }: Pick<SidecarOwner, 'credential' | 'register' | 'client_id'>,
  resource: string,
): boolean {
  if (credential.kind === 'secret') return true
  const published: readonly string[] = [resource, new URL(resource).origin]
  return register === undefined && !published.includes(client_id)
}

/** A client of an authority, and how it proves itself there. */
interface ProvingClient {
  client: Pick<AuthorityClient, 'of' | 'prove'>
  kind: PatCredential['kind']
  /** Whether the authority is the tally of an account. */
  isJoint: boolean
}

const AT_AUTHORITY = { party: 'authority', file: 'UMA_AS_PROVISION', reread: 'send that authority SIGHUP' }
/** It reads its file at the start alone: SIGHUP would end it. */
const AT_TALLY = { party: 'tally', file: 'UMA_TALLY_PROVISION', reread: 'restart that tally' }

/**
 * Presents what each client proves itself by to its authority. What is refused is logged with its owner; a
 * check that is not finished in time is passed over, because an outage must not prevent a start. An authority
 * whose certificate is not trusted here is warned of once, because nothing of it would be told before a call.
 * @param clients those that the authority's file declares. @param inAll how many owners are served.
 * @throws Error if every owner's is refused, so that nothing could be served. One owner's alone does not end
 * the process: the others are served.
 */
export async function checkSecrets(
  clients: readonly ProvingClient[],
  { inAll, logger }: { inAll: number; logger: Pick<Logger, 'error' | 'warn'> },
): Promise<void> {
  const clock = (): number => performance.now()
  const until = clock() + ALL_MS_MAX
  const refused: string[] = []
  const untrusted = new Map<string, string>()
  const judge = (one: ProvingClient, error: unknown): void => {
    const fault = faultOf(one, error)
    if (fault !== undefined) refused.push(fault)
    const code = unknownCaOf(error)
    if (code !== undefined) untrusted.set(one.client.of.authority, code)
  }
  for (let i = 0; i < clients.length && clock() < until; i += AT_ONCE) {
    const checks = clients
      .slice(i, i + AT_ONCE)
      .map(one => one.client.prove(deadlineAt(until, clock)).catch((error: unknown) => judge(one, error)))
    await Promise.all(checks)
  }
  if (refused.length > 0 && refused.length === inAll) throw new Error(refused.join(' '))
  for (const fault of refused) logger.error(fault)
  for (const [authority, code] of untrusted)
    logger.warn(
      `${authority}: its certificate is by a CA that is not known here (${code}), so that no call can be let through. ${UNKNOWN_CA_REMEDY}`,
    )
}

function faultOf({ client, kind, isJoint }: ProvingClient, error: unknown): string | undefined {
  const { owner, client_id, authority } = client.of
  const reason = refusedCredential(error)
  if (reason === undefined) return undefined
  const refused = `${authority} does not take it for the client_id ${client_id} (${reason}).`
  const { party, file, reread } = isJoint ? AT_TALLY : AT_AUTHORITY
  if (kind === 'secret')
    return `client_secret (or client_secret_file) of ${owner}: ${refused} Give the secret that this ${party} has for ${client_id} of ${owner}, correct client_id or owner, or, if the file of ${file} was changed for them, ${reread}.`
  const signing = `keys_file, whose first key signs for ${owner} (signature: true): ${refused}`
  return isJoint
    ? `${signing} A tally takes no signature: leave signature out, and give the secret that the file of ${file} has for ${client_id} (client_secret or client_secret_file).`
    : `${signing} List its public half (\`usher keys public\` prints it) in jwks of the file of ${file} and ${reread}, or correct client_id or owner.`
}

/**
 * The code by which the certificate of an authority is not trusted here; undefined for any other error.
 * @param error the fault of the request, or what it caused.
 */
export function unknownCaOf(error: unknown): string | undefined {
  const fault = error instanceof Error && !(error instanceof OutboundFault) ? error.cause : error
  const cause = fault instanceof OutboundFault ? fault.cause : undefined
  const { code } = (cause ?? {}) as { code?: unknown }
  return typeof code === 'string' && UNKNOWN_CA.has(code) ? code : undefined
}
