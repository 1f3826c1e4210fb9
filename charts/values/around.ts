/**
 * Owns the values about what stands around the processes: who may reach them, who watches them, and where
 * they are attached.
 */
import { z } from 'zod'
import { anyList, anyMap, flag, givenName, objectName, textMap, whole } from './pieces.ts'

/** Closed: the API server drops a misspelt member, and a selector without members selects every pod. */
const selector = z
  .strictObject({ matchLabels: textMap.optional(), matchExpressions: anyList.optional() })
  .optional()
const peer = z.strictObject({
  podSelector: selector,
  namespaceSelector: selector,
  ipBlock: z.strictObject({ cidr: z.string(), except: z.array(z.string()).optional() }).optional(),
})
const peers = z.array(peer).default([])

export const NETWORK_POLICY = z.strictObject({
  enabled: flag(true).describe(
    'Have NetworkPolicies. They work only if the network of the cluster enforces them.',
  ),
  gateways: peers.describe(
    'Who may reach check and documents ports of the sidecar: peers (`podSelector`, `namespaceSelector`, `ipBlock`) that select the pods of the gateway and no others. **Required** with the sidecar as a Service.',
  ),
  agents: peers.describe(
    'Who may reach the public port of the authority: agents by way of your ingress, and sidecars. Empty: anybody, since it judges every request by itself.',
  ),
  owners: peers.describe('Who may reach the owner API: your ingress for owners. Empty: nobody.'),
  administrators: peers.describe(
    'Who may reach the administration of the organization: your ingress for administrators. Empty: nobody.',
  ),
  monitoring: peers.describe(
    'Who may read metrics: the pods of Prometheus. Empty: nobody. For the sidecar these share a port with the public documents.',
  ),
  egress: z
    .strictObject({
      enabled: flag(false).describe(
        'Also restrict outgoing traffic: only to DNS (port 53), to `databases`, to port 443 anywhere (documents that agents, operators and resource servers publish), from sidecars to the authority of this release, and to `extra`.',
      ),
      databases: peers.describe('The place of Postgres, as peers. Empty: anywhere, at `databasePort`.'),
      databasePort: whole(1, 65_535).default(5432).describe('Its port.'),
      extra: anyList
        .default([])
        .describe(
          'Further egress rules, such as to the receiver of traces, to DNS pods at another port than 53, or to ingress pods at another than 443. What counts is the port of the pod, not that of its Service.',
        ),
    })
    .prefault({})
    .describe('Egress.'),
})

export const METRICS = z.strictObject({
  serviceMonitor: z
    .strictObject({
      enabled: flag(false).describe(
        'Have ServiceMonitors of the Prometheus operator. With `networkPolicy.enabled` name Prometheus in `networkPolicy.monitoring`.',
      ),
      interval: z.string().default('30s').describe('How often they are read.'),
      scrapeTimeout: z
        .string()
        .regex(/^(\d+(ms|[smh]))?$/)
        .default('')
        .describe(
          'How long reading may take, such as 10s; no longer than `interval`. Empty: as Prometheus has it.',
        ),
      relabelings: anyList
        .default([])
        .describe('Changes of the labels of targets, as the Prometheus operator writes them.'),
      metricRelabelings: anyList.default([]).describe('The same of the labels of what was read.'),
      labels: textMap.default({}).describe('Labels by which your Prometheus finds them.'),
    })
    .prefault({})
    .describe('ServiceMonitors.'),
  prometheusRule: z
    .strictObject({
      enabled: flag(false).describe('Have a PrometheusRule with the alerts of docs/operating.md.'),
      labels: textMap.default({}).describe('Labels by which your Prometheus finds it.'),
      alertLabels: textMap.default({}).describe('Further labels of every alert.'),
    })
    .prefault({})
    .describe('Alerts.'),
  dashboard: z
    .strictObject({
      enabled: flag(false).describe('Have a ConfigMap with the dashboard for Grafana.'),
      labels: textMap.default({ grafana_dashboard: '1' }).describe('Labels by which Grafana finds it.'),
    })
    .prefault({})
    .describe('Dashboard.'),
})

