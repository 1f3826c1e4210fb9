/**
 * Owns the settings that all servers of the authorization server surface share: `usher authority`,
 * `usher tally`. Contract: "Limits" and "Permission ticket".
 */
import {
  type Values,
  agentIssuers,
  defaulted,
  insecureUrlFault,
  optional,
  toggle,
  url,
  wholeNumber,
} from './settings.ts'
import { DEFAULT_SPEC_NS } from '../wire/names.ts'

const DAY_SECONDS = 86_400

interface SurfaceDefaults {
  /** Who decides while a ticket waits, and how long an agent is asked to wait between polls. */
  waitsFor: string
  pollSeconds: number
  /** The longest duration that a negotiation may be given. */
  negotiationDaysMax: number
}

/** These settings, by the prefix of their variables. */
export function surfaceSettings(
  prefix: 'UMA_AS' | 'UMA_TALLY',
  { waitsFor, pollSeconds, negotiationDaysMax }: SurfaceDefaults,
) {
  return {
    notifies: defaulted(`${prefix}_NOTIFY`, toggle, 'true', {
      description:
        'Replicas wake one another by LISTEN and NOTIFY of Postgres. `false`, for an engine without them: each looks once a second.',
    }),
    reasonBytesMax: defaulted(`${prefix}_MAX_REASON`, wholeNumber(0, 16_384), '512', {
      description: 'Longest `reason` in an agreement.',
      unit: 'bytes of UTF-8',
    }),
    agentIssuers: optional(`${prefix}_AGENT_ISSUERS`, agentIssuers, {
      description:
        'Issuers whose agent tokens are accepted, by their exact URLs, separated by commas; nothing is fetched from any other. None when left out.',
    }),
    ticketSeconds: defaulted(`${prefix}_TICKET_SECONDS`, wholeNumber(10, 3600), '300', {
      description: 'Life of a permission ticket.',
      unit: 'seconds',
    }),
    awaitingSeconds: defaulted(`${prefix}_AWAITING_SECONDS`, wholeNumber(10, 7 * DAY_SECONDS), '3600', {
      description: `Life of a ticket that waits for ${waitsFor}, from each poll.`,
      unit: 'seconds',
    }),
    negotiationSeconds: defaulted(
      `${prefix}_NEGOTIATION_SECONDS`,
      wholeNumber(60, negotiationDaysMax * DAY_SECONDS),
      String(7 * DAY_SECONDS),
      { description: 'Life of a whole negotiation.', unit: 'seconds' },
    ),
    pollSeconds: defaulted(`${prefix}_POLL_SECONDS`, wholeNumber(0, 60), String(pollSeconds), {
      description: 'The `interval` an agent is asked to wait between polls.',
      unit: 'seconds',
    }),
    patSeconds: defaulted(`${prefix}_PAT_SECONDS`, wholeNumber(120, DAY_SECONDS), '3600', {
      description: 'Life of a protection access token; clients renew 60 seconds early.',
      unit: 'seconds',
    }),
    specNs: defaulted('UMA_SPEC_NS', url, DEFAULT_SPEC_NS, {
      description: 'The base of identifier URIs, `{spec_ns}`; the same for every party.',
    }),
  }
}

/** Their faults. */
export function surfaceFaults(
  prefix: 'UMA_AS' | 'UMA_TALLY',
  values: Pick<Values<ReturnType<typeof surfaceSettings>>, 'agentIssuers'> & { devLoopback: boolean },
): string[] {
  return (values.agentIssuers ?? []).flatMap(issuer =>
    insecureUrlFault(`${prefix}_AGENT_ISSUERS`, issuer, values.devLoopback),
  )
}
