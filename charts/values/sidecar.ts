/**
 * Owns the values of the sidecar: its file as docs/configuration.md has it, but for what the chart mounts and
 * opens.
 */
import { z } from 'zod'
import { SIDECAR_FILE } from '../../src/config/sidecar/sidecar-file.ts'
import { SIDECAR_SETTINGS } from '../../src/config/sidecar/sidecar.ts'
import {
  certificate,
  CLIENT_SECRETS,
  dataKey,
  flag,
  mountedSecrets,
  objectName,
  secretKey,
  usherFile,
  variables,
} from './pieces.ts'
import { podValues } from './pods.ts'

/** Written by the chart, which knows where it mounts and what it opens. */
const OWN_MEMBERS = {
  listen: true,
  check_tls: true,
  http_tls: true,
  keys_file: true,
  authority_ca_file: true,
  network_trusted: true,
} as const

const OWN_VARIABLES = ['UMA_PEP_CONFIG', 'ENFORCEMENT_MODE', 'UMA_SPEC_NS', 'UMA_DEV_LOOPBACK'] as const

const existingConfig = z.strictObject({
  existingSecret: objectName.describe(
    'Name of a Secret with the whole file, which is mounted as it is, with every member. Its listen addresses and file names must be those that docs/kubernetes.md lists.',
  ),
  key: dataKey('sidecar.yaml'),
})

const tls = certificate('the certificate of the check port')
  .unwrap()
  .extend({
    clientCaKey: dataKey('ca.crt').describe(
      'Key of the CA whose client certificates may ask, in the same Secret.',
    ),
    clientNames: z
      .array(z.string().min(1))
      .default([])
      .describe(
        'Names of the gateways that may ask, as DNS names or URIs of their certificates (`client_names` of `check_tls`). Empty: every certificate of that CA.',
      ),
  })

export const SIDECAR = z.strictObject({
  enabled: flag(false).describe('Run the enforcement point.'),
  mode: z
    .enum(['service', 'daemonset', 'container'])
    .default('service')
    .describe(
      '`service`: pods of its own behind a headless Service. `daemonset`: one pod on each node, behind a Service that leads each gateway to the pod of its own node and to no other (`internalTrafficPolicy: Local`). `container`: only its files, and a patch that puts it into the pod of a gateway.',
    ),
  config: usherFile(
    SIDECAR_FILE.omit(OWN_MEMBERS),
    'The file of the sidecar (docs/configuration.md) without `listen`, `check_tls`, `http_tls`, `keys_file`, `authority_ca_file` and `network_trusted`, which follow from the values here. Changing it restarts the pods.',
  ),
  existingConfig: existingConfig.prefault({}).describe('The file of a Secret, instead of `config`.'),
  keys: secretKey('the private keys of the resource server, `{"keys": [JWK, …]}`', {
    name: 'usher-sidecar-keys',
    key: 'keys.json',
  }),
  clientSecrets: mountedSecrets(CLIENT_SECRETS, 'Secrets for `client_secret_file` of its owners.'),
  tls: tls
    .prefault({})
    .describe(
      'Mutual TLS of the check ports. This, or `trustedNetwork`, is needed unless `mode` is `container`.',
    ),
  trustedNetwork: flag(false).describe(
    'Says that nobody but the gateway can reach the check ports, because the network keeps others out: anybody who reaches them can spend grants. A NetworkPolicy does that only if the cluster enforces it. Not beside `tls`.',
  ),
  documentsTls: certificate('the certificate of the documents port').describe(
    'TLS of the port of the public documents.',
  ),
  authorityCa: z
    .strictObject({
      existingSecret: objectName.describe('Name of a Secret with the CA of the authorities.'),
      key: dataKey('ca.crt'),
    })
    .prefault({})
    .describe('`authority_ca_file`: trusted for authorities alone, and read again when it changes.'),
  checkHttp: z
    .strictObject({ enabled: flag(false).describe('Open the check over HTTP as well (port 9193).') })
    .prefault({})
    .describe('For gateways that do not speak gRPC; `config.check_http` says how they write.'),
  settings: variables(
    SIDECAR_SETTINGS.settings,
    OWN_VARIABLES,
    'Its variables by their own names (docs/configuration.md).',
  ),
  ...podValues({
    replicas: 2,
    service: 'the public documents (9192)',
    resources: { requests: { cpu: '100m', memory: '128Mi' }, limits: { memory: '256Mi' } },
  }),
})
