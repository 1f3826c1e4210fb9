/**
 * envoy/compose.yaml, without Docker: each thing that it names exists, the files that it makes fit each
 * other, and usher takes them. contract, "Parties". What no test here shows is that the containers come up.
 */
import { execFile } from 'node:child_process'
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { parse } from 'yaml'
import { readAuthorityConfig, readClientConfig, readSidecarConfig } from '../src/config.ts'
import { ENVOY_VERSION } from '../src/dev/stack/envoy-binary.ts'
import { formatListenAddress } from '../src/http/servers/listen-address.ts'
import { ROOT } from './support/repository.ts'

interface Service {
  image: string
  build?: { context: string; target?: string }
  command?: string[]
  network_mode?: string
  environment?: Record<string, string>
  ports?: string[]
  volumes?: string[]
  depends_on?: Record<string, { condition: string }>
  healthcheck?: { test: string[] }
}

const FILE = join(ROOT, 'envoy', 'compose.yaml')
const compose = parse(readFileSync(FILE, 'utf8'), { merge: true }) as {
  services: Record<string, Service>
  volumes: Record<string, null>
}
const services = Object.entries(compose.services)
const dockerfile = readFileSync(join(ROOT, 'Dockerfile'), 'utf8')
const textOf = (service: string): string => JSON.stringify(compose.services[service])

describe('envoy/compose.yaml', () => {
  test('has Postgres, the authority, a sidecar, Envoy and the sample server', () => {
    expect(Object.keys(compose.services)).toEqual(
      expect.arrayContaining(['postgres', 'authority', 'sidecar', 'envoy', 'tools']),
    )
  })

  test('has no member that Compose does not know', () => {
    const known =
      'image build command network_mode environment ports volumes depends_on healthcheck restart read_only cap_drop security_opt user profiles'
    const unknown = services.flatMap(([name, service]) =>
      Object.keys(service)
        .filter(member => !known.split(' ').includes(member))
        .map(member => `${name}.${member}`),
    )
    expect(unknown).toEqual([])
  })

  test.each(services)('%s names services, stages, volumes and files that there are', (_, service) => {
    const joined = /^service:(.+)$/.exec(service.network_mode ?? '')?.[1]
    const named = [...Object.keys(service.depends_on ?? {}), ...(joined === undefined ? [] : [joined])]
    expect(Object.keys(compose.services)).toEqual(expect.arrayContaining(named))
    // Its ports are those of the service that it joined.
    if (joined !== undefined) expect(service.ports).toBeUndefined()
    for (const [dependency, { condition }] of Object.entries(service.depends_on ?? {}))
      if (condition === 'service_healthy')
        expect(compose.services[dependency]!.healthcheck?.test).toBeDefined()
    const { build } = service
    if (build !== undefined) {
      expect(existsSync(join(FILE, '..', build.context, 'Dockerfile'))).toBe(true)
      if (build.target !== undefined)
        expect(dockerfile).toMatch(new RegExp(`^FROM .* AS ${build.target}$`, 'm'))
    }
    for (const [source] of (service.volumes ?? []).map(volume => volume.split(':') as [string]))
      if (source.startsWith('.')) expect(existsSync(join(FILE, '..', source)), source).toBe(true)
      else expect(Object.keys(compose.volumes)).toContain(source)
  })

  test('runs the Envoy that the tests run', () => {
    expect(compose.services['envoy']!.image).toBe(`envoyproxy/envoy:v${ENVOY_VERSION}`)
  })

  test('runs scripts that its stage copies', () => {
    const scripts = services.flatMap(([, { command = [] }]) => command.filter(word => word.endsWith('.ts')))
    expect(scripts.length).toBeGreaterThan(0)
    for (const script of scripts) {
      expect(existsSync(join(ROOT, script)), script).toBe(true)
      expect(dockerfile).toMatch(new RegExp(`^COPY ${script.split('/')[0]} `, 'm'))
    }
  })
})

describe('What its containers read', () => {
  let directory: string
  /** The settings of a service, with its volume where it is here. */
  const environmentOf = (service: string): Record<string, string> =>
    Object.fromEntries(
      Object.entries(compose.services[service]!.environment ?? {}).map(([name, value]) => [
        name,
        value.replace('/household', directory),
      ]),
    )

  beforeAll(async () => {
    directory = mkdtempSync(join(tmpdir(), 'usher-compose-'))
    const command = compose.services['household']!.command!
    const [, script, ...rest] = command.map(word => word.replace('/household', directory))
    await promisify(execFile)(process.execPath, [script!, ...rest], { cwd: ROOT })
  })
  afterAll(() => rmSync(directory, { recursive: true, force: true }))

  test('is kept when it is there already', async () => {
    const before = readFileSync(join(directory, 'sidecar.yaml'), 'utf8')
    await promisify(execFile)(process.execPath, ['src/cli.ts', 'dev', '--files', directory], { cwd: ROOT })
    expect(readFileSync(join(directory, 'sidecar.yaml'), 'utf8')).toBe(before)
  })

  test('is taken by the authority, the sidecar and the command line, and they find each other', () => {
    const authority = readAuthorityConfig(environmentOf('authority'))
    const file = compose.services['sidecar']!.command!.at(-1)!.replace('/household', directory)
    // The file names its keys where the containers have them.
    const sidecar = readSidecarConfig(file, environmentOf('sidecar'))
    const client = readClientConfig(environmentOf('usher'))
    expect(sidecar.owners.map(owner => owner.authority)).toEqual([authority.issuer])
    expect(sidecar.listen.check).toMatchObject({ host: '127.0.0.1' })
    expect(client).toMatchObject({ ownerIssuer: authority.issuer, ownerApi: authority.ownerUrl })
    expect(textOf('authority')).toContain(`${authority.issuer}/ready`)
    expect(textOf('sidecar')).toContain(`http://${formatListenAddress(sidecar.listen.http)}/health`)
  })

  test('has Envoy ask where the sidecar listens, and serve what is published', () => {
    const envoy = parse(readFileSync(join(directory, 'envoy.yaml'), 'utf8')) as Bootstrap
    const { listeners, clusters } = envoy.static_resources
    const published = compose.services['postgres']!.ports!.map(port => Number(port.split(':').at(-1)))
    expect(listeners[0].address.socket_address).toEqual({ address: '0.0.0.0', port_value: 10000 })
    expect(published.toSorted()).toEqual([10000, 9100, 9101].toSorted())
    const ports = clusters.map(({ name, load_assignment }) => [
      name,
      load_assignment.endpoints[0].lb_endpoints[0].endpoint.address.socket_address.port_value,
    ])
    expect(Object.fromEntries(ports)).toEqual({ usher_check: 9191, usher_documents: 9192, tool_server: 9300 })
  })
})

interface Address {
  address: { socket_address: { address: string; port_value: number } }
}

interface Bootstrap {
  static_resources: {
    listeners: [Address]
    clusters: { name: string; load_assignment: { endpoints: [{ lb_endpoints: [{ endpoint: Address }] }] } }[]
  }
}
