/**
 * Owns the way to the schemas of Kubernetes' custom resources, which are not part of this repository:
 * `SCHEMAS_DIR` says where they are. They are closed here, as in the API server's strict validation: a member
 * that they do not name is a fault.
 */
import { Ajv } from 'ajv'
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Requirement } from './requirement.ts'

const DIRECTORY =
  process.env['SCHEMAS_DIR'] ?? join(import.meta.dirname, '..', '..', '..', 'shared', 'schemas')

export interface Manifest {
  apiVersion: string
  kind: string
  metadata: { name: string; namespace?: string }
  spec?: Record<string, unknown>
}

/**
 * What is wrong with a manifest, as sentences; none when it is right. Throws if no schema of its kind is
 * here.
 */
export type ManifestCheck = (manifest: Manifest) => string[]

/** The check against the schemas, if they are here. */
export function manifestCheck(): Requirement<ManifestCheck> {
  if (!existsSync(DIRECTORY))
    return { missing: 'SCHEMAS_DIR names no directory with the schemas of custom resources' }
  const compiled = new Map<string, ReturnType<Ajv['compile']>>()
  return {
    found: manifest => {
      const name = fileOf(manifest)
      const validate = compiled.get(name) ?? compile(name)
      compiled.set(name, validate)
      return validate(manifest)
        ? []
        : (validate.errors ?? []).map(error => `${error.instancePath} ${error.message}`)
    },
  }
}

/** `securitypolicy-gateway.envoyproxy.io-v1alpha1.json` */
function fileOf({ apiVersion, kind }: Manifest): string {
  const [group, version] = apiVersion.split('/')
  return `${kind.toLowerCase()}-${group}-${version}.json`
}

function compile(file: string): ReturnType<Ajv['compile']> {
  const schema = JSON.parse(readFileSync(join(DIRECTORY, file), 'utf8')) as Schema
  schema.properties = {
    apiVersion: { type: 'string' },
    kind: { type: 'string' },
    metadata: { type: 'object' },
    ...schema.properties,
  }
  // Formats (int32) say what the types say already; x-kubernetes-… is for the API server.
  return new Ajv({ strict: false, allErrors: true, validateFormats: false }).compile(closed(schema))
}

interface Schema {
  type?: string
  properties?: Record<string, Schema>
  items?: Schema
  additionalProperties?: Schema | boolean
  'x-kubernetes-preserve-unknown-fields'?: boolean
}

/** The schema with every object that names its members closed to others. */
function closed(schema: Schema): Schema {
  const open =
    schema['x-kubernetes-preserve-unknown-fields'] === true || schema.additionalProperties !== undefined
  return {
    ...schema,
    ...(schema.properties && {
      properties: Object.fromEntries(
        Object.entries(schema.properties).map(([name, inner]) => [name, closed(inner)]),
      ),
      ...(open ? {} : { additionalProperties: false }),
    }),
    ...(schema.items && { items: closed(schema.items) }),
    ...(typeof schema.additionalProperties === 'object' && {
      additionalProperties: closed(schema.additionalProperties),
    }),
  }
}
