/**
 * Writes JSON Schemas of Kubernetes' own kinds and of custom resources, for kubeconform: out of the
 * description of its API that Kubernetes publishes, and out of definitions of custom resources. All are
 * closed, as the API server is to whoever asks for strict validation.
 *
 *   write-schemas.ts DIRECTORY swagger.json crds.yaml…
 */
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { parseAllDocuments } from 'yaml'

interface Schema {
  type?: string | string[]
  properties?: Record<string, Schema>
  additionalProperties?: Schema | boolean
  enum?: unknown[]
  $ref?: string
  [member: string]: unknown
}

interface Definition extends Schema {
  'x-kubernetes-group-version-kind'?: { group: string; version: string; kind: string }[]
}

interface CustomResource {
  kind: string
  spec: {
    group: string
    names: { kind: string }
    versions: { name: string; schema?: { openAPIV3Schema: Schema } }[]
  }
}

const INT_OR_STRING = { oneOf: [{ type: 'string' }, { type: 'integer' }] }
const QUANTITY = 'io.k8s.apimachinery.pkg.api.resource.Quantity'

/** A schema of OpenAPI as one of JSON Schema that admits nothing it does not name. */
function strict(node: unknown): unknown {
  if (Array.isArray(node)) return node.map(strict)
  if (typeof node !== 'object' || node === null) return node
  const given = node as Schema
  if (given['x-kubernetes-int-or-string'] === true || given['format'] === 'int-or-string')
    return INT_OR_STRING
  if (typeof given.$ref === 'string') return { $ref: given.$ref }
  const open =
    given['x-kubernetes-preserve-unknown-fields'] === true || given['x-kubernetes-embedded-resource'] === true
  const kept = Object.entries(given).filter(
    ([name]) => !name.startsWith('x-kubernetes-') && name !== 'format',
  )
  const out = Object.fromEntries(
    kept.map(([name, value]) => [
      name,
      name === 'properties' ? members(value as Record<string, Schema>) : strict(value),
    ]),
  ) as Schema
  if (out.properties !== undefined && out.additionalProperties === undefined && !open)
    out.additionalProperties = false
  return out
}

function members(properties: Record<string, Schema>): Record<string, Schema> {
  return Object.fromEntries(Object.entries(properties).map(([name, of]) => [name, strict(of) as Schema]))
}

const [directory = '', swagger = '', ...crds] = process.argv.slice(2)
mkdirSync(directory, { recursive: true })
const write = (kind: string, group: string, version: string, schema: Schema): void =>
  writeFileSync(
    join(directory, [kind, group.split('.')[0], version].filter(Boolean).join('-').toLowerCase() + '.json'),
    JSON.stringify({ $schema: 'http://json-schema.org/draft-07/schema#', ...schema }),
  )

/** What a definition names, it and all that follow from it. */
function closure(name: string, definitions: Record<string, Schema>): Record<string, Schema> {
  const found: Record<string, Schema> = {}
  const wanted = [name]
  for (let one = wanted.pop(); one !== undefined; one = wanted.pop()) {
    if (found[one] !== undefined) continue
    found[one] = definitions[one]!
    wanted.push(
      ...[...JSON.stringify(found[one]).matchAll(/"#\/definitions\/([^"]+)"/g)].map(([, to]) => to!),
    )
  }
  return found
}

const { definitions } = JSON.parse(readFileSync(swagger, 'utf8')) as {
  definitions: Record<string, Definition>
}
const strictOnes = members(definitions)
strictOnes[QUANTITY] = { oneOf: [{ type: 'string' }, { type: 'number' }] }
/** Of those that a chart may make; the options of requests bear every group's name. */
const KINDS = new Set(
  'ConfigMap DaemonSet Deployment HorizontalPodAutoscaler Ingress Job NetworkPolicy Pod PodDisruptionBudget Secret Service ServiceAccount StatefulSet'.split(
    ' ',
  ),
)
for (const [name, definition] of Object.entries(definitions)) {
  for (const { kind, group, version } of definition['x-kubernetes-group-version-kind'] ?? []) {
    if (KINDS.has(kind))
      write(kind, group, version, { $ref: `#/definitions/${name}`, definitions: closure(name, strictOnes) })
  }
}
for (const file of crds) {
  for (const document of parseAllDocuments(readFileSync(file, 'utf8'))) {
    const given = document.toJS() as CustomResource | null
    if (given?.kind !== 'CustomResourceDefinition') continue
    for (const { name, schema } of given.spec.versions) {
      if (schema === undefined) continue
      const whole = schema.openAPIV3Schema
      whole.properties = {
        ...whole.properties,
        apiVersion: { type: 'string' },
        kind: { type: 'string' },
        metadata: { type: 'object' },
      }
      write(given.spec.names.kind, given.spec.group, name, strict(whole) as Schema)
    }
  }
}
