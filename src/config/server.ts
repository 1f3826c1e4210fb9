/**
 * Owns the settings that all processes with a public issuer and a database have in common: `usher authority`,
 * `usher organization`, `usher tally`, `usher witness`. Contract: "Limits" and "Versioning" (keys are the
 * operator's to rotate).
 */
import { IDLE_SECONDS } from '../http/servers/connection-bounds.ts'
import type { TraceExport } from '../http/telemetry/otlp.ts'
import type { RealmPolicy } from '../rules/owner-token.ts'
import type { PrivateKey } from '../wire/signatures/keys.ts'
import { readCertificates, readKeysFile, type NamedCertificates } from './files.ts'
import {
  defaulted,
  filePath,
  insecureUrlFault,
  logLevel,
  optional,
  required,
  signingAlg,
  toggle,
  url,
  wholeNumber,
  type Values,
} from './settings.ts'

type Prefix = 'UMA_AS' | 'UMA_ORG' | 'UMA_TALLY' | 'UMA_WITNESS'

/** These settings, by the prefix of their variables. `drainAlso` is further text about draining. */
export function serverSettings(prefix: Prefix, { drainAlso = '' }: { drainAlso?: string } = {}) {
  return {
    issuer: required(`${prefix}_ISSUER`, url, {
      description:
        'The public base URL: the `iss` of everything signed, and the scheme and authority of every signature base.',
    }),
    keysFile: required(`${prefix}_KEYS_FILE`, filePath, {
      description:
        'Private signing keys as `{"keys": [JWK, …]}`, the same for all replicas; the first signs, all are published.',
    }),
    signingAlg,
    drainMs: defaulted(`${prefix}_DRAIN_MS`, wholeNumber(0, 300_000), '5000', {
      description: `On SIGTERM: how long to keep answering while \`/health\` says 503 and every answer closes its connection.${drainAlso}`,
      unit: 'milliseconds',
    }),
    idleSeconds: defaulted(`${prefix}_IDLE_SECONDS`, wholeNumber(1, 4_000), String(IDLE_SECONDS), {
      description:
        'How long a connection may be idle between two requests. Longer than the balancer in front keeps one, or a request now and then meets a connection that is just closing (a 502): numbers of common balancers are in operating.md.',
      unit: 'seconds',
    }),
    tlsCertFile: optional(`${prefix}_TLS_CERT_FILE`, filePath, {
      description:
        'Certificate chain, PEM, for both listeners; without it they speak plain HTTP behind your proxy.',
    }),
    tlsKeyFile: optional(`${prefix}_TLS_KEY_FILE`, filePath, {
      description: 'Private key of that certificate, PEM.',
    }),
    sweepSeconds: defaulted(`${prefix}_SWEEP_SECONDS`, wholeNumber(1, 3600), '60', {
      description: 'Pause between two sweeps of rows that no answer can depend on any more.',
      unit: 'seconds',
    }),
    devLoopback: defaulted('UMA_DEV_LOOPBACK', toggle, 'false', {
      description: 'Development only: admits http and loopback addresses, for literal loopback hosts.',
    }),
    logLevel: defaulted(`${prefix}_LOG_LEVEL`, logLevel, 'info', {
      description: 'Least severe log line written.',
    }),
  }
}

type ServerSettingValues = Omit<Values<ReturnType<typeof serverSettings>>, 'sweepSeconds'>

/** The faults of their combination. */
export function serverFaults(prefix: Prefix, values: ServerSettingValues): string[] {
  const { issuer, devLoopback, tlsCertFile, tlsKeyFile } = values
  return [
    ...insecureUrlFault(`${prefix}_ISSUER`, issuer, devLoopback),
    ...(new URL(issuer).origin === issuer
      ? []
      : [`${prefix}_ISSUER: give scheme and authority only; its documents are served at the root.`]),
    ...((tlsCertFile === undefined) === (tlsKeyFile === undefined)
      ? []
      : [`Set both ${prefix}_TLS_CERT_FILE and ${prefix}_TLS_KEY_FILE, or neither.`]),
  ]
}

/** The rest of such a process's configuration. */
export interface ServerFiles {
  keys: PrivateKey[]
  /** The file as it was read at the start, with its path for reading it again. */
  tls: NamedCertificates<'cert' | 'key'> | undefined
  /** Requirements for people's access tokens; undefined if `oidc` is not among the accepted credentials. */
  realm: RealmPolicy | undefined
  /** How traces are exported, as the environment says; undefined if they are off. */
  traces: TraceExport | undefined
}

/**
 * Reads the files that the settings name into `config`, one task for each: all of them are tried, so that
 * every fault is reported.
 */
export function serverFileTasks(
  prefix: Prefix,
  values: ServerSettingValues,
  config: Pick<ServerFiles, 'keys' | 'tls'>,
): (() => void)[] {
  const { keysFile, tlsCertFile, tlsKeyFile } = values
  return [
    () => {
      config.keys = readKeysFile(`${prefix}_KEYS_FILE`, keysFile, values.signingAlg)
    },
    () => {
      if (tlsCertFile === undefined || tlsKeyFile === undefined) return
      config.tls = readCertificates({
        cert: [`${prefix}_TLS_CERT_FILE`, tlsCertFile],
        key: [`${prefix}_TLS_KEY_FILE`, tlsKeyFile],
      })
    },
  ]
}
