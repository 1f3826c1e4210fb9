/**
 * Owns the pods that a rendered chart starts, wherever the manifests have them.
 */
import { parse } from 'yaml'
import type { Manifest } from './render.ts'

export interface Container {
  name: string
  image: string
  args?: string[]
  env?: { name: string; value?: string; valueFrom?: { secretKeyRef?: { name: string; key: string } } }[]
  ports?: { name: string; containerPort: number }[]
  resources?: { limits?: { memory?: string }; requests?: { cpu?: string; memory?: string } }
  securityContext?: Record<string, unknown>
  volumeMounts?: { name: string; mountPath: string; readOnly?: boolean }[]
  startupProbe?: Probe
  readinessProbe?: Probe
  livenessProbe?: Probe
}

export interface Probe {
  httpGet?: { path: string; port: string; scheme: string }
  failureThreshold: number
  periodSeconds: number
}

export interface Volume {
  name: string
  secret?: { secretName: string; defaultMode?: number; items?: { key: string; path: string }[] }
  configMap?: { name: string }
}

export interface PodSpec {
  automountServiceAccountToken?: boolean
  enableServiceLinks?: boolean
  securityContext?: Record<string, unknown>
  terminationGracePeriodSeconds?: number
  topologySpreadConstraints?: unknown[]
  priorityClassName?: string
  hostNetwork?: boolean
  hostPID?: boolean
  hostIPC?: boolean
  initContainers?: Container[]
  containers: Container[]
  volumes?: Volume[]
}

/** One pod: whose, its metadata, its spec. */
export interface Pod {
  of: string
  labels: Record<string, string>
  annotations: Record<string, string>
  spec: PodSpec
}

interface Template {
  metadata?: { labels?: Record<string, string>; annotations?: Record<string, string> }
  spec: PodSpec
}

/** The pods of all workloads, tests included, and a gateway's with our patch in it. */
export function pods(all: Manifest[]): Pod[] {
  return all.flatMap(manifest => {
    const template = templateOf(manifest)
    if (template === undefined) return []
    const { metadata = {}, spec } = template
    return [
      {
        of: `${manifest.kind} ${manifest.metadata.name}`,
        labels: metadata.labels ?? {},
        annotations: metadata.annotations ?? {},
        spec,
      },
    ]
  })
}

function templateOf(manifest: Manifest): Template | undefined {
  const patch = manifest.data?.['patch.yaml']
  if (patch !== undefined) return patched(patch)
  if (manifest.kind === 'Pod') return manifest as unknown as Template
  return (manifest.spec as { template?: Template } | undefined)?.template
}

/** A gateway's pod as it should be, with what the patch adds. */
function patched(patch: string): Template {
  const { metadata, spec } = (parse(patch, { version: '1.1' }) as { spec: { template: Template } }).spec
    .template
  const gateway: PodSpec = {
    automountServiceAccountToken: false,
    containers: [],
    securityContext: { runAsNonRoot: true, seccompProfile: { type: 'RuntimeDefault' } },
  }
  return {
    ...(metadata && { metadata }),
    spec: { ...gateway, ...spec, securityContext: { ...gateway.securityContext, ...spec.securityContext } },
  }
}

export function containers({ spec }: Pod): Container[] {
  return [...(spec.initContainers ?? []), ...spec.containers]
}
