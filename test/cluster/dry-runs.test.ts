/**
 * Everything that is applied to a cluster, checked by a real API server with the real custom resources: every
 * set of values of the chart, and the manifests of envoy/. contract, "Resource server enforcement point".
 * Nothing is made: the API server says whether it would be.
 */
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { beforeAll, describe, expect, test } from 'vitest'
import { parseAllDocuments } from 'yaml'
import { CHART } from './installed.ts'
import { apply, documents, kubectl, must, tried, type Ended } from './kubernetes.ts'
import { restricted } from './surroundings.ts'

const ROOT = join(import.meta.dirname, '..', '..')
const CRDS = process.env['LAB_CRDS']!
const SETS = join(ROOT, 'test', 'chart', 'values')
const GATEWAYS = join(ROOT, 'envoy')

interface Manifest {
  apiVersion: string
  kind: string
  metadata: { name: string; namespace?: string }
  spec?: { serviceAccountName?: string }
}

const objectsIn = (yaml: string): Manifest[] =>
  parseAllDocuments(yaml)
    .map(document => document.toJS() as Manifest | null)
    // Envoy's own configuration and Istio's mesh configuration are no objects of Kubernetes.
    .filter(object => object !== null)
    .filter(object => 'kind' in object && 'apiVersion' in object)

beforeAll(async () => {
  // Server-side: they are larger than an annotation may be.
  for (const file of readdirSync(CRDS)) await kubectl('apply', '--server-side', '-f', join(CRDS, file))
  await kubectl('wait', '--for=condition=Established', '--all', 'crd', '--timeout=60s')
})

/** Asks the API server what it would make of the objects; it warns of what Pod Security would refuse. */
async function dryRun(objects: Manifest[]): Promise<Ended> {
  const namespaces = new Set(objects.flatMap(({ metadata }) => metadata.namespace ?? []))
  await apply(restricted(...namespaces))
  // A pod alone, which that of `helm test` is, is admitted only if its account is there.
  const accounts = objects.flatMap(({ kind, metadata: { namespace }, spec }) =>
    kind === 'Pod' ? [{ namespace, name: spec?.serviceAccountName ?? 'default' }] : [],
  )
  if (accounts.length > 0)
    await apply(accounts.map(metadata => ({ apiVersion: 'v1', kind: 'ServiceAccount', metadata })))
  return tried('kubectl', ['apply', '--server-side', '--dry-run=server', '-f', '-'], documents(objects))
}

async function wouldBeMade(objects: Manifest[]): Promise<void> {
  const ended = await dryRun(objects)
  expect(ended).toMatchObject({ code: 0, err: '' })
  expect(ended.out.trim().split('\n')).toHaveLength(objects.length)
}

describe('The API server would make everything of', () => {
  test.each(readdirSync(SETS))('the chart with the values %s', async file => {
    const templated = await must('helm', [
      'template',
      'usher',
      CHART,
      '-n',
      'dry',
      '--include-crds',
      '-f',
      join(SETS, file),
    ])
    await wouldBeMade(objectsIn(templated))
  })

  const files = readdirSync(GATEWAYS, { recursive: true })
    .map(String)
    .filter(file => file.endsWith('.yaml'))
    .map(file => ({ file, objects: objectsIn(readFileSync(join(GATEWAYS, file), 'utf8')) }))
    .filter(({ objects }) => objects.length > 0)

  test('at least six files of envoy/', () => {
    expect(files.length).toBeGreaterThanOrEqual(6)
  })

  test.each(files)('envoy/$file', async ({ objects }) => {
    await wouldBeMade(objects)
  })

  test('nothing that a custom resource does not admit', async () => {
    const file = join(GATEWAYS, 'istio', 'authorization-policy.yaml')
    const [policy] = objectsIn(readFileSync(file, 'utf8')) as [Manifest]
    const refused = await dryRun([Object.assign(policy, { spec: { ...policy.spec, action: 'ASK' } })])
    expect([refused.code, refused.err]).toEqual([1, expect.stringContaining('"ASK"')])
  })
})
