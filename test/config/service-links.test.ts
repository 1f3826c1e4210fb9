/** Variables that Kubernetes puts into a pod for each Service beside it: no settings, and no faults. */
import { describe, expect, test } from 'vitest'
import {
  configurationFaults,
  isConfigured,
  readAuthorityConfig,
  readClientConfig,
  readDevConfig,
  readMigrationConfig,
} from '../../src/config.ts'
import { AUTHORITY_SETTINGS } from '../../src/config/authority.ts'
import { CLIENT_SETTINGS } from '../../src/config/client.ts'
import { ORGANIZATION_SETTINGS } from '../../src/config/organization.ts'
import { isServiceLink } from '../../src/config/service-links.ts'
import { SIDECAR_SETTINGS } from '../../src/config/sidecar/sidecar.ts'
import { TALLY_SETTINGS } from '../../src/config/tally.ts'
import { WITNESS_SETTINGS } from '../../src/config/witness/witness.ts'
import { configFolder, faultsOf } from '../support/config-files.ts'

const { keysFile } = configFolder()
const DATABASE = { DATABASE_URL: 'postgres://x' }
const AUTHORITY = { ...DATABASE, UMA_AS_ISSUER: 'https://as.example.com', UMA_AS_KEYS_FILE: keysFile }

/** What the kubelet makes of a Service with two named ports. */
const linksOf = (service: string) => ({
  [`${service}_SERVICE_HOST`]: '10.96.0.7',
  [`${service}_SERVICE_PORT`]: '8080',
  [`${service}_SERVICE_PORT_HTTP_MCP`]: '8080',
  [`${service}_SERVICE_PORT_DNS`]: '53',
  [`${service}_PORT`]: 'tcp://10.96.0.7:8080',
  [`${service}_PORT_8080_TCP`]: 'tcp://10.96.0.7:8080',
  [`${service}_PORT_8080_TCP_PROTO`]: 'tcp',
  [`${service}_PORT_8080_TCP_PORT`]: '8080',
  [`${service}_PORT_8080_TCP_ADDR`]: '10.96.0.7',
  [`${service}_PORT_53_UDP`]: 'udp://[fd00::7]:53',
  [`${service}_PORT_53_UDP_ADDR`]: 'fd00::7',
})

describe('Service links are let pass', () => {
  test.each(['UMA_TOOLS', 'UMA_AS', 'UMA_PEP', 'UMA_AS_LISTEN', 'UMA_2_TOOLS'])(
    'of a Service %s',
    service => {
      const links = linksOf(service)
      expect(faultsOf(() => readAuthorityConfig({ ...AUTHORITY, ...links }))).toEqual([])
      expect(faultsOf(() => readMigrationConfig({ ...DATABASE, ...links }))).toEqual([])
      expect(faultsOf(() => readClientConfig(links))).toEqual([])
      expect(faultsOf(() => readDevConfig(links))).toEqual([])
      const named = (process_: 'sidecar' | 'tally' | 'organization') =>
        configurationFaults(process_, undefined, links).filter(fault => fault.includes('is not a setting'))
      expect([...named('sidecar'), ...named('tally'), ...named('organization')]).toEqual([])
    },
  )

  test.each(Object.entries(linksOf('UMA_TOOLS')))('%s=%s alone', (name, value) => {
    expect(faultsOf(() => readAuthorityConfig({ ...AUTHORITY, [name]: value }))).toEqual([])
  })

  test.each(['UMA_AS', 'UMA_PEP', 'UMA_OWNER'])('and they configure no %s for usher doctor', service => {
    expect(isConfigured(`${service}_`, linksOf(service))).toBe(false)
    expect(isConfigured(`${service}_`, { ...linksOf(service), [`${service}_ISSUER`]: 'x' })).toBe(true)
  })
})

test.each([
  ['UMA_AS_PORT', '9100'],
  ['UMA_AS_TICKET_SECOND', '10'],
  ['UMA_AS_SERVICE', '10.96.0.7'],
  ['UMA_AS_HOST', '10.96.0.7'],
  ['UMA_AS_PORT_HTTP', '80'],
  ['UMA_AS_PORT_80', '80'],
])('%s=%s is a setting that was misspelt, and stops the start', (name, value) => {
  expect(faultsOf(() => readAuthorityConfig({ ...AUTHORITY, [name]: value }))).toEqual([
    expect.stringContaining(`${name} is not a setting`),
  ])
})

test('no setting of ours has the form of a service link, which others could then write', () => {
  const ours = [
    AUTHORITY_SETTINGS,
    ORGANIZATION_SETTINGS,
    TALLY_SETTINGS,
    WITNESS_SETTINGS,
    SIDECAR_SETTINGS,
    CLIENT_SETTINGS,
  ]
    .flatMap(({ settings }) => Object.values(settings))
    .map(({ variable }) => variable)
  expect(ours.length).toBeGreaterThan(50)
  expect(ours.filter(name => isServiceLink(name, { [name]: 'tcp://10.96.0.7:80' }))).toEqual([])
})
