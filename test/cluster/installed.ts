/**
 * Owns a release of `charts/usher` in the cluster and what an operator makes for it: namespaces, Secrets,
 * values. The world of the demo, so that its story can be told to it. contract, "Parties".
 */
import { X509Certificate } from 'node:crypto'
import { mkdir, readFile } from 'node:fs/promises'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { connect as connectTls } from 'node:tls'
import { parse } from 'yaml'
import {
  OWNER,
  RESOURCE_PATH,
  writeHousehold,
  writeSidecarFile,
  type Household,
} from '../../src/dev/stack/household.ts'
import type { Stack } from '../../src/dev/stack/stack.ts'
import { startToolServer } from '../../src/dev/stack/tool-server.ts'
import { generatePrivateJwk } from '../../src/wire/signatures/keys.ts'
import { issueCertificate, makeCa, type Pair } from '../support/local-ca.ts'
import { until } from '../support/until.ts'
import { apply, documents, must, podsOf, secret } from './kubernetes.ts'
import { NODE, openRelay } from './relay.ts'
import { bringUp, CHECK, DATABASE_URL, gateway, GATEWAY, postgres, restricted } from './surroundings.ts'

export const NAMESPACE = 'usher'
export const CHART = join(import.meta.dirname, '..', '..', 'charts', 'usher')
const issuer = 'https://usher-authority.usher.svc.cluster.local:9100'
const ownerApi = 'https://usher-owner.usher.svc.cluster.local:9101'
const publicUrl = `https://${GATEWAY}`

export interface World {
  stack: Stack
  ca: Pair
  /** What the release is installed with. */
  values: Record<string, unknown>
  household: Household
}

/** Certificates of one CA for what serves; all may be shown by a client, too. */
const NAMES: Record<'authority' | 'sidecar' | 'gateway', string[]> = {
  authority: [new URL(issuer).hostname, new URL(ownerApi).hostname],
  sidecar: [CHECK],
  gateway: [GATEWAY],
}

function certificateOf(ca: Pair, party: keyof typeof NAMES): Promise<Pair> {
  return issueCertificate(ca, party, { serverAuth: true, clientAuth: true }, NAMES[party])
}

/** Everything that a release needs, and what is around it; the release itself is not made. */
export async function prepare(directory: string): Promise<World> {
  await mkdir(directory, { recursive: true })
  const household = await writeHousehold(join(directory, 'household'), { issuer, publicUrl })
  const ca = await makeCa()
  const toolServer = await startToolServer(0)
  const relay = await openRelay(toolServer.port)
  await apply(restricted(NAMESPACE, 'data', 'tools'))
  const shown = await certificateOf(ca, 'gateway')
  const files = { 'ca.pem': ca.cert, 'cert.pem': shown.cert, 'key.pem': shown.key }
  const port = (relay.address() as AddressInfo).port
  await Promise.all([
    bringUp('data', 'postgres', postgres()),
    apply(await secrets(household, ca)),
    // It listens once a sidecar is healthy, so it is not waited for.
    apply(await gateway(files, { host: NODE, port })),
  ])
  const stop = async (): Promise<void> => {
    relay.close()
    await toolServer.stop()
  }
  const stack: Stack = {
    directory,
    issuer,
    ownerApi,
    authorities: [{ url: issuer, ownerApi }],
    checkPorts: [],
    documentPorts: [],
    publicUrl,
    resource: publicUrl + RESOURCE_PATH,
    household,
    toolServer,
    devLoopback: false,
    children: [],
    restart: () => Promise.reject(new Error('Kubernetes restarts it.')),
    stop,
  }
  return { stack, ca, household, values: await valuesFor(household) }
}

async function secrets(household: Household, ca: Pair): Promise<object[]> {
  const authority = await certificateOf(ca, 'authority')
  const client = await certificateOf(ca, 'gateway')
  const of = (name: string, data: Record<string, string>) => secret(NAMESPACE, name, data)
  const text = (file: string) => readFile(file, 'utf8')
  return [
    of('usher-database', { uri: DATABASE_URL }),
    of('usher-authority-keys', { 'keys.json': await text(household.authorityKeysFile) }),
    of('usher-sidecar-keys', { 'keys.json': await text(household.resourceKeysFile) }),
    of('usher-provisioning', { 'provisioning.yaml': await text(household.provisionFile) }),
    of('usher-client-secrets', { [OWNER]: household.clientSecret }),
    of('usher-authority-tls', { 'tls.crt': authority.cert, 'tls.key': authority.key }),
    (await sidecarCertificate(ca)).object,
    // What `helm test` shows to the check port.
    of('usher-test-client', { 'tls.crt': client.cert, 'tls.key': client.key, 'ca.crt': ca.cert }),
    of('usher-ca', { 'ca.crt': ca.cert }),
  ]
}

