/**
 * Owns the values of pods that every role has: how many there are, what they may use, and what an operator
 * adds to them. docs/kubernetes.md.
 */
import { z } from 'zod'
import { anyList, anyMap, flag, labelMap, objectName, textMap, whole } from './pieces.ts'

/** Lists of Kubernetes' own, of which only the members that nothing works without are checked here. */
const volumes = z.array(z.looseObject({ name: z.string().min(1) }))
const volumeMounts = z.array(z.looseObject({ name: z.string().min(1), mountPath: z.string().min(1) }))
const containers = z.array(z.looseObject({ name: z.string().min(1), image: z.string().min(1) }))

/** Each becomes a Kubernetes quantity of pods: a number of them, or a part of all. */
const amount = z.union([whole(0, 100), z.string().regex(/^\d{1,3}%$/)])

const autoscaling = z.strictObject({
  enabled: flag(false).describe('Let the number of pods follow their load.'),
  minReplicas: whole(1, 100).default(2).describe('Least number.'),
  maxReplicas: whole(1, 100).default(6).describe('Greatest number.'),
  targetCpuPercent: whole(0, 100)
    .default(70)
    .describe('CPU, in percent of what is requested, that is aimed at. 0: CPU does not count.'),
  targetMemoryPercent: whole(0, 1000)
    .default(0)
    .describe('Memory, in percent of what is requested, that is aimed at. 0: memory does not count.'),
  behavior: anyMap.default({}).describe('How fast it follows, as Kubernetes has it.'),
})

const disruptionBudget = z.strictObject({
  enabled: flag(true).describe('Have one.'),
  minAvailable: amount
    .default(1)
    .describe('How many must stay. With one replica, 1 keeps its node from being drained.'),
  maxUnavailable: z
    .union([z.literal(''), amount])
    .default('')
    .describe('How many may be missing; takes the place of `minAvailable`. Empty: `minAvailable` counts.'),
})

const probe = z.strictObject({
  initialDelaySeconds: whole(0, 3600).optional(),
  periodSeconds: whole(1, 3600).optional(),
  timeoutSeconds: whole(1, 3600).optional(),
  failureThreshold: whole(1, 1000).optional(),
})

/** A probe keeps its path and its port: those are the ones that ask the process about itself alone. */
function probeTimes(what: string) {
  return probe
    .prefault({})
    .describe(
      `Times of the ${what} probe: \`initialDelaySeconds\`, \`periodSeconds\`, \`timeoutSeconds\`, \`failureThreshold\`. One that is left out keeps the chart's own.`,
    )
}

/** The Service that others outside may reach. `of`: which of the Services of the role it is. */
function service(of: string) {
  return z
    .strictObject({
      type: z
        .enum(['ClusterIP', 'NodePort', 'LoadBalancer'])
        .default('ClusterIP')
        .describe('Its type. The other Services of this role stay within the cluster.'),
      annotations: textMap
        .default({})
        .describe('Annotations of this Service alone, beside `serviceAnnotations`.'),
    })
    .prefault({})
    .describe(`The Service of ${of}.`)
}

/**
 * The values of the pods of one role, beside its own settings.
 * `service`: what its public Service serves.
 */
export function podValues(defaults: { replicas: number; resources: object; service: string }) {
  return {
    replicas: whole(0, 100)
      .default(defaults.replicas)
      .describe('How many pods; not used with `autoscaling.enabled`.'),
    resources: anyMap
      .default(defaults.resources as Record<string, unknown>)
      .describe(
        'Requests and limits. Node takes the size of its heap from the memory limit: always set one.',
      ),
    autoscaling: autoscaling.prefault({}).describe('A HorizontalPodAutoscaler.'),
    podDisruptionBudget: disruptionBudget.prefault({}).describe('What voluntary evictions must leave.'),
    startupProbe: probeTimes('startup'),
    readinessProbe: probeTimes('readiness'),
    livenessProbe: probeTimes('liveness'),
    ...scheduling,
    annotations: textMap
      .default({})
      .describe(
        'Annotations of its Deployment or DaemonSet, such as those of a controller that restarts it.',
      ),
    podLabels: labelMap.default({}).describe('Further labels of the pods.'),
    podAnnotations: textMap.default({}).describe('Further annotations of the pods.'),
    ...additions,
    terminationGraceSeconds: whole(0, 900)
      .default(0)
      .describe('0: the drain and 20 seconds more. Never less than the drain and 15.'),
    service: service(defaults.service),
    serviceAnnotations: textMap.default({}).describe('Annotations of all its Services.'),
  }
}

const scheduling = {
  topologySpreadConstraints: anyList.default([]).describe('Empty: spread over zones and nodes if possible.'),
  priorityClassName: objectName.describe('PriorityClass of the pods.'),
  nodeSelector: textMap.default({}).describe('Nodes that they may run on.'),
  tolerations: anyList.default([]).describe('Taints that they tolerate.'),
  affinity: anyMap.default({}).describe('Affinity, as Kubernetes has it.'),
}

/** What an operator adds to the pods, as Kubernetes writes it. */
const additions = {
  extraEnv: anyList
    .default([])
    .describe(
      'Further environment variables as Kubernetes writes them, such as `OTEL_EXPORTER_OTLP_HEADERS` of a Secret.',
    ),
  envFrom: anyList
    .default([])
    .describe(
      'Secrets and ConfigMaps (`secretRef`, `configMapRef`) whose keys become environment variables. What the chart or `extraEnv` sets wins.',
    ),
  extraVolumes: volumes
    .default([])
    .describe('Further volumes of the pods, also of the Job that migrates, as Kubernetes writes them.'),
  extraVolumeMounts: volumeMounts
    .default([])
    .describe('Where the container, also that of the Job that migrates, mounts them.'),
  initContainers: containers
    .default([])
    .describe('Containers that run before it. They must keep to the Pod Security Standard of the namespace.'),
  extraContainers: containers
    .default([])
    .describe('Containers beside it. They must keep to the Pod Security Standard of the namespace.'),
}
