/**
 * Owns the settings of `usher tally`. Contract: "Limits" and "Tally for a jointly held resource".
 */
import { databaseUrl } from './database.ts'
import { collectFaults } from './files.ts'
import { serverFaults, serverFileTasks, serverSettings, type ServerFiles } from './server.ts'
import {
  choices,
  defaulted,
  defineSettings,
  filePath,
  listenAddress,
  optional,
  required,
  toggle,
  wholeNumber,
  type Values,
} from './settings.ts'
import { surfaceFaults, surfaceSettings } from './surface.ts'
import { loadTallyFile, type ProvisionedAccount } from './provisioning/tally-file.ts'
import { TALLY_ALIAS, type TallyAlias } from '../wire/names.ts'

export const TALLY_SETTINGS = defineSettings({
  title: 'usher tally',
  settings: {
    ...serverSettings('UMA_TALLY'),
    databaseUrl,
    databaseWaitSeconds: defaulted('UMA_TALLY_DATABASE_WAIT_SECONDS', wholeNumber(0, 3600), '30', {
      description: 'How long a start waits for the database before it gives up.',
      unit: 'seconds',
    }),
    listen: defaulted('UMA_TALLY_LISTEN', listenAddress, '127.0.0.1:9400', {
      description: 'Address that serves agents, resource servers and authorization servers of holders.',
    }),
    metricsListen: defaulted('UMA_TALLY_METRICS_LISTEN', listenAddress, '127.0.0.1:9402', {
      description: 'Address that serves `/metrics`, in plain HTTP, for operators only. It names nobody.',
    }),
    provisionFile: required('UMA_TALLY_PROVISION', filePath, {
      description:
        'YAML that declares the accounts, their holders, resources and resource servers, as it stands at the start.',
    }),
    migrate: defaulted('UMA_TALLY_MIGRATE', toggle, 'true', {
      description: 'Bring the database up to date at the start; otherwise run `usher tally migrate` first.',
    }),
    ...surfaceSettings('UMA_TALLY', { waitsFor: 'holders', pollSeconds: 2, negotiationDaysMax: 7 }),
    poolMax: defaulted('UMA_TALLY_POOL_MAX', wholeNumber(2, 500), '20', {
      description:
        'Maximum number of connections to Postgres that one process holds for negotiations. One account has at most half of them at a time.',
      unit: 'connections',
    }),
    callPoolMax: defaulted('UMA_TALLY_CALL_POOL_MAX', wholeNumber(2, 500), '16', {
      description:
        'Maximum number of connections that it holds for calls under way (introspect, consume), shared in the same way. One more is held for notifications.',
      unit: 'connections',
    }),
    aliases: optional(
      'UMA_TALLY_ALIASES',
      choices(Object.values(TALLY_ALIAS) as [TallyAlias, ...TallyAlias[]]),
      {
        description:
          'Names of other software that are taken beside the contract’s, as `UMA_AS_ALIASES` does. None when left out.',
      },
    ),
  },
  check: values => [...serverFaults('UMA_TALLY', values), ...surfaceFaults('UMA_TALLY', values)],
})

/** The settings that `usher tally migrate` needs. */
export const TALLY_MIGRATION_SETTINGS = defineSettings({
  title: 'usher tally migrate',
  settings: { databaseUrl, databaseWaitSeconds: TALLY_SETTINGS.settings.databaseWaitSeconds },
})

/** The configuration of `usher tally`: its settings, and the contents of the files they name. */
export interface TallyConfig extends Values<typeof TALLY_SETTINGS.settings>, ServerFiles {
  accounts: ProvisionedAccount[]
}

/** Loads the files that the settings name. Throws `ConfigFault`. */
export function loadTallyFiles(values: Values<typeof TALLY_SETTINGS.settings>): TallyConfig {
  const config: TallyConfig = {
    ...values,
    keys: [],
    tls: undefined,
    accounts: [],
    realm: undefined,
    traces: undefined,
  }
  collectFaults<void>([
    ...serverFileTasks('UMA_TALLY', values, config),
    () => {
      config.accounts = loadTallyFile(values.provisionFile, values)
    },
  ])
  return config
}