const hostName = z.string().regex(/^(\*\.)?[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?$/)

const gatewayRoute = z.strictObject({
  enabled: flag(false).describe('Have an HTTPRoute (Gateway API).'),
  parentRefs: anyList.default([]).describe('Gateways that it hangs on.'),
  extraHostnames: z.array(hostName).default([]).describe('Further host names that it serves.'),
  annotations: textMap.default({}).describe('Its annotations.'),
})

const ingress = z.strictObject({
  enabled: flag(false).describe('Have an Ingress.'),
  className: z.string().default('').describe('Its class.'),
  tlsSecret: objectName.describe('Secret with the certificate of the host.'),
  extraHosts: z
    .array(z.strictObject({ host: hostName, tlsSecret: objectName }))
    .default([])
    .describe('Further hosts that it serves, each with the Secret of its certificate (`tlsSecret`) or none.'),
  exactPaths: flag(true).describe(
    'Have paths matched exactly if nothing is below them. `false`: every path is a prefix, for controllers that know no others (OpenShift).',
  ),
  annotations: textMap.default({}).describe('Its annotations.'),
})

function route(what: string) {
  return z
    .strictObject({
      gatewayApi: gatewayRoute.prefault({}).describe('By the Gateway API.'),
      ingress: ingress.prefault({}).describe('By an Ingress.'),
    })
    .prefault({})
    .describe(what)
}

export const EXPOSE = z.strictObject({
  authority: route('The public paths of the authority, at the host of `authority.issuer`; no others.'),
  ownerApi: route(
    'The owner API and her page, on a route of its own at the host of `authority.ownerUrl` or the issuer. Off by default; name `networkPolicy.owners`, too.',
  ),
  documents: route('The public documents of the sidecar, at the host of `sidecar.config.public_url`.'),
})

/** No wildcard: Istio takes one `*` in a host, and that stands for the port. */
const plainHostName = z.string().regex(/^[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?$/)

const OF_GATEWAY = 'Equal to `body_bytes_max` of the sidecar; taken from `sidecar.config` when left at 0.'

export const ISTIO = z.strictObject({
  enabled: flag(false).describe(
    'Attach an Istio gateway. The part for the mesh configuration is printed after the installation.',
  ),
  namespace: objectName.describe('Namespace of the gateway; empty: of the release.'),
  selector: textMap
    .default({ istio: 'ingressgateway' })
    .describe(
      'Labels of its pods. What the EnvoyFilter says applies to every site behind these pods (docs/kubernetes/istio.md).',
    ),
  hosts: z
    .array(plainHostName)
    .default([])
    .describe(
      'Hosts of your tools, such as tools.example.com: usher is asked about calls to these alone, at any port. A call to another host is let through without a check, so no route may lead such a host to a tool. Empty: usher is asked about every host of the gateway, and calls to other sites behind it are 404.',
    ),
  provider: z
    .string()
    .regex(/^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$/)
    .default('usher')
    .describe('Name of the extension provider.'),
  clientCertificate: objectName.describe(
    'With `sidecar.tls`: the credential (Secret beside the gateway) with which the gateway shows who it is, named in a DestinationRule.',
  ),
  maxRequestBytes: whole(0, 16_777_216).default(0).describe(OF_GATEWAY),
})

export const ENVOY_GATEWAY = z.strictObject({
  enabled: flag(false).describe('Attach routes of Envoy Gateway.'),
  namespace: objectName.describe('Namespace of the routes; empty: of the release.'),
  routes: z
    .array(
      z.strictObject({
        owner: z
          .string()
          .min(1)
          .optional()
          .describe(
            'The one owner that the route is for; left out, the path says who is meant, so that one route serves all.',
          ),
        httpRoute: givenName.describe('Name of your HTTPRoute, which is asked about as a whole.'),
      }),
    )
    .default([])
    .describe('A SecurityPolicy is made for each.'),
  caConfigMap: objectName.describe(
    'With `sidecar.tls`: ConfigMap (key `ca.crt`) with the CA of the certificate of the check port, for a BackendTLSPolicy.',
  ),
  maxRequestBytes: whole(0, 16_777_216).default(0).describe(OF_GATEWAY),
})

export const TEST = z.strictObject({
  url: z
    .string()
    .regex(/^(https?:\/\/[^\s]+)?$/)
    .default('')
    .describe(
      'What `helm test` calls: the URL of one tool endpoint at your gateway, such as https://tools.example.com/mcp/alice. Empty: the sidecar is asked as a gateway would ask.',
    ),
  owner: z
    .string()
    .default('')
    .describe('Owner whose first tool is called; empty: the first of `sidecar.config`.'),
  clientCertificate: objectName.describe(
    'With `sidecar.tls` and no `url`: Secret with a client certificate (`tls.crt`, `tls.key`, `ca.crt`) that the check port takes.',
  ),
  resources: anyMap
    .default({ requests: { cpu: '50m', memory: '64Mi' }, limits: { memory: '128Mi' } })
    .describe('Requests and limits of its pod.'),
})
