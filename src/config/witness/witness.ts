/**
 * Owns the settings of `usher witness`. Contract: "Limits" and "Events" (row 5).
 */
import { isNoteKeyName } from '../../wire/ledger/signed-note.ts'
import { databaseUrl } from '../database.ts'
import { collectFaults } from '../files.ts'
import { loadWitnessFile, type ListedIssuer } from './witness-file.ts'
import { serverFaults, serverFileTasks, serverSettings, type ServerFiles } from '../server.ts'
import {
  defaulted,
  defineSettings,
  filePath,
  listenAddress,
  required,
  toggle,
  wholeNumber,
  type Values,
} from '../settings.ts'

/** It keeps everything, and so there is nothing to sweep. */
const { sweepSeconds: _sweepSeconds, ...served } = serverSettings('UMA_WITNESS')

const identity = {
  issuer: required('UMA_WITNESS_ISSUER', served.issuer.kind, {
    description:
      'The public base URL, at which logs send `POST /add-checkpoint`. Without its scheme it is the name of the keys in cosignatures.',
  }),
  keysFile: required('UMA_WITNESS_KEYS_FILE', filePath, {
    description:
      'Private signing keys as `{"keys": [JWK, …]}`, the same for all replicas, and for nothing else. All of them cosign, so that a new one is known before an old one is taken out.',
  }),
  signingAlg: served.signingAlg,
}

export const WITNESS_SETTINGS = defineSettings({
  title: 'usher witness',
  settings: {
    ...served,
    ...identity,
    databaseUrl,
    databaseWaitSeconds: defaulted('UMA_WITNESS_DATABASE_WAIT_SECONDS', wholeNumber(0, 3600), '30', {
      description: 'How long a start waits for the database before it gives up.',
      unit: 'seconds',
    }),
    listen: defaulted('UMA_WITNESS_LISTEN', listenAddress, '127.0.0.1:9500', {
      description: 'Address that serves the authorities whose logs are taken.',
    }),
    metricsListen: defaulted('UMA_WITNESS_METRICS_LISTEN', listenAddress, '127.0.0.1:9502', {
      description: 'Address that serves `/metrics`, in plain HTTP, for operators only. It names nobody.',
    }),
    logsFile: required('UMA_WITNESS_LOGS', filePath, {
      description:
        'YAML that lists the authorities whose logs are taken, with the keys of those logs, as it stands at the start.',
    }),
    migrate: defaulted('UMA_WITNESS_MIGRATE', toggle, 'true', {
      description: 'Bring the database up to date at the start; otherwise run `usher witness migrate` first.',
    }),
    poolMax: defaulted('UMA_WITNESS_POOL_MAX', wholeNumber(2, 500), '10', {
      description: 'Maximum number of connections to Postgres that one process holds.',
      unit: 'connections',
    }),
  },
  check: values => [...serverFaults('UMA_WITNESS', values), ...nameFaults(values.issuer)],
})

/** The settings that `usher witness keys` needs. */
export const WITNESS_KEYS_SETTINGS = defineSettings({
  title: 'usher witness keys',
  settings: identity,
  check: values => nameFaults(values.issuer),
})

/** The settings that `usher witness migrate` needs. */
export const WITNESS_MIGRATION_SETTINGS = defineSettings({
  title: 'usher witness migrate',
  settings: { databaseUrl, databaseWaitSeconds: WITNESS_SETTINGS.settings.databaseWaitSeconds },
})

/** The configuration of `usher witness`: its settings, and the contents of the files they name. */
export interface WitnessConfig extends Values<typeof WITNESS_SETTINGS.settings>, ServerFiles {
  /** The name of its keys. */
  name: string
  issuers: ListedIssuer[]
}

/** The name of a witness's keys: its address without the scheme. */
export function witnessName(issuer: string): string {
  return issuer.replace(/^https?:\/\//, '')
}

function nameFaults(issuer: string): string[] {
  return isNoteKeyName(witnessName(issuer))
    ? []
    : ['UMA_WITNESS_ISSUER: give one without space and `+`, which no name of a key may have.']
}

/** Loads the files that the settings name. Throws `ConfigFault`. */
export function loadWitnessFiles(values: Values<typeof WITNESS_SETTINGS.settings>): WitnessConfig {
  const config: WitnessConfig = {
    ...values,
    name: witnessName(values.issuer),
    keys: [],
    tls: undefined,
    issuers: [],
    realm: undefined,
    traces: undefined,
  }
  collectFaults<void>([
    ...serverFileTasks('UMA_WITNESS', values, config),
    () => {
      config.issuers = loadWitnessFile(values.logsFile, values)
    },
  ])
  return config
}
