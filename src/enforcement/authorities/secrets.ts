/**
 * Owns the look at client secrets before anything is served. Contract: "Protection access token (PAT)": a
 * wrong secret is a fault of the configuration, and is found when the process starts and not by its callers.
 */
import type { Logger } from '../../http/telemetry/log.ts'
import { deadlineAt } from '../deadline.ts'
import type { AuthorityClient } from './authority-client.ts'
import { refusedCredential } from './pat.ts'

/** For all of them together: an authority that is away holds no start up for longer. */
const ALL_MS_MAX = 1_000
/** So many are asked about at a time. */
const AT_ONCE = 8

/**
 * Presents each client's secret to its authority. A refused secret is logged with its owner; a check that is
 * not finished in time is passed over, because an outage must not prevent a start.
 * @param clients those that prove themselves by a secret. @param inAll how many owners are served.
 * @throws Error if every owner's secret is refused, so that nothing could be served. One owner's alone
 * does not end the process: the others are served.
 */
export async function checkSecrets(
  clients: readonly AuthorityClient[],
  { inAll, logger }: { inAll: number; logger: Pick<Logger, 'error'> },
): Promise<void> {
  const clock = (): number => performance.now()
  const until = clock() + ALL_MS_MAX
  const refused: string[] = []
  for (let i = 0; i < clients.length && clock() < until; i += AT_ONCE) {
    const checks = clients.slice(i, i + AT_ONCE).map(async client => {
      const fault = await faultOf(client, () => client.prove(deadlineAt(until, clock)))
      if (fault !== undefined) refused.push(fault)
    })
    await Promise.all(checks)
  }
  if (refused.length > 0 && refused.length === inAll) throw new Error(refused.join(' '))
  for (const fault of refused) logger.error(fault)
}

async function faultOf(
  { of: { owner, client_id, authority } }: AuthorityClient,
  prove: () => Promise<void>,
): Promise<string | undefined> {
  try {
    await prove()
    return undefined
  } catch (error) {
    const reason = refusedCredential(error)
    if (reason === undefined) return undefined
    return `client_secret (or client_secret_file) of ${owner}: ${authority} does not take it for the client_id ${client_id} (${reason}). Give the secret that this authority has for ${client_id} of ${owner}, or correct client_id or owner.`
  }
}
