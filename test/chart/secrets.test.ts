/**
 * The Secrets that the pods of a release wait for: the NOTES of the chart list those of the values, and
 * docs/kubernetes.md all of them.
 */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { VALUES } from '../../charts/values/schema.ts'
import { ROOT } from '../support/repository.ts'
import { describeWith } from '../support/requirement.ts'
import { containers, pods, type Pod } from './pods.ts'
import { notesOf, over, rendered, tools, valueSet, VALUE_SETS, type Values } from './render.ts'

/** Every role in one release, with whatever can come from a Secret coming from one. */
const FROM_SECRETS: Values = [
  ...['locked-down', 'ha', 'tally', 'witness', 'organization'].map(valueSet),
  {
    authority: { enabled: true, provisioning: { existingSecret: 'owners', config: {} } },
    tally: { accounts: { existingSecret: 'accounts', config: {} } },
    witness: { issuers: { existingSecret: 'issuers', config: {} } },
    organization: { provisioning: { existingSecret: 'charter', config: {} } },
    sidecar: {
      documentsTls: { existingSecret: 'documents-certificate' },
      authorityCa: { existingSecret: 'authority-ca' },
      trustedNetwork: false,
    },
    test: { clientCertificate: 'usher-test-client' },
  },
].reduce(over)
const RELEASES: [string, Values][] = [
  ...VALUE_SETS.map((name): [string, Values] => [name, valueSet(name)]),
  ['every role, from Secrets', FROM_SECRETS],
]

/** Of `extraEnv` in the value set ha: what an operator adds, the operator knows. */
const ADDED = ['collector']

/** Keys by the name of their Secret. */
type Keys = Map<string, Set<string>>

function keysOf(found: [name: string, keys: string[]][]): Keys {
  const all: Keys = new Map()
  for (const [name, keys] of found) all.set(name, new Set([...(all.get(name) ?? []), ...keys]))
  return all
}

function wantedBy({ spec, ...pod }: Pod): [string, string[]][] {
  const mounted = (spec.volumes ?? []).flatMap(({ secret }): [string, string[]][] =>
    secret === undefined ? [] : [[secret.secretName, (secret.items ?? []).map(({ key }) => key)]],
  )
  const read = containers({ spec, ...pod }).flatMap(({ env = [] }) =>
    env.flatMap(({ valueFrom }): [string, string[]][] =>
      valueFrom?.secretKeyRef === undefined
        ? []
        : [[valueFrom.secretKeyRef.name, [valueFrom.secretKeyRef.key]]],
    ),
  )
  return [...mounted, ...read].filter(([name]) => !ADDED.includes(name))
}

function listedIn(notes: string): [string, string[]][] {
  const [, list] = /It starts once these Secrets are in usher:\n([^]*?)\nA pod that stays/.exec(notes)!
  return list!.split('\n').map(line => {
    const [, name, keys] = /^ {2}(\S+?)(?: \(([^)]*)\))?: \S/.exec(line)!
    return [name!, keys?.split(', ') ?? []]
  })
}

describeWith(tools('helm'), 'the NOTES', ({ helm }) => {
  test.each(RELEASES)(
    '%s: list each Secret that a pod waits for, with its keys, and no other',
    (_name, values) => {
      const wanted = keysOf(pods(rendered(helm, values)).flatMap(wantedBy))
      const listed = keysOf(listedIn(notesOf(helm, values)))
      expect([...listed.keys()].toSorted()).toEqual([...wanted.keys()].toSorted())
      for (const [name, keys] of wanted)
        expect([...listed.get(name)!], name).toEqual(expect.arrayContaining([...keys]))
    },
  )

  test('say of a trusted network that a NetworkPolicy keeps others out only if there is one', () => {
    const trusted = valueSet('sidecar')
    expect(notesOf(helm, trusted)).toContain('The NetworkPolicy keeps others out only if')
    const without = notesOf(helm, over(trusted, { networkPolicy: { enabled: false } }))
    expect(without).toContain('This release has no NetworkPolicy')
    expect(without).not.toContain('The NetworkPolicy keeps')
  })
})

interface Group {
  [member: string]: unknown
}
const isGroup = (value: unknown): value is Group =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

/** Each value that names a Secret, with its default and the defaults of its keys. */
function namedIn(values: Group, path: string[] = []): { value: string; secret: string; keys: string[] }[] {
  const own =
    typeof values['existingSecret'] === 'string'
      ? [
          {
            value: path.join('.'),
            secret: values['existingSecret'],
            keys: ['key', 'issuerKey', 'audienceKey', 'clientCaKey'].flatMap(name =>
              typeof values[name] === 'string' ? [values[name]] : [],
            ),
          },
        ]
      : []
  const inner = Object.entries(values).flatMap(([name, value]) =>
    isGroup(value) ? namedIn(value, [...path, name]) : [],
  )
  return [...own, ...inner]
}

test('docs/kubernetes.md lists each value that names a Secret, with its default name and its keys', () => {
  const page = readFileSync(join(ROOT, 'docs', 'kubernetes.md'), 'utf8')
  const section = page.split('### The Secrets\n')[1]!.split('\n### ')[0]!
  const rows = [...section.matchAll(/^\| `([\w.]+)` +\| ([^|]*) \| ([^|]*) \|$/gm)].map(
    ([, value, secret, keys]) => ({ value: value!, secret: secret!.trim(), keys: keys!.trim() }),
  )
  const all = namedIn(VALUES.parse({}))
  expect(all.length).toBeGreaterThan(25)
  expect(rows.map(({ value }) => value).toSorted()).toEqual(all.map(({ value }) => value).toSorted())
  for (const { value, secret, keys } of all) {
    const row = rows.find(one => one.value === value)!
    expect(row.secret.split(',')[0], value).toBe(secret === '' ? '' : `\`${secret}\``)
    for (const key of keys) expect(row.keys, value).toContain(`\`${key}\``)
  }
})