/** Gives the sidecars another certificate, and waits until each of them shows it. */
export async function rotateCheckCertificate({ ca }: World): Promise<void> {
  const made = await sidecarCertificate(ca)
  const shown = await certificateOf(ca, 'gateway')
  await apply([made.object])
  const pods = await podsOf(NAMESPACE, 'sidecar')
  for (const pod of pods)
    await until(
      async () => (await certificateShown(pod.status.podIP!, { ca: ca.cert, ...shown })) === made.fingerprint,
      120_000,
    )
}

/** SHA-256 of the certificate that a check port shows to one who may ask it. */
function certificateShown(host: string, client: { ca: string; cert: string; key: string }): Promise<string> {
  return new Promise((resolve, reject) => {
    const socket = connectTls({
      host,
      port: 9191,
      servername: CHECK,
      ALPNProtocols: ['h2'],
      ...client,
    })
    socket.once('secureConnect', () => {
      resolve(socket.getPeerX509Certificate()!.fingerprint256)
      socket.destroy()
    })
    socket.once('error', reject)
  })
}

/** Puts a new signing key before the old one. Answers its kid; who runs the authority restarts it. */
export async function rotateAuthorityKey({ household }: World): Promise<string> {
  const { keys } = JSON.parse(await readFile(household.authorityKeysFile, 'utf8')) as { keys: object[] }
  const jwk = generatePrivateJwk()
  const text = JSON.stringify({ keys: [jwk, ...keys] })
  await apply([secret(NAMESPACE, 'usher-authority-keys', { 'keys.json': text })])
  return jwk.kid
}

/** The Secret with a new certificate of the sidecar, and the CA of those who may ask it. */
async function sidecarCertificate(ca: Pair): Promise<{ object: object; fingerprint: string }> {
  const { cert, key } = await certificateOf(ca, 'sidecar')
  const data = { 'tls.crt': cert, 'tls.key': key, 'ca.crt': ca.cert }
  return {
    object: secret(NAMESPACE, 'usher-sidecar-tls', data),
    fingerprint: new X509Certificate(cert).fingerprint256,
  }
}

/** The demo's sidecar, without what the chart knows by itself. */
async function sidecarConfig(household: Household): Promise<object> {
  const file = await writeSidecarFile(household, {
    name: 'sidecar',
    issuer,
    publicUrl,
    check: '127.0.0.1:1',
    http: '127.0.0.1:2',
    tls: undefined,
    challengesPerMinute: 1_000_000,
    drainMs: 5_000,
  })
  const written = parse(await readFile(file, 'utf8')) as Record<string, unknown> & { owners: object[] }
  const without = (from: object, ...members: string[]): object =>
    Object.fromEntries(Object.entries(from).filter(([name]) => !members.includes(name)))
  const secretFile = { client_secret_file: `/etc/usher/client-secrets/${OWNER}` }
  const owners = written.owners.map(owner => ({ ...without(owner, 'client_secret'), ...secretFile }))
  return { ...without(written, 'listen', 'keys_file'), owners }
}

async function valuesFor(household: Household): Promise<Record<string, unknown>> {
  return {
    image: { repository: 'localhost/usher', tag: 'lab' },
    extraCa: { existingSecret: 'usher-ca' },
    authority: {
      issuer,
      ownerUrl: ownerApi,
      provisioning: { existingSecret: 'usher-provisioning' },
      tls: { existingSecret: 'usher-authority-tls' },
      settings: { UMA_AS_POLL_SECONDS: 0 },
    },
    sidecar: {
      enabled: true,
      config: await sidecarConfig(household),
      clientSecrets: { existingSecret: 'usher-client-secrets' },
      tls: { existingSecret: 'usher-sidecar-tls' },
      documentsTls: { existingSecret: 'usher-sidecar-tls' },
      authorityCa: { existingSecret: 'usher-ca' },
    },
    networkPolicy: {
      gateways: [
        {
          namespaceSelector: { matchLabels: { 'kubernetes.io/metadata.name': 'tools' } },
          podSelector: { matchLabels: { app: 'gateway' } },
        },
      ],
      owners: [{ ipBlock: { cidr: `${NODE}/32` } }],
    },
    test: { clientCertificate: 'usher-test-client' },
  }
}

/** `helm install` or `helm upgrade`, and waits until what it made is ready. */
export async function release(
  action: 'install' | 'upgrade',
  values: object,
  ...more: string[]
): Promise<void> {
  const place = ['--namespace', NAMESPACE, 'usher', CHART]
  await must(
    'helm',
    [action, ...place, '--wait', '--timeout', '180s', '-f', '-', ...more],
    documents([values]),
  )
}
